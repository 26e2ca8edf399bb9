"""MoNDE (arXiv 2405.18832): all experts in near-data memory; the hottest of each layer are moved to the GPU.

``t_layer = max(sum PMove + compute of the last moved, sum of near-data experts + activation transfers)``.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from planner.context import Context
from planner.errors import PlanError
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention
from planner.physics.memory import Ledger, cxl_tier, host_tier
from planner.policies.base import (
    TIER_CODE,
    Option,
    Placed,
    Policy,
    Prepared,
    hottest,
    mean_expert_bytes,
    mixed_widths,
)
from planner.policies.hybrid import add_host_kv, hybrid_gpu_tier, streamed_prefill
from planner.policies.near_data import (
    BOUNCE,
    EXCLUSION,
    NDP_COMPUTE,
    buffer_notes,
    check_widths,
    homes,
    kind_of,
    moved_hot,
    ndp_of,
    near_data_pass,
)
from planner.result import Details
from planner.routing import RoutingState
from planner.step import Pass


class Monde(Policy):
    id = "monde"
    name = "MoNDE (GPU and near-data memory)"
    sentence = "Experts live in near-data memory and run there; the most loaded of each pass move to the GPU."
    source = "MoNDE (arXiv 2405.18832); the rule for H as re-implemented by the DynaNDE simulator"
    needs = ("gpu", "pcie", "ndp")
    options = (
        Option(
            "hot_experts",
            "int",
            0,
            "experts moved to the GPU per layer and pass; 0 = by the ratio of bandwidths",
            low=0,
            high=100_000,
        ),
        Option(
            "residency",
            "choice",
            "static",
            "experts kept in HBM: none; static: the most loaded of each layer, as many as GPU experts per layer says, "
            "and active ones count towards the experts to move; any-resident: the same, and a layer in which one of "
            "them is active moves nothing",
            choices=("none", "static", "any-resident"),
        ),
        NDP_COMPUTE,
        EXCLUSION,
        BOUNCE,
    )
    notes = (
        "Whether MoNDE keeps moved experts for later passes is not published; here they are used once and dropped.",
        "Nor is whether it keeps any expert in HBM, which moves its decode rate by a factor of 3 at batch 1: see the "
        "option residency, with GPU experts per layer.",
    )

    def check(self, ctx: Context) -> None:
        check_widths(ctx, kind_of(ctx), (w for w, _ in ctx.other_widths()))
        kept = ctx.scenario.policy.gpu_experts_per_layer
        if kept and ctx.option("residency", "static") == "none":
            raise PlanError(
                f"policy.options.residency is 'none', but policy.gpu_experts_per_layer is {kept}; give 0 there, or "
                "static or any-resident here."
            )

    def resident_default(self, ctx: Context) -> int | None:
        return 0

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        each = mean_expert_bytes(ctx.other_widths())
        # Two experts on their way: one arrives while the other is computed.
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, resident, batch, context_tokens, 2.0 * each / layout.tensor)
        return [
            gpu,
            *near_data_ledger(ctx, layout, each * ctx.experts * ctx.moe_layers, kv_location, batch, context_tokens),
        ]

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        widths = ctx.other_widths()
        kind = kind_of(ctx)
        resident = hottest(routing.profile, ready.resident_per_layer)
        tier = np.where(resident, TIER_CODE["gpu"], TIER_CODE[kind]).astype(np.int8)
        return Placed(
            tier,
            resident,
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: "among the most loaded experts of its layer, kept in HBM as asked",
                TIER_CODE[
                    kind
                ]: "lives in near-data memory; moved to the GPU only in passes in which it is among the hottest",
            },
            homes(ctx, routing.profile, kind, np.ones(resident.shape, bool)),
        )

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        run = self._pass(ctx, ready, placed, rows, routing.counts)
        run.repeats = float(self.passes_per_step(ctx, ready.layout))
        run.copies = replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        return run

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        if mode == "ndp":
            return self._pass(ctx, ready, placed, attention.prefill_rows(ctx, tokens), routing.prefill_counts)
        return streamed_prefill(
            ctx,
            ready,
            placed.stored,
            placed.resident,
            routing.prefill_counts,
            tokens,
            placed.widths[0].format,
            overlap=1.0,
            source=kind_of(ctx),
        )

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("ndp", "stream")

    def _pass(self, ctx: Context, ready: Prepared, placed: Placed, rows: attention.Rows, counts: np.ndarray) -> Pass:
        return near_data_pass(
            ctx,
            ready,
            rows,
            kind_of(ctx),
            placed.stored,
            placed.widths[0].format,
            counts,
            placed.resident,
            placed.home,
            move=True,
        )

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details:
        hit = routing.counts > 0
        moved = moved_hot(ctx, routing.counts, placed.resident, kind_of(ctx))
        active, each = float(hit.sum(axis=2).mean()), float(moved.sum(axis=2).mean())
        found = float((hit & placed.resident).sum(axis=2).mean())
        words = (
            f"{each:.2f} of {active:.2f} active experts of a layer, mean over passes; {found:.2f} are in HBM already."
        )
        return Details(facts=(("Moved to the GPU", words),))

    def plan_notes(self, ctx: Context) -> tuple[str, ...]:
        return buffer_notes(ctx, kind_of(ctx))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        where = "CXL-NDP" if kind_of(ctx) == "cxl_ndp" else "NDP DIMMs"
        asked = int(ctx.option("hot_experts", 0))
        rule = f"the {asked} hottest" if asked else "the hottest, as many as the bandwidths balance,"
        return f"All {ctx.experts} experts of each layer in {where}; {rule} move to the GPU in each pass."


def whole_experts(ctx: Context) -> float:
    """Experts of a layer on the fullest CXL device over the mean: each lies on one device."""
    units = ndp_of(ctx, "cxl_ndp").units
    return ceil(ctx.experts / units) * units / ctx.experts


def near_data_ledger(
    ctx: Context, layout: Layout, expert_bytes: float, kv_location: str, batch: int, context_tokens: float
) -> Ledger:
    """Tiers behind the GPU: CXL devices, or host DIMMs that carry the processors, with KV if it lives there."""
    if kind_of(ctx) == "cxl_ndp":
        tier = cxl_tier(ctx.machine)
        tier.add(
            "experts", expert_bytes * layout.data, expert_bytes / ndp_of(ctx, "cxl_ndp").units * whole_experts(ctx)
        )
        if kv_location == "host" and ctx.machine.dram is not None:
            host = host_tier(ctx.machine)
            add_host_kv(ctx, host, kv_location, batch, context_tokens)
            return [tier, host]
        return [tier]
    host = host_tier(ctx.machine, name="Host DIMMs (CPU and NDP share them)")
    host.add("experts", expert_bytes * layout.data)
    add_host_kv(ctx, host, kv_location, batch, context_tokens)
    return [host]
