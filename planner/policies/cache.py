"""What the policies with an expert cache in HBM share: slots, memory, ordered passes, and what a pass costs.

All routed experts live in host memory; HBM holds copies of some, in the form in which they are stored there. A pass
looks for the experts that its tokens chose: those in the cache are computed at once, the others cross PCIe first,
each once per pass, and then stay as long as the eviction rule lets them. A layer takes

    t_attention + max( t_dense + t_shared + sum of t_expert over all hit,  missing x bytes / B_link + t_last )

where t_last is the compute of the last expert to arrive (the one with the fewest tokens goes last) and everything goes
through the one physics. The cache is simulated (:mod:`planner.cache_kernel`) on decode steps in order, with the
locality, the drift and the turnover of requests that the scenario states, or a trace's own
(:mod:`planner.routing.sequence`): it starts with the experts that the prefill of the same sequences used most, the
first quarter of the passes is warm-up and not timed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from planner.context import Context, Width
from planner.parallel import Layout, replicas_at_work, sequences_per_pass
from planner.physics import attention, experts, transfers
from planner.physics.attention import Rows
from planner.physics.experts import Counts, Stored, spread
from planner.physics.memory import Ledger, host_tier
from planner.physics.operation import Phase, phase_times
from planner.policies.base import TIER_CODE, Placed, Policy, Prepared, mean_expert_bytes, mixed_widths, nowhere
from planner.policies.hybrid import add_dense_side, add_host_kv, counts_rows, host_experts, hybrid_gpu_tier
from planner.result import CacheReport, Details
from planner.routing import RoutingState
from planner.step import Pass

WARM_UP_SHARE = 4
"""One pass in this many, the first ones, fills the cache and is not timed."""
MOST_PASSES, LEAST_PASSES, SMALL_BATCH = 256, 8, 16
LEAST_SMALL_PASSES = 48
"""Passes at small batch: three quarters of these are timed, still more than the 32 that every plan has."""
PASS_TOKENS, PASS_CELLS = 4096, 2**19
"""Work that the history is cut to: sequences, and passes x layers x experts."""
NOTES = (
    "The cache is simulated on decode steps in order, with the locality and turnover of the routing; it starts with "
    "the experts that prefill used most, and the first quarter of the passes is warm-up and not timed.",
    "Cached copies have the form in which host memory stores the experts; the originals stay there.",
)


@dataclass(frozen=True)
class CacheReady(Prepared):
    """Prepared, with the slots of all layers together (room for part of a layer is used too)."""

    slots: int = 0


@dataclass(frozen=True)
class Cached(Placed):
    """Placed, with what the simulation of the cache found. The arrays over passes are the timed ones."""

    content: NDArray[np.bool_]  # [layers, experts] in the cache at the end
    present: NDArray[np.bool_]  # [passes, layers, experts] in the cache when the layer looked
    fetched: NDArray[np.float64]  # [passes, layers] bytes fetched ahead, before the layer looked
    layer_slots: NDArray[np.float64]  # [layers] slots; their mean where all layers share the cache
    warm_up: int  # passes before the timed ones


def history(moe_layers: int, experts_per_layer: int, sequences: int) -> int:
    """Ordered passes to simulate, warm-up included."""
    wanted = min(PASS_TOKENS // sequences, PASS_CELLS // max(moe_layers * experts_per_layer, 1), MOST_PASSES)
    return max(wanted, LEAST_SMALL_PASSES if sequences <= SMALL_BATCH else LEAST_PASSES)


def warm_up_of(passes: int) -> int:
    return passes // WARM_UP_SHARE


class CachePolicy(Policy):
    """All experts in host memory, some of them cached in HBM; the GPU computes them all."""

    needs = ("gpu", "host", "pcie")
    ordered = True
    notes: ClassVar[tuple[str, ...]] = NOTES

    # --- memory ----------------------------------------------------------------------------------------------------
    def forms(self, ctx: Context) -> list[tuple[Width, float]]:
        """Forms in which host memory stores the experts, with the share of experts in each."""
        return ctx.other_widths(self.default_bits)

    def slot_bytes(self, ctx: Context) -> float:
        """HBM bytes of one slot: the widest stored form."""
        return max(w.expert_bytes for w, _ in self.forms(ctx))

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        return self.tiers(ctx, layout, kv_location, resident * ctx.moe_layers, batch, context_tokens)

    def tiers(
        self, ctx: Context, layout: Layout, kv_location: str, slots: int, batch: int, context_tokens: float
    ) -> Ledger:
        """Memory with ``slots`` experts cached in all layers together, a cache in each node."""
        size, stored = self.slot_bytes(ctx), mean_expert_bytes(self.forms(ctx)) * ctx.experts * ctx.moe_layers
        # One expert arrives while another is computed, whatever the number of slots.
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, 0, batch, context_tokens, 2.0 * size / layout.tensor)
        gpu.add("experts", size * slots * layout.data)
        host = host_tier(ctx.machine)
        share = min(1.0, slots / max(ctx.experts * ctx.moe_layers, 1))
        host_experts(ctx, host, stored, layout.data, share)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        return [gpu, host]

    def prepare(self, ctx: Context) -> CacheReady:
        ready = super().prepare(ctx)
        slots, ledger = ready.resident_per_layer * ctx.moe_layers, ready.ledger
        if ctx.scenario.policy.gpu_experts_per_layer is None and ledger[0].short_bytes <= 0:
            room = int(-ledger[0].short_bytes / (self.slot_bytes(ctx) * ready.layout.data))
            slots = min(slots + room, ctx.experts * ctx.moe_layers)
            w = ctx.scenario.workload
            ledger = self.tiers(ctx, ready.layout, ready.kv_location, slots, w.batch, float(ctx.full_context_tokens))
        return CacheReady(
            ready.layout, ready.kv_location, ready.attention_device, ready.resident_per_layer, ledger, slots
        )

    def _attention_device(self, ctx: Context, kv_location: str) -> str:
        """On the GPU, which computes everything, unless the scenario asks for the CPU."""
        asked = ctx.scenario.policy.attention_device
        return "gpu" if asked == "auto" else super()._attention_device(ctx, kv_location)

    # --- routing and placement ---------------------------------------------------------------------------------------
    def steps_wanted(self, ctx: Context) -> int | None:
        sequences = sequences_per_pass(ctx.scenario.workload.batch, self.layout(ctx))
        return history(ctx.moe_layers, ctx.experts, sequences)

    @abstractmethod
    def cached(self, ctx: Context, ready: CacheReady, routing: RoutingState, plain: Placed) -> Cached:
        """Simulate the cache over all of ``routing.counts`` and cut off the warm-up."""

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Cached:
        assert isinstance(ready, CacheReady)
        shape = routing.shape
        plain = Placed(
            np.full(shape, TIER_CODE["streamed"], np.int8),
            np.zeros(shape, bool),
            mixed_widths(routing, self.forms(ctx)),
            tuple(w for w, _ in self.forms(ctx)),
            {
                TIER_CODE["gpu"]: "in the cache after the simulated passes; what is cached changes all the time",
                TIER_CODE["streamed"]: "in host memory after the simulated passes; crosses PCIe when it is hit",
            },
            nowhere(shape),
        )
        found = self.cached(ctx, ready, routing, plain)
        found.tier[found.content] = TIER_CODE["gpu"]
        return found

    # --- passes ----------------------------------------------------------------------------------------------------
    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        assert isinstance(placed, Cached)
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        counts = routing.counts[placed.warm_up :]
        run = self.one_pass(ctx, ready, placed, rows, counts, placed.present, placed.fetched)
        run.repeats = float(self.passes_per_step(ctx, ready.layout))
        run.copies = replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        return run

    def computed_counts(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Counts:
        assert isinstance(placed, Cached)
        return routing.counts[placed.warm_up :]

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        assert isinstance(placed, Cached)
        rows, counts = attention.prefill_rows(ctx, tokens), routing.prefill_counts
        nothing = np.zeros((1, ctx.moe_layers))
        return self.one_pass(ctx, ready, placed, rows, counts, placed.content[None], nothing)

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("stream",)

    def one_pass(
        self,
        ctx: Context,
        ready: Prepared,
        placed: Cached,
        rows: Rows,
        counts: Counts,
        present: NDArray[np.bool_],
        fetched: NDArray[np.float64],
    ) -> Pass:
        """A pass whose missing experts are fetched on demand; ``fetched`` bytes cross during attention."""
        layout = ready.layout
        run = Pass(tokens=rows.tokens, copies=layout.data)
        kv, device = ("gpu", "gpu") if rows.prefill else (ready.kv_location, ready.attention_device)
        attention.add_attention(ctx, run, rows, layout, kv, device)
        if fetched.any():
            transfers.add_host_to_gpu(ctx, run, attention_phase(run), "link", spread(ctx, fetched))
        phase = run.phase("experts, cached and on demand")
        add_dense_side(ctx, run, phase, rows, layout)
        seconds = add_on_gpu(ctx, run, phase, placed, counts, counts > 0, layout)
        add_expert_collective(ctx, run, phase, counts, layout)
        missing = (counts > 0) & ~present
        add_fetched(ctx, run, phase, missing, placed.stored.bytes, seconds)
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout)
        return run

    # --- what there is to tell -------------------------------------------------------------------------------------
    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        assert isinstance(placed, Cached)
        return Details(caches=(self.report(ctx, ready, placed, routing),))

    def report(self, ctx: Context, ready: Prepared, placed: Cached, routing: RoutingState) -> CacheReport:
        counts = routing.counts[placed.warm_up :]
        hit = counts > 0
        missing = (hit & ~placed.present) * placed.stored.bytes
        per_pass = float(missing.sum() + placed.fetched.sum()) / len(counts)
        passes = self.passes_per_step(ctx, ready.layout) * replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        return CacheReport(
            name="Expert cache in HBM",
            slots_per_layer=float(placed.layer_slots.mean()),
            hit_rate=float((hit & placed.present).sum() / max(hit.sum(), 1)),
            warm_up_steps=placed.warm_up,
            steps=len(counts),
            bytes_per_step=per_pass * passes,
        )


def attention_phase(run: Pass) -> Phase:
    return next(p for p in run.phases if p.name == "attention")


def idle_link_s(phase: Phase) -> NDArray[np.float64]:
    """Seconds in which a phase leaves the link to the GPUs alone, mean over contexts and samples, [layers]."""
    total = phase_times(phase).total.mean(axis=(0, 1))
    busy = sum(p.seconds.mean(axis=(0, 1)) for p in phase.pieces if p.lane == "link")
    return np.asarray(np.maximum(total - busy, 0.0))


def add_on_gpu(
    ctx: Context, run: Pass, phase: Phase, placed: Placed, counts: Counts, mask: NDArray[np.bool_], layout: Layout
) -> NDArray[np.float64]:
    """Masked experts computed on the GPU in their stored form; their seconds, [passes, layers, experts]."""
    seconds = np.zeros(counts.shape)
    for index, width in enumerate(placed.widths):
        chosen = mask & (placed.stored.format == index)
        seconds += add_form_on_gpu(ctx, run, phase, counts, chosen, width.expert_bytes, width.format, layout)
    return seconds


def add_form_on_gpu(
    ctx: Context,
    run: Pass,
    phase: Phase,
    counts: Counts,
    mask: NDArray[np.bool_],
    expert_bytes: float,
    fmt: str,
    layout: Layout,
) -> NDArray[np.float64]:
    """Masked experts of one form computed on the GPU, each sliced over the GPUs of the node; their seconds."""
    work = experts.on_gpu(ctx, counts, expert_bytes, fmt, layout.tensor).only(mask)
    seconds = work.seconds
    waits = np.where(work.compute_s >= work.bytes_s, seconds, 0.0)
    phase.add("gpu", "routed_gpu", "gpu_compute", spread(ctx, waits.sum(axis=2)))
    phase.add("gpu", "routed_gpu", "hbm", spread(ctx, (seconds - waits).sum(axis=2)))
    experts.count_gpu(ctx, run.flows, counts, mask, expert_bytes, fmt)
    return seconds


def add_expert_collective(ctx: Context, run: Pass, phase: Phase, counts: Counts, layout: Layout) -> None:
    """All-reduce of the routed output over the GPUs that share each expert, once per layer."""
    if layout.tensor > 1:
        message = np.asarray(ctx.work.is_moe, float) * counts_rows(counts, ctx) * ctx.hidden_bytes
        transfers.add_collective(ctx, run, phase, message * 2.0 * (layout.tensor - 1) / layout.tensor, layout.tensor)


def add_fetched(
    ctx: Context,
    run: Pass,
    phase: Phase,
    missing: NDArray[np.bool_],
    stored_bytes: NDArray[np.float64],
    seconds: NDArray[np.float64],
) -> None:
    """Missing experts cross to the GPU on demand; then the compute of the last one, which nothing is left to hide."""
    moved = (missing * stored_bytes).sum(axis=2)
    transfers.add_host_to_gpu(ctx, run, phase, "link", spread(ctx, moved))
    last = np.where(missing, seconds, np.inf).min(axis=2)
    phase.add("link", "routed_gpu", "hbm", spread(ctx, np.where(np.isfinite(last), last, 0.0)))


def add_on_cpu(
    ctx: Context, run: Pass, phase: Phase, rows: Rows, stored: Stored, counts: Counts, mask: NDArray[np.bool_]
) -> None:
    """Masked experts computed by the CPU from host memory, activations there and back; ``stored`` may be per pass."""
    dram = ctx.machine.dram
    assert dram is not None
    work = experts.on_cpu(ctx, counts, stored).only(mask)
    seconds = work.seconds
    waits = np.where(work.compute_s >= work.bytes_s, seconds, 0.0)
    phase.add("cpu", "routed_cpu", "cpu_compute", spread(ctx, waits.sum(axis=2)))
    phase.add("cpu", "routed_cpu", "dram", spread(ctx, (seconds - waits).sum(axis=2)))
    read = (((counts > 0) & mask) * stored.bytes).sum(axis=2)
    phase.add("dram", "routed_cpu", "dram", spread(ctx, read / dram.bandwidth_bytes_per_s))
    pairs, moved = experts.tokens_and_bytes(counts, mask, stored.bytes)
    run.flows.cpu_flop += 2.0 * ctx.expert_parameters * pairs
    run.flows.dram_bytes += moved
    handed = mask.any(axis=2).mean(axis=0)  # share of the passes in which a layer hands work over
    sent = spread(ctx, handed[None] * rows.tokens * ctx.hidden_bytes)[0]
    transfers.add_round_trip(ctx, run, phase, "cpu", sent)
