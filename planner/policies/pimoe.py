"""PIMoE (DAC'25) and SIEVE (arXiv 2605.11277): experts run in near-data memory, some move to shorten the layer.

    t_layer = max( t_link + compute of the last moved,  t_gpu,  longest near-data unit )

PIMoE starts with all experts near their data and moves the longest-running one to the accelerator until the makespan
stops dropping; each unit holds whole experts, so units are uneven. SIEVE divides every expert over all units, goes
through the experts by tokens, and moves them while the makespan falls.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention, experts
from planner.physics.experts import Counts
from planner.physics.memory import Ledger
from planner.physics.operation import Array, Phase, phase_times
from planner.pim_schedule import moves
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
from planner.policies.hybrid import add_dense_side, add_residents, hybrid_gpu_tier, streamed_prefill, sync_s
from planner.policies.monde import near_data_ledger
from planner.policies.near_data import (
    BOUNCE,
    EXCLUSION,
    NDP_COMPUTE,
    add_moved,
    add_ndp,
    buffer_notes,
    check_widths,
    homes,
    host_read_rate,
    kind_of,
    ndp_of,
)
from planner.result import Details
from planner.routing import RoutingState
from planner.step import Pass


class PiMoe(Policy):
    id = "pimoe"
    name = "PIMoE / SIEVE (near-data memory first)"
    sentence = "Experts run in near-data memory; those that would make a layer longer move to the GPU for the pass."
    source = "PIMoE (DAC'25, from a survey's description) and SIEVE (arXiv 2605.11277)"
    needs = ("gpu", "pcie", "ndp")
    options = (
        Option(
            "rule",
            "choice",
            "pimoe",
            "pimoe: move the longest-running expert of the bottleneck unit while the makespan drops; sieve: experts by "
            "tokens, most first, each divided over all units",
            choices=("pimoe", "sieve"),
        ),
        NDP_COMPUTE,
        EXCLUSION,
        BOUNCE,
    )
    notes = (
        "Published with an accelerator that shares its memory with the PIM units; here the moved experts cross the "
        "link of this machine.",
        "SIEVE's PIM also runs decode attention and learns its times from measurements; here attention stays on the "
        "GPU and times come from this machine's figures.",
        "With several units, the longest-running expert is taken from the unit that takes longest.",
    )

    def check(self, ctx: Context) -> None:
        check_widths(ctx, kind_of(ctx), (w for w, _ in ctx.other_widths()))

    def resident_default(self, ctx: Context) -> int | None:
        return 0

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        each = mean_expert_bytes(ctx.other_widths())
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, resident, batch, context_tokens, 2.0 * each / layout.tensor)
        stored = each * ctx.experts * ctx.moe_layers
        return [gpu, *near_data_ledger(ctx, layout, stored, kv_location, batch, context_tokens)]

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        widths, kind = ctx.other_widths(), kind_of(ctx)
        resident = hottest(routing.profile, ready.resident_per_layer)
        return Placed(
            np.where(resident, TIER_CODE["gpu"], TIER_CODE[kind]).astype(np.int8),
            resident,
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: "among the most loaded experts of its layer, kept in HBM as asked",
                TIER_CODE[kind]: "lives and runs in near-data memory; moves to the GPU where that shortens a pass",
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
        counts = routing.prefill_counts
        if mode == "ndp":
            return self._pass(ctx, ready, placed, attention.prefill_rows(ctx, tokens), counts)
        fmt = placed.widths[0].format
        return streamed_prefill(
            ctx, ready, placed.stored, placed.resident, counts, tokens, fmt, overlap=1.0, source=kind_of(ctx)
        )

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("ndp", "stream")

    def _pass(self, ctx: Context, ready: Prepared, placed: Placed, rows: attention.Rows, counts: Counts) -> Pass:
        layout, kind = ready.layout, kind_of(ctx)
        run = Pass(tokens=rows.tokens, copies=layout.data)
        kv, device = ("gpu", "gpu") if rows.prefill else (ready.kv_location, ready.attention_device)
        attention.add_attention(ctx, run, rows, layout, kv, device)
        phase = run.phase("near-data experts beside GPU experts")
        add_dense_side(ctx, run, phase, rows, layout)
        add_residents(ctx, run, phase, counts, placed.resident, layout)
        moved = self.moved(ctx, placed, counts, _gpu_s(ctx, phase, counts.shape[0]))
        fmt = placed.widths[0].format
        home = None if self._sharded(ctx) else placed.home
        add_moved(ctx, run, phase, kind, placed.stored, fmt, counts, moved, home)
        reads = np.where(moved, placed.stored.bytes, 0.0)
        mask = ~placed.resident & ~moved
        add_ndp(ctx, run, phase, kind, placed.stored, counts, mask, placed.home, reads, sharded=self._sharded(ctx))
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout, sync_s(ctx) if kind == "dimm_ndp" else 0.0)
        return run

    def _sharded(self, ctx: Context) -> bool:
        return str(ctx.option("rule", "pimoe")) == "sieve"

    def moved(self, ctx: Context, placed: Placed, counts: Counts, base_s: Array) -> NDArray[np.bool_]:
        """Experts that move to the GPU in each pass; ``base_s`` [passes, layers] is the GPU's other work."""
        kind, gpu = kind_of(ctx), ctx.machine.gpu
        assert gpu is not None
        ndp, sharded, fmt = ndp_of(ctx, kind), self._sharded(ctx), placed.widths[0].format
        tokens = np.where(placed.resident, 0, counts)
        mapping = str(ctx.option("ndp_compute", "gemv"))
        return moves(
            tokens,
            experts.on_ndp(ctx, tokens, placed.stored, kind, mapping).seconds,
            placed.stored.bytes / host_read_rate(ctx, kind),
            np.full(placed.home.shape, -1) if sharded else placed.home,
            ndp.units,
            placed.stored.bytes / link_rate(ctx, kind),
            experts.on_gpu(ctx, tokens, placed.stored.bytes, fmt, gpu.per_node).seconds,
            base_s,
            sharded,
        )

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details:
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        scratch = Pass(tokens=rows.tokens)
        phase = scratch.phase("GPU")
        add_dense_side(ctx, scratch, phase, rows, ready.layout)
        add_residents(ctx, scratch, phase, routing.counts, placed.resident, ready.layout)
        moved = self.moved(ctx, placed, routing.counts, _gpu_s(ctx, phase, routing.counts.shape[0]))
        each = float(moved.sum(axis=2).mean())
        active = float((routing.counts > 0).sum(axis=2).mean())
        words = f"{each:.1f} of {active:.1f} active experts of a layer, mean over passes."
        return Details(facts=(("Moved to the GPU", words),))

    def plan_notes(self, ctx: Context) -> tuple[str, ...]:
        return buffer_notes(ctx, kind_of(ctx))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        where = "CXL-NDP" if kind_of(ctx) == "cxl_ndp" else "NDP DIMMs"
        rule = "SIEVE's scan by tokens" if self._sharded(ctx) else "PIMoE's rule"
        return f"All {ctx.experts} experts of each layer in {where}; they run there, less those that {rule} moves."


def link_rate(ctx: Context, kind: str) -> float:
    """Bytes/s of experts from near-data memory to the GPUs of a node."""
    ndp, link = ndp_of(ctx, kind), ctx.machine.cxl_link
    if kind == "dimm_ndp":
        return ctx.machine.host_to_gpus_bytes_per_s
    assert link is not None
    inside = ndp.bandwidth_bytes_per_s * ndp.units
    return min(link.bytes_per_s * ndp.units, ctx.machine.host_to_gpus_bytes_per_s, inside)


def _gpu_s(ctx: Context, phase: Phase, passes: int) -> Array:
    """Seconds of the GPU's lane of a phase so far, [passes, moe_layers]."""
    total = phase_times(Phase("GPU", 1.0, [p for p in phase.pieces if p.lane == "gpu"])).total.mean(axis=0)
    return np.broadcast_to(total[:, ctx.moe], (passes, ctx.moe_layers)).copy()
