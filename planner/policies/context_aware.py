"""Context-aware MoE on CXL-NDP (arXiv 2512.04476): hot experts in HBM, the rest at 1 to 4 bit in near-data memory.

Prefill statistics score each expert, ``S = alpha P~ + (1 - alpha) W~``; the top K of each layer stay in HBM in the
checkpoint's own format. A selector gives the others 1, 2, 3 or 4 bit under an average-bit budget. Placement and widths
are fixed during decode: every selected expert runs where it lives.
"""

from __future__ import annotations

import numpy as np

from models import formats
from planner.context import Context, Width
from planner.errors import PlanError
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention
from planner.physics.experts import Stored
from planner.physics.memory import Ledger
from planner.policies.base import TIER_CODE, Option, Placed, Policy, Prepared, mean_expert_bytes, mixed_widths
from planner.policies.context_selection import (
    BIT_OPTIONS,
    HOT_OPTIONS,
    SELECTED_BITS,
    budget_facts,
    hot_set,
    loss_choice,
    predicted_quality,
    scores,
    select,
)
from planner.policies.hybrid import hybrid_gpu_tier, streamed_prefill
from planner.policies.monde import near_data_ledger, whole_experts
from planner.policies.near_data import BOUNCE, NDP_COMPUTE, check_widths, homes, near_data_pass
from planner.result import Details, MigrationReport
from planner.routing import RoutingState
from planner.step import Pass


