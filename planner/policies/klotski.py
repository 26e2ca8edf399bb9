"""Klotski (arXiv 2502.06888): n batches pass through a layer together, so that their work hides the experts' transfers.

Weights and KV in HBM as far as they fit, the rest in host memory; the GPU computes everything. The batch of the
scenario is the n batches together. In each layer:

1. while the n batches go through attention and gate one after the other, the K experts that are hottest by popularity
   cross PCIe (and the gate, G, if attention weights stream);
2. when the gates have spoken, the needed cold ones Q follow on demand, in the order hot first, then cold;
3. an expert computes the tokens of all n batches at once and is dropped.

No bubble if (t_A attention of one batch, t_G gate, t_E one expert, t_IO transfers):

    (4)  n t_A                                     >= t_IO(G)
    (5)  n (t_A + t_G)                             >= t_IO(G) + K t_IO(E)
    (6)  n (t_A + t_G) + t_E(hot)                  >= t_IO(G) + (K + 1) t_IO(E)
    (7)  n (t_A + t_G) + t_E(hot) + sum_Q t_E      >= t_IO(G) + (K + |Q|) t_IO(E) + t_IO(A of the next layer)

A KV cache in host memory crosses on the right side of 5 to 7 too. The smallest n that satisfies all is taken; if none
does, the one with the shortest layer. The layer takes the longer of the two sides of (7); besides, no cold expert can
cross before the first batch's gate has spoken:

    t_layer = t_A + t_G + max( (n - 1)(t_A + t_G) + sum t_E,  t_IO - min(K t_IO(E) + t_IO(G), t_A + t_G) )
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.errors import PlanError
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention, experts, transfers
from planner.physics.experts import spread
from planner.physics.memory import Ledger, host_tier, kv_bytes_per_sequence
from planner.physics.operation import Phase, phase_times
from planner.policies.base import (
    TIER_CODE,
    Option,
    Placed,
    Policy,
    Prepared,
    hottest,
    mean_expert_bytes,
    mixed_widths,
    nowhere,
)
from planner.policies.cache import add_expert_collective, add_form_on_gpu, attention_phase, idle_link_s
from planner.policies.even_load import even_counts
from planner.policies.hybrid import add_dense_side, add_host_kv, host_experts, hybrid_gpu_tier
from planner.result import Details
from planner.routing import RoutingState
from planner.step import Pass

CANDIDATES = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64)
"""Numbers of batches that are tried."""
LEFT = ("n t_A", "n (t_A + t_G)", "n (t_A + t_G) + t_E(hot)", "n (t_A + t_G) + all t_E")


@dataclass(frozen=True)
class Sides:
    """The two sides of constraints 4 to 7 for one n, seconds, mean over layers: [4] each."""

    work_s: NDArray[np.float64]
    transfer_s: NDArray[np.float64]

    @property
    def satisfied(self) -> NDArray[np.bool_]:
        return self.work_s >= self.transfer_s

    def layer_s(self, batches: int) -> float:
        """The longer side, and the bubble before the first gate."""
        first = float(self.work_s[1]) / batches
        return first + max(
            float(self.work_s[3]) - first, float(self.transfer_s[3]) - min(float(self.transfer_s[1]), first)
        )


@dataclass(frozen=True)
class KlotskiReady(Prepared):
    batches: int = 1
    sides: Sides | None = None


@dataclass(frozen=True)
class KlotskiPlaced(Placed):
    ahead: NDArray[np.bool_]  # [layers, experts] prefetched: the K most popular ones that are not in HBM


class Klotski(Policy):
    id = "klotski"
    name = "Klotski"
    sentence = (
        "The GPU computes every expert; several batches pass through a layer together while its hottest experts are "
        "prefetched and its cold ones follow on demand."
    )
    source = "Klotski (arXiv 2502.06888)"
    needs = ("gpu", "host", "pcie")
    options = (
        Option("batches", "int", 0, "batches n that pass a layer together; 0 = chosen by the constraints", (), 0, 4096),
        Option("hot_experts", "int", 0, "experts K prefetched in each layer; 0 = top-k, as the source", (), 0, 4096),
        Option(
            "stream_attention",
            "bool",
            False,
            "attention and gate weights cross PCIe too, two layers of them in HBM at a time",
        ),
    )
    notes = (
        "The scenario's batch is all n batches together: with n batches each has batch / n sequences.",
        "The source picks the K hot experts by correlation with the previous layer's, and finds that each one is "
        "used by some batch; here they are the most popular ones of the calibration run, and a wrong one costs its "
        "transfer.",
        "HBM that KV cache, activations and buffers leave free holds the most loaded experts of each layer; set GPU "
        "experts per layer to 0 for none.",
        "n is chosen on an even load. The disk tier of the source is not modelled.",
    )

    # --- memory ----------------------------------------------------------------------------------------------------
    def hot(self, ctx: Context) -> int:
        return min(int(ctx.option("hot_experts", 0)) or ctx.top_k, ctx.experts)

    def _streamed_attention_bytes(self, ctx: Context) -> NDArray[np.float64]:
        """Attention and gate weights of each layer that cross in a pass, [layers]; zero unless asked."""
        if not ctx.option("stream_attention", False):
            return np.zeros(ctx.layers)
        return np.asarray(
            ctx.group_bytes("mixer", np.asarray(ctx.work.mixer_parameters, float))
            + ctx.group_bytes("router", np.asarray(ctx.work.router_parameters, float))
        )

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        each = mean_expert_bytes(ctx.other_widths())
        group = math.ceil(batch / layout.data)
        asked = self._asked(ctx)
        one_batch = math.ceil(group / min(asked or 1, group))
        buffers = (self.hot(ctx) + 2) * each / layout.tensor  # the hot ones, one in use and one on its way
        gpu = hybrid_gpu_tier(ctx, layout, "host", resident, one_batch * layout.data, context_tokens, buffers)
        # Every batch's residual stream waits in HBM while the others pass the layer.
        gpu.add("hidden states", (batch - one_batch * layout.data) * ctx.tokens_per_sequence * ctx.hidden_bytes)
        if kv_location == "gpu":
            gpu.add("KV cache", kv_bytes_per_sequence(ctx, context_tokens, layout) * batch)
        host = host_tier(ctx.machine)
        host_experts(ctx, host, each * (ctx.experts - resident) * ctx.moe_layers, layout.data)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        streamed = float(self._streamed_attention_bytes(ctx).sum())
        if streamed:
            kept = min(1.0, 2.0 / ctx.layers)
            total, fullest = gpu.items["attention"]
            gpu.items["attention"] = (total * kept, fullest * kept)
            host.add("attention", streamed * layout.data)
        return [gpu, host]

    # --- n -----------------------------------------------------------------------------------------------------------
    def _asked(self, ctx: Context) -> int:
        asked = int(ctx.option("batches", 0))
        micro = ctx.scenario.policy.micro_batches
        if asked and micro > 1 and asked != micro:
            raise PlanError(
                f"policy.options.batches is {asked} and policy.micro_batches is {micro}; both are the number of "
                "batches of Klotski: give one of them."
            )
        return asked or (micro if micro > 1 else 0)

    def layout(self, ctx: Context) -> Layout:
        return replace(super().layout(ctx), micro_batches=1)  # all n batches make one pass

    def prepare(self, ctx: Context) -> KlotskiReady:
        ready = super().prepare(ctx)
        group = self.sequences_per_pass(ctx, ready.layout)
        asked = self._asked(ctx)
        counts = even_counts(ctx, group * ctx.tokens_per_sequence)
        candidates = [min(asked, group)] if asked else [n for n in CANDIDATES if n <= group]
        found = [(n, self.sides(ctx, ready, n, counts)) for n in candidates]
        bubble_free = [(n, s) for n, s in found if s.satisfied.all()]
        best = bubble_free[0] if bubble_free else min(found, key=lambda f: f[1].layer_s(f[0]))
        return KlotskiReady(**vars(ready), batches=best[0], sides=best[1])

    def sides(
        self,
        ctx: Context,
        ready: Prepared,
        batches: int,
        counts: NDArray[np.int32],
        placed: KlotskiPlaced | None = None,
    ) -> Sides:
        """Both sides of constraints 4 to 7 with ``batches`` batches; mean over MoE layers and samples.

        Without a placement, resident and prefetched experts take their share of an even load.
        """
        phase = attention_phase(self._attention(ctx, ready, batches))
        # A KV cache that lies in host memory crosses the same link: it belongs to the transfers.
        shipped = ready.kv_location == "host" and ready.attention_device == "gpu"
        pieces = [p for p in phase.pieces if not shipped or p.lane not in ("link", "dram")]
        seconds = phase_times(Phase("attention", phase.overlap, pieces)).total.mean(axis=(0, 1))[ctx.moe] * batches
        kv = sum(p.seconds.mean(axis=(0, 1))[ctx.moe] for p in phase.pieces if p.lane == "link") * batches
        kv_s = float(np.mean(kv))
        width = ctx.gpu_width
        hot = min(self.hot(ctx), ctx.experts - ready.resident_per_layer)
        work = experts.on_gpu(ctx, counts, width.expert_bytes, width.format, ready.layout.tensor).seconds
        hit = float((counts > 0).sum(axis=2).mean())
        if placed is None:
            cold = max(hit * (1.0 - ready.resident_per_layer / ctx.experts) - hot, 0.0)
        else:
            kept = placed.resident | placed.ahead
            cold = float(((counts > 0) & ~kept).sum(axis=2).mean())
        rate = ctx.machine.host_to_gpus_bytes_per_s
        one_expert = mean_expert_bytes(ctx.other_widths()) / rate
        streamed = float(self._streamed_attention_bytes(ctx)[ctx.moe].mean()) / rate
        attention_s, expert_s = float(seconds.mean()), float(work.sum(axis=2).mean())
        first = expert_s / max(hit, 1.0) * hot
        # Gate and attention weights cross together; t_G is part of the attention phase of each batch.
        return Sides(
            np.array([attention_s, attention_s, attention_s + first, attention_s + expert_s]),
            np.array(
                [
                    streamed,
                    streamed + kv_s + hot * one_expert,
                    streamed + kv_s + (hot + 1) * one_expert,
                    streamed + kv_s + (hot + cold) * one_expert,
                ]
            ),
        )

    # --- with routing ----------------------------------------------------------------------------------------------
    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> KlotskiPlaced:
        widths = ctx.other_widths()
        resident = hottest(routing.profile, ready.resident_per_layer)
        ahead = hottest(np.where(resident, -1.0, routing.profile), self.hot(ctx)) & ~resident
        return KlotskiPlaced(
            np.where(resident, TIER_CODE["gpu"], TIER_CODE["streamed"]).astype(np.int8),
            resident,
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: "among the most loaded experts of its layer; HBM has room for these",
                TIER_CODE["streamed"]: "in host memory; crosses PCIe once for all batches and is dropped after use",
            },
            nowhere(resident.shape),
            ahead,
        )

    def _attention_device(self, ctx: Context, kv_location: str) -> str:
        """On the GPU, as the source, unless the scenario asks for the CPU."""
        asked = ctx.scenario.policy.attention_device
        return "gpu" if asked == "auto" else super()._attention_device(ctx, kv_location)

    def _attention(self, ctx: Context, ready: Prepared, batches: int) -> Pass:
        group = self.sequences_per_pass(ctx, ready.layout)
        rows = attention.decode_rows(ctx, math.ceil(group / batches))
        one = Pass(tokens=rows.tokens)
        attention.add_attention(ctx, one, rows, ready.layout, ready.kv_location, ready.attention_device)
        return one

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        assert isinstance(ready, KlotskiReady) and isinstance(placed, KlotskiPlaced)
        layout, n, counts = ready.layout, ready.batches, routing.counts
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, layout))
        run = Pass(tokens=rows.tokens, copies=replicas_at_work(ctx.scenario.workload.batch, layout))
        one = self._attention(ctx, ready, n)
        first, rest = attention_phase(one), run.phase("attention")
        for phase in one.phases:  # latency and the like: once for each batch
            if phase is not first:
                other = run.phase(phase.name, phase.overlap)
                for piece in phase.pieces:
                    other.add(piece.lane, piece.part, piece.resource, piece.seconds * n)
        rest.pieces.extend(first.pieces)
        run.flows = one.flows.scaled(float(n))
        ahead = (placed.ahead * placed.stored.bytes).sum(axis=1)[None]
        needed = ((counts > 0) & ~placed.resident & ~placed.ahead) * placed.stored.bytes
        streamed = self._streamed_attention_bytes(ctx)[None]
        ahead_bytes = spread(ctx, ahead) + streamed
        room = idle_link_s(first) * ctx.machine.host_to_gpus_bytes_per_s
        early = np.minimum(ahead_bytes, room)
        transfers.add_host_to_gpu(ctx, run, rest, "link", early)
        # From the first gate on, the other batches and the experts run beside the rest of the transfers.
        beside = run.phase("other batches and experts beside transfers")
        if n > 1:
            for piece in first.pieces:
                beside.add(piece.lane, piece.part, piece.resource, piece.seconds * (n - 1))
        transfers.add_host_to_gpu(ctx, run, beside, "link", ahead_bytes - early + spread(ctx, needed.sum(axis=2)))
        self._experts(ctx, run, placed, routing, rows, layout)
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout)
        return run

    @staticmethod
    def _experts(
        ctx: Context, run: Pass, placed: Placed, routing: RoutingState, rows: attention.Rows, layout: Layout
    ) -> None:
        """Dense side and all experts of the group, each read once for all batches, in the last phase of the pass."""
        phase, counts, hot = run.phases[-1], routing.prefill_counts if rows.prefill else routing.counts, ctx.gpu_width
        add_dense_side(ctx, run, phase, rows, layout)
        add_form_on_gpu(ctx, run, phase, counts, placed.resident[None], hot.expert_bytes, hot.format, layout)
        for index, width in enumerate(placed.widths):
            mask = ~placed.resident & (placed.stored.format == index)
            add_form_on_gpu(ctx, run, phase, counts, mask[None], width.expert_bytes, width.format, layout)
        add_expert_collective(ctx, run, phase, counts, layout)

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        rows, counts = attention.prefill_rows(ctx, tokens), routing.prefill_counts
        run = Pass(tokens=rows.tokens, copies=ready.layout.data)
        attention.add_attention(ctx, run, rows, ready.layout, "gpu", "gpu")
        phase = run.phases[-1]
        # The prompts of the group hide transfers as decode batches do: one phase, the longer side.
        moved = ((counts > 0) & ~placed.resident) * placed.stored.bytes
        transfers.add_host_to_gpu(
            ctx, run, phase, "link", spread(ctx, moved.sum(axis=2)) + self._streamed_attention_bytes(ctx)[None]
        )
        self._experts(ctx, run, placed, routing, rows, ready.layout)
        attention.add_head(ctx, run, rows, ready.layout)
        attention.add_overhead(ctx, run, rows, ready.layout)
        return run

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("stream",)

    # --- what there is to tell -------------------------------------------------------------------------------------
    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        assert isinstance(ready, KlotskiReady) and isinstance(placed, KlotskiPlaced)
        group = self.sequences_per_pass(ctx, ready.layout)
        sides = self.sides(ctx, ready, ready.batches, routing.counts, placed)
        facts = [("Batches", f"n = {ready.batches} batches of {math.ceil(group / ready.batches)} sequences.")]
        for number, name, work, transfer in zip((4, 5, 6, 7), LEFT, sides.work_s, sides.transfer_s, strict=True):
            verdict = "holds" if work >= transfer else "does not hold"
            facts.append(
                (
                    f"Constraint {number}",
                    f"{name} = {work * 1e3:.3g} ms against {transfer * 1e3:.3g} ms of transfers: it {verdict}.",
                )
            )
        if not sides.satisfied.all():
            facts.append(("Bubble-free at", self._enough(sides, ready.batches, group)))
        return Details(facts=tuple(facts))

    @staticmethod
    def _enough(sides: Sides, batches: int, group: int) -> str:
        """How many batches of this size would hide the transfers, at this load of the experts."""
        each = sides.work_s[0] / batches
        fixed = sides.work_s - sides.work_s[0]
        needed = math.ceil(float(((sides.transfer_s - fixed) / each).max()))
        size = math.ceil(group / batches)
        return f"About {needed:,} batches of {size:,} would hide the transfers: {needed * size:,} sequences in flight."

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        batches = ready.batches if isinstance(ready, KlotskiReady) else 1
        return (
            f"{batches} batches pass each layer together; {ready.resident_per_layer} of its {ctx.experts} experts in "
            f"HBM, {self.hot(ctx)} prefetched, the others on demand."
        )
