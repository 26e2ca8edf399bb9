"""HOBBIT (arXiv 2411.01433): every expert in two precisions, the less important ones of a token in the lower.

Weights: everything but routed experts in HBM; all experts in both precisions in host memory; two caches in HBM, one
for each precision, shared by all layers. Which precision a token wants: :mod:`planner.policies.precision_rule`. A
low-precision wish is also served by a high-precision copy. What is missing crosses PCIe,

    t_miss = (f_high W_high + f_low W_low) / B_link,

or, with ``miss_path`` cpu, is computed by the CPU where it lies. The gates of the next layer, applied to this one's
input, tell a share a (``prefetch_accuracy``) of what will be missing one layer ahead; for each wrong guess as many
bytes cross in vain:

    t_layer = max(t_attention, x / B_link) + max(t_dense + t_experts, (missing (2 - a) - x) / B_link + t_last)

with x what the link can move during attention, at most the foreseen bytes. Eviction: weighted recency, frequency in the
sequence, frequency in high precision, and distance to the layer's next turn (:mod:`planner.cache_kernel`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cache_kernel import simulate, starting
from planner.context import Context, Width
from planner.errors import PlanError
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention, transfers
from planner.physics.attention import Rows
from planner.physics.experts import Counts, Stored, spread
from planner.physics.memory import Ledger, host_tier
from planner.policies.base import Option, Placed, Prepared, mean_expert_bytes
from planner.policies.cache import (
    NOTES,
    Cached,
    CachePolicy,
    CacheReady,
    add_expert_collective,
    add_form_on_gpu,
    add_on_cpu,
    attention_phase,
    idle_link_s,
    warm_up_of,
)
from planner.policies.hybrid import add_dense_side, add_host_kv, host_experts, hybrid_gpu_tier, sync_s
from planner.policies.precision_rule import HIGH, LOW, SKIPPED, pass_classes, token_classes
from planner.result import CacheReport, Details
from planner.routing import RoutingState
from planner.step import Pass

LOW_BITS = 4.0
SCORES = ("recency", "frequency", "high", "near")


@dataclass(frozen=True)
class TwoCaches(Cached):
    """``present`` and ``content`` are of the high-precision cache; arrays over passes are the timed ones."""

    wanted: NDArray[np.uint8]  # [passes, layers, experts] classes of the precision rule
    low_present: NDArray[np.bool_]
    low_slots: int


def low_slots_of(ctx: Context, slots: int) -> int:
    return min(int(slots * float(ctx.option("low_slots", 1.0))), ctx.experts * ctx.moe_layers)


class Hobbit(CachePolicy):
    id = "hobbit"
    name = "HOBBIT"
    sentence = (
        "Every expert is kept in two precisions; what a token weights little is fetched in the lower one or skipped, "
        "and each precision has its cache in HBM."
    )
    source = "HOBBIT (arXiv 2411.01433)"
    default_bits = LOW_BITS
    options = (
        Option("t1", "float", 0.6, "gate weight before an expert up to which it is wanted in high precision", (), 0, 1),
        Option("t2", "float", 0.9, "gate weight before an expert beyond which it is skipped; 1 = never", (), 0, 1),
        Option("low_slots", "float", 1.0, "low-precision slots for each high-precision slot", (), 0, 64),
        Option(
            "miss_path",
            "choice",
            "load",
            "load: missing experts cross PCIe and are cached; cpu: the CPU computes them, the caches stay as they are",
            choices=("load", "cpu"),
        ),
        Option("prefetch", "bool", True, "fetch what the next layer's gates foresee; off = all on demand"),
        Option("prefetch_accuracy", "float", 0.96, "share of the missing experts that are foreseen", (), 0, 1),
        *(Option(n, "float", 0.25, f"weight of {n} in the score of a cached expert", (), 0, 1) for n in SCORES),
    )
    notes = (
        *NOTES[:1],
        "Skipping changes what the model computes: a skipped expert's work is neither done nor charged, so such a plan "
        "does less than the routing asks for. Set t2 to 1 to compute everything.",
        "High precision is the weight format of the GPU, low precision is 4 bit unless weight_bits or the expert "
        "format says otherwise (the source pairs FP16 with INT4 and INT8 with INT2). Both lie in host memory.",
        "The source states neither the weights of the score nor the split of HBM between the caches: equal weights and "
        "as many low as high slots are assumed. Statistics are not reset, since one long decode is simulated.",
        "Foreseen is the published accuracy of one layer ahead; how far a wrong guess lies is not stated, so each "
        "is taken to move as many bytes as the expert that it missed.",
        "The source weighs a high-precision miss as four low ones when it judges an eviction rule; here a miss costs "
        "its bytes.",
        "Prefill wants every expert that its tokens choose in high precision.",
    )

    # --- memory ----------------------------------------------------------------------------------------------------
    def forms(self, ctx: Context) -> list[tuple[Width, float]]:
        """The low-precision forms; the high one is that of the GPU."""
        return ctx.other_widths(LOW_BITS)

    def slot_bytes(self, ctx: Context) -> float:
        """HBM bytes of a high-precision slot with its share of low-precision ones."""
        return ctx.gpu_width.expert_bytes + float(ctx.option("low_slots", 1.0)) * self._low_bytes(ctx)

    def _low_bytes(self, ctx: Context) -> float:
        return max(w.expert_bytes for w, _ in self.forms(ctx))

    def tiers(
        self, ctx: Context, layout: Layout, kv_location: str, slots: int, batch: int, context_tokens: float
    ) -> Ledger:
        high, cells = ctx.gpu_width.expert_bytes, ctx.experts * ctx.moe_layers
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, 0, batch, context_tokens, 2.0 * high / layout.tensor)
        gpu.add("experts", high * slots * layout.data)
        gpu.add("experts, low precision", self._low_bytes(ctx) * low_slots_of(ctx, slots) * layout.data)
        host = host_tier(ctx.machine)
        host_experts(ctx, host, high * cells, layout.data, min(1.0, slots / max(cells, 1)))
        host.add("experts, low precision", mean_expert_bytes(self.forms(ctx)) * cells * layout.data)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        return [gpu, host]

    def prepare(self, ctx: Context) -> CacheReady:
        t1, t2 = float(ctx.option("t1", 0.6)), float(ctx.option("t2", 0.9))
        if t1 > t2:
            raise PlanError(
                f"policy.options.t1 is {t1:g} and t2 is {t2:g}: the thresholds cross; t1 must be at most t2."
            )
        if not any(float(ctx.option(name, 0.25)) > 0 for name in SCORES):
            raise PlanError(
                "policy.options recency, frequency, high and near are all 0; at least one must be above 0 to say which "
                "expert a cache keeps."
            )
        low, high = self._low_bytes(ctx), ctx.gpu_width.expert_bytes
        if low >= high:
            raise PlanError(
                f"policy.weight_bits: the low precision takes {low / 1e6:.3g} MB per expert and the high one "
                f"{high / 1e6:.3g} MB; HOBBIT needs fewer bits than {ctx.gpu_width.name}."
            )
        return super().prepare(ctx)

    # --- placement ---------------------------------------------------------------------------------------------------
    def cached(self, ctx: Context, ready: CacheReady, routing: RoutingState, plain: Placed) -> TwoCaches:
        t1, t2 = float(ctx.option("t1", 0.6)), float(ctx.option("t2", 0.9))
        classes = token_classes(routing.gate_weights, t1, t2)
        wanted = pass_classes(routing.counts, classes, routing.tokens_per_pass, ctx.scenario.routing.seed)
        low_slots = low_slots_of(ctx, ready.slots)
        if ctx.option("miss_path", "load") == "cpu":
            first, both = _hottest(routing.context, ready.slots), _hottest(routing.context, ready.slots + low_slots)
            present = np.broadcast_to(first, wanted.shape)
            low_present, content = np.broadcast_to(both & ~first, wanted.shape), first
        else:
            recency, frequency, high, near = (float(ctx.option(name, 0.25)) for name in SCORES)
            weights = (recency, frequency, high, near)
            run = simulate((wanted == HIGH) * 2, ready.slots, weights=weights, start=routing.context)
            present, content = run.present, run.content
            asked = (wanted == LOW) & ~present
            low_present = simulate(asked, low_slots, weights=weights, start=routing.context).present
        warm_up = warm_up_of(len(wanted))
        return TwoCaches(
            **vars(plain),
            content=content,
            present=present[warm_up:],
            fetched=np.zeros((len(wanted) - warm_up, ctx.moe_layers)),
            layer_slots=np.full(ctx.moe_layers, ready.slots / max(ctx.moe_layers, 1)),
            warm_up=warm_up,
            wanted=wanted[warm_up:],
            low_present=low_present[warm_up:],
            low_slots=low_slots,
        )

    # --- passes ----------------------------------------------------------------------------------------------------
    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        assert isinstance(placed, TwoCaches)
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        counts = routing.counts[placed.warm_up :]
        run = self._two_forms(ctx, ready, placed, rows, counts, placed.wanted, placed.present, placed.low_present)
        run.repeats = float(self.passes_per_step(ctx, ready.layout))
        run.copies = replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        return run

    def computed_counts(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Counts:
        """Without the experts that every token of a pass skips."""
        assert isinstance(placed, TwoCaches)
        timed = routing.counts[placed.warm_up :]
        return np.where(placed.wanted == SKIPPED, 0, timed).astype(timed.dtype)

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        assert isinstance(placed, TwoCaches)
        counts = routing.prefill_counts
        wanted = np.where(counts > 0, HIGH, 0).astype(np.uint8)
        none = np.zeros((1, 1, 1), bool)
        rows = attention.prefill_rows(ctx, tokens)
        return self._two_forms(ctx, ready, placed, rows, counts, wanted, placed.content[None], none)

    def _two_forms(
        self,
        ctx: Context,
        ready: Prepared,
        placed: TwoCaches,
        rows: Rows,
        counts: Counts,
        wanted: NDArray[np.uint8],
        present: NDArray[np.bool_],
        low_present: NDArray[np.bool_],
    ) -> Pass:
        layout, hot = ready.layout, ctx.gpu_width
        run = Pass(tokens=rows.tokens, copies=layout.data)
        kv, device = ("gpu", "gpu") if rows.prefill else (ready.kv_location, ready.attention_device)
        attention.add_attention(ctx, run, rows, layout, kv, device)
        served_high = (wanted == HIGH) | ((wanted == LOW) & present)
        served_low = (wanted == LOW) & ~present
        missing_high, missing_low = (wanted == HIGH) & ~present, served_low & ~low_present
        on_cpu = ctx.option("miss_path", "load") == "cpu" and not rows.prefill
        gpu_high, gpu_low = served_high, served_low
        if on_cpu:
            gpu_high, gpu_low = served_high & ~missing_high, served_low & ~missing_low
        moved = (missing_high * hot.expert_bytes + missing_low * placed.stored.bytes).sum(axis=2)
        foreseen, later = self._foreseen(ctx, run, moved)
        if not on_cpu and foreseen.any():
            transfers.add_host_to_gpu(ctx, run, attention_phase(run), "link", foreseen)
        phase = run.phase("experts in two precisions")
        add_dense_side(ctx, run, phase, rows, layout)
        seconds = add_form_on_gpu(ctx, run, phase, counts, gpu_high, hot.expert_bytes, hot.format, layout)
        for index, width in enumerate(placed.widths):
            chosen = gpu_low & (placed.stored.format == index)
            seconds += add_form_on_gpu(ctx, run, phase, counts, chosen, width.expert_bytes, width.format, layout)
        add_expert_collective(ctx, run, phase, counts, layout)
        missing = missing_high | missing_low
        if on_cpu:
            form = Stored(
                np.where(missing_high, hot.expert_bytes, placed.stored.bytes),
                np.where(missing_high, hot.bits, placed.stored.bits),
                placed.stored.format,
                np.where(missing_high, hot.cpu_matrix, placed.stored.matrix),
            )
            add_on_cpu(ctx, run, phase, rows, form, counts, missing)
        else:
            transfers.add_host_to_gpu(ctx, run, phase, "link", later)
            last = np.where(missing, seconds, np.inf).min(axis=2)
            phase.add("link", "routed_gpu", "hbm", spread(ctx, np.where(np.isfinite(last), last, 0.0)))
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout, sync_s(ctx) if on_cpu else 0.0)
        return run

    def _foreseen(
        self, ctx: Context, run: Pass, missing_bytes: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bytes that cross during attention, and those that the experts wait for, [passes, layers]."""
        moved = spread(ctx, missing_bytes)
        if not ctx.option("prefetch", True):
            return np.zeros_like(moved), moved
        accuracy = float(ctx.option("prefetch_accuracy", 0.96))
        room = idle_link_s(attention_phase(run)) * ctx.machine.host_to_gpus_bytes_per_s
        early = np.minimum(moved, room)  # right and wrong guesses together are as many as are missing
        return early, moved * (2.0 - accuracy) - early

    # --- what there is to tell -------------------------------------------------------------------------------------
    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        assert isinstance(placed, TwoCaches)
        wanted = placed.wanted
        reads = max(int((wanted > 0).sum()), 1)
        shares = {name: float((wanted == code).sum()) / reads for name, code in _NAMES}
        low = (wanted == LOW) & (placed.low_present | placed.present)
        high = (wanted == HIGH) & placed.present
        sizes = (ctx.gpu_width.expert_bytes, placed.stored.bytes)
        waste = 2.0 - float(ctx.option("prefetch_accuracy", 0.96)) if ctx.option("prefetch", True) else 1.0
        loads = 0.0 if ctx.option("miss_path", "load") == "cpu" else waste
        caches = tuple(
            CacheReport(
                name=f"{name} precision in HBM",
                slots_per_layer=slots / max(ctx.moe_layers, 1),
                hit_rate=float(found.sum()) / max(int((wanted == code).sum()), 1),
                warm_up_steps=placed.warm_up,
                steps=len(wanted),
                bytes_per_step=float((((wanted == code) & ~found) * size).sum()) / len(wanted) * loads,
            )
            for name, code, found, slots, size in (
                ("High", HIGH, high, ready.slots if isinstance(ready, CacheReady) else 0, sizes[0]),
                ("Low", LOW, low, placed.low_slots, sizes[1]),
            )
        )
        rule = ", ".join(f"{share:.1%} {name}" for name, share in shares.items())
        return Details(caches=caches, facts=(("Precision rule", f"Of the expert reads of a pass: {rule}."),))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        slots = ready.slots if isinstance(ready, CacheReady) else 0
        path = "computed by the CPU" if ctx.option("miss_path", "load") == "cpu" else "fetched over PCIe"
        return (
            f"{slots:,} experts in high and {low_slots_of(ctx, slots):,} in low precision fit in HBM, of "
            f"{ctx.experts * ctx.moe_layers:,}; what is missing is {path}."
        )


_NAMES = (("high", HIGH), ("low", LOW), ("skipped", SKIPPED))


def _hottest(load: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """The experts with the largest shares of their layer's load, over all layers together."""
    content, _ = starting(load, np.zeros(len(load), np.int64), np.array([count]), *load.shape)
    return content.astype(bool)