class ContextAware(Policy):
    id = "context-aware"
    name = "Context-aware CXL-NDP"
    sentence = (
        "The experts that this context needs most stay in HBM; the others run at 1 to 4 bit in CXL near-data memory."
    )
    source = "Context-Aware MoE on CXL-enabled GPU-NDP systems (arXiv 2512.04476)"
    needs = ("gpu", "pcie", "cxl_ndp")
    default_bits = 3.0
    options = (
        *HOT_OPTIONS,
        *BIT_OPTIONS,
        Option("accept_extrapolation", "bool", False, "show the quality surrogate beyond what it was fitted on"),
        Option("keep_originals", "bool", True, "the native experts stay in CXL memory beside the 1 to 4 bit replicas"),
        Option("fill_hidden", "bool", True, "the move of the hot set runs behind the rest of prefill"),
        NDP_COMPUTE,
        BOUNCE,
    )

    def check(self, ctx: Context) -> None:
        bits = ctx.scenario.policy.weight_bits
        if ctx.scenario.policy.expert_format is None and bits is not None and bits > 4 and bits not in (8, 16):
            raise PlanError(
                f"policy.weight_bits is {bits:g}; the selector takes a mean from 1 to 4 bits (the nearest is 4), and 8 "
                "or 16 store every expert outside HBM alike."
            )
        if self._budget(ctx) is None:
            check_widths(ctx, "cxl_ndp", (w for w, _ in ctx.other_widths()))
        if ctx.option("keep_originals", True):
            check_widths(ctx, "cxl_ndp", (ctx.gpu_width,))  # prefill computes them there

    def _budget(self, ctx: Context) -> float | None:
        """Average bits for the selector; None when one stored format was asked for instead."""
        policy = ctx.scenario.policy
        if policy.expert_format is not None:
            return None
        bits = policy.weight_bits if policy.weight_bits is not None else self.default_bits
        assert bits is not None
        return bits if bits <= 4 else None

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, resident, batch, context_tokens)
        count = ctx.experts * ctx.moe_layers * layout.data
        ledger = near_data_ledger(ctx, layout, 0.0, kv_location, batch, context_tokens)
        devices = ledger[0]

        def add(name: str, size: float) -> None:
            devices.add(name, size * count, size * count / devices.devices * whole_experts(ctx))

        if self._budget(ctx) is not None:
            for bits in SELECTED_BITS:
                add(f"replicas at {bits} bit", ctx.width(formats.format_for_bits(bits)).expert_bytes)
        else:
            add("experts", mean_expert_bytes(ctx.other_widths()))
        if ctx.option("keep_originals", True):
            add("native originals", ctx.gpu_width.expert_bytes)
        return [gpu, *ledger]

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        score = scores(ctx, routing)
        resident = hot_set(ctx, score, ready.resident_per_layer)
        budget = self._budget(ctx)
        widths: tuple[Width, ...]
        if budget is None:
            mixed = ctx.other_widths()
            stored, widths = mixed_widths(score, mixed), tuple(w for w, _ in mixed)
            reason = "not among the most important experts of this context; stored at the width asked for"
        else:
            chosen = select(ctx, score, resident, budget)
            stored, widths = chosen.stored, chosen.widths
            reason = (
                f"not among the most important experts of this context; width chosen under a mean of {budget:g} bits"
            )
        tier = np.where(resident, TIER_CODE["gpu"], TIER_CODE["cxl_ndp"]).astype(np.int8)
        return Placed(
            tier,
            resident,
            stored,
            widths,
            {
                TIER_CODE["gpu"]: "among the most important experts of its layer in the prefill statistics",
                TIER_CODE["cxl_ndp"]: reason,
            },
            homes(ctx, score, "cxl_ndp", np.ones(resident.shape, bool)),
        )

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        run = near_data_pass(
            ctx,
            ready,
            rows,
            "cxl_ndp",
            placed.stored,
            placed.widths[0].format,
            routing.counts,
            placed.resident,
            placed.home,
            move=False,
        )
        run.repeats = float(self.passes_per_step(ctx, ready.layout))
        run.copies = replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        return run

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        """Before the hot set is known: on near-data memory with MoNDE's moves, or streamed; nothing is resident yet."""
        stored, fmt = placed.stored, placed.widths[0].format
        if ctx.option("keep_originals", True):
            shape = placed.resident.shape
            native = ctx.gpu_width
            stored = Stored(np.full(shape, native.expert_bytes), np.full(shape, native.bits), np.zeros(shape, np.int8))
            fmt = native.format
        nothing = np.zeros(placed.resident.shape, bool)
        if mode == "ndp":
            rows = attention.prefill_rows(ctx, tokens)
            home = placed.home
            return near_data_pass(
                ctx, ready, rows, "cxl_ndp", stored, fmt, routing.prefill_counts, nothing, home, move=True
            )
        return streamed_prefill(
            ctx, ready, stored, nothing, routing.prefill_counts, tokens, fmt, overlap=1.0, source="cxl_ndp"
        )

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("ndp", "stream")

    def prompt_extra_s(self, ctx: Context, ready: Prepared, placed: Placed, prefill_s: float) -> float:
        """The move of the hot set into HBM, once per batch of sequences, less what hides behind prefill.

        A layer's hot experts are known when its prefill is done, so they move while the later layers compute; the
        last layer's always shows.
        """
        return self.migration(ctx, placed, prefill_s).exposed_s / ctx.scenario.workload.batch

    def migration(self, ctx: Context, placed: Placed, prefill_s: float) -> MigrationReport:
        link = ctx.machine.cxl_link
        assert link is not None
        moved = float(placed.resident.sum()) * ctx.gpu_width.expert_bytes
        fill = moved / link.bytes_per_s
        layers = max(ctx.moe_layers, 1)
        exposed = fill
        if ctx.option("fill_hidden", True):
            exposed = max(fill - prefill_s * (layers - 1) / layers, fill / layers)
        return MigrationReport(bytes=moved, fill_s=fill, hidden_s=fill - exposed, exposed_s=exposed)

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        """What the bit-width selection chose and what its restriction leaves on the table."""
        budget, kept = self._budget(ctx), ready.resident_per_layer
        if budget is None:
            return Details(facts=budget_facts(ctx, routing, placed.resident, kept, None))
        chosen = select(ctx, scores(ctx, routing), placed.resident, budget)
        return Details(
            selector=chosen.report,
            quality=predicted_quality(ctx, routing, placed.resident, chosen),
            facts=(
                *loss_choice(ctx).facts(ctx.arch.id),
                *budget_facts(ctx, routing, placed.resident, kept, chosen),
            ),
        )

    def plan_notes(self, ctx: Context) -> tuple[str, ...]:
        notes = [f"Losses of the bit-width selector: {loss_choice(ctx).sentence(ctx.arch.id)}."]
        if ctx.scenario.workload.batch > 1:
            notes.append(
                f"At batch {ctx.scenario.workload.batch} the hot set comes from the summed prefill statistics of the "
                "whole batch; the paper places for one sequence at a time."
            )
        return tuple(notes)

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        budget = self._budget(ctx)
        width = f"a mean of {budget:g} bits" if budget is not None else ctx.other_widths()[0][0].name
        return (
            f"{ready.resident_per_layer} of {ctx.experts} experts of each layer in HBM by prefill importance; "
            f"the others at {width} in CXL-NDP."
        )
