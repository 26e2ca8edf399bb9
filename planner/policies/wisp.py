"""WiSP (arXiv 2606.21868): a pager of experts without prefetching; HBM goes where a byte saves most time.

Weights: everything but routed experts in HBM, all experts in host memory, an LRU cache of experts in each layer. The
GPU computes everything; what is missing is fetched on demand and nothing else crosses the link: at low concurrency the
link is the bottleneck, so only bytes that are avoided count.

HBM beyond the KV cache of the running sequences (the floor) is shared out by marginal value, seconds per output token
and byte:

    slot c of layer l   hits_l(c) t_PCIe / W         hits_l(c): further hits per pass, from reuse distances (LRU stack)
    KV of one session   t_again / (S n_out) / KV     t_again: prefill of the prompt share that a kept session saves

Slots are valued on the concave hull of each layer's hits, so the best next byte first is the best split. ``S`` idle
sessions (option ``sessions``) come back at random; a request whose session was not kept computes its whole prompt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.cache_kernel import simulate, stack_positions
from planner.context import Context
from planner.physics.memory import kv_bytes_per_sequence
from planner.policies.base import Option, Placed, Prepared
from planner.policies.cache import NOTES, Cached, CachePolicy, CacheReady, history, warm_up_of
from planner.result import Details
from planner.routing import RoutingState, routing_state
from planner.step import Pass, time_pass

SPLIT_SEQUENCES = 64
"""The split between experts and sessions is decided on at most so many of the batch's sequences."""


@dataclass(frozen=True)
class WispReady(CacheReady):
    """Prepared, with the idle sessions that HBM keeps and what computing one again costs."""

    kept: int = 0
    again_s: float = 0.0


class Wisp(CachePolicy):
    id = "wisp"
    name = "WiSP"
    sentence = (
        "The GPU computes every expert from an LRU cache in each layer, without prefetching; HBM is shared between "
        "experts and KV cache by what a byte saves."
    )
    source = "WiSP (arXiv 2606.21868)"
    kv_choices = ("gpu",)
    options = (
        Option(
            "sessions",
            "int",
            0,
            "conversations besides those that decode, whose KV cache HBM may keep until they come back; "
            "prefix_hit_share of the prompt is what a kept one saves",
            low=0,
            high=100_000,
        ),
        Option(
            "slots",
            "choice",
            "marginal",
            "marginal: each layer gets slots by the hits that they add; equal: the same number in each layer",
            choices=("marginal", "equal"),
        ),
    )
    notes = (
        *NOTES,
        "Slots of each layer are learnt from the reuse distances of the warm-up passes and timed on the later ones.",
        "KV of the running sequences at full context is the floor and always in HBM. The value of KV beyond it is "
        "avoided prefill of sessions that come back; admission delay is queueing and is left out.",
        "The source measured an eager engine; switch captured graphs off to compare with it.",
    )

    # --- sharing out HBM ---------------------------------------------------------------------------------------------
    def prepare(self, ctx: Context) -> WispReady:
        ready = super().prepare(ctx)
        kept, again_s = 0, 0.0
        sessions = int(ctx.option("sessions", 0))
        if sessions and ctx.scenario.workload.prefix_hit_share > 0 and ready.ledger[0].short_bytes <= 0:
            again_s = self._again_s(ctx, ready)
            ready, kept = self._shared_out(ctx, ready, sessions, again_s)
        return WispReady(**vars(ready), kept=kept, again_s=again_s)

    def _shared_out(self, ctx: Context, ready: CacheReady, sessions: int, again_s: float) -> tuple[CacheReady, int]:
        """Slots and kept sessions, the best next byte first; a session is worth the same as the one before."""
        w = ctx.scenario.workload
        layout = ready.layout
        kv = kv_bytes_per_sequence(ctx, float(ctx.full_context_tokens), layout)  # of one replica
        size = self.slot_bytes(ctx) * layout.data
        transfer_s = self.slot_bytes(ctx) / ctx.machine.host_to_gpus_bytes_per_s
        gains, _ = best_first(self._hits(ctx, ready))
        worth = gains * transfer_s / size
        session_worth = again_s / (sessions * w.output_tokens) / kv
        room = ready.slots * size - ready.ledger[0].short_bytes
        better = int((worth >= session_worth).sum())
        if ctx.scenario.policy.gpu_experts_per_layer is not None:
            better = ready.slots
        slots = min(better, int(room / size))
        kept = min(sessions, int((room - slots * size) / kv))
        if ctx.scenario.policy.gpu_experts_per_layer is None:
            slots = min(int((room - kept * kv) / size), ctx.experts * ctx.moe_layers)
        ledger = self.tiers(ctx, layout, ready.kv_location, slots, w.batch, float(ctx.full_context_tokens))
        ledger[0].add("KV cache of idle sessions", kept * kv)
        return replace(ready, slots=slots, resident_per_layer=slots // ctx.moe_layers, ledger=ledger), kept

    def _hits(self, ctx: Context, ready: CacheReady) -> NDArray[np.float64]:
        sequences = min(self.sequences_per_pass(ctx, ready.layout), SPLIT_SEQUENCES)
        state = routing_state(
            ctx.scenario.routing, ctx.arch.id, ctx.moe_layers, ctx.experts, ctx.top_k, sequences,
            ctx.tokens_per_sequence, ctx.scenario.workload.prompt_tokens, 1,
            ctx.scenario.routing.steps or history(ctx.moe_layers, ctx.experts, sequences), ctx.request_steps,
        )  # fmt: skip
        return learnt_hits(state)

    def _again_s(self, ctx: Context, ready: CacheReady) -> float:
        """Prefill of a whole prompt less that of its new part, one prompt alone, no expert in HBM."""
        w = ctx.scenario.workload
        whole = replace(
            ctx, scenario=ctx.scenario.model_copy(update={"workload": w.model_copy(update={"prefix_hit_share": 0.0})})
        )
        return max(0.0, self._prompt_s(whole, ready) - self._prompt_s(ctx, ready))

    def _prompt_s(self, ctx: Context, ready: CacheReady) -> float:
        passes = math.ceil(ctx.new_prompt_tokens / ctx.chunk_tokens)
        tokens = math.ceil(ctx.new_prompt_tokens / passes)
        state = routing_state(
            ctx.scenario.routing, ctx.arch.id, ctx.moe_layers, ctx.experts, ctx.top_k, 1, 1,
            ctx.scenario.workload.prompt_tokens, tokens, 1,
        )  # fmt: skip
        empty = replace(ready, slots=0, resident_per_layer=0)
        run: Pass = self.prefill(ctx, empty, self.place(ctx, empty, state), state, "stream", tokens)
        return time_pass(run, ctx.machine).step.total_s * passes

    # --- routing and placement -------------------------------------------------------------------------------------
    def cached(self, ctx: Context, ready: CacheReady, routing: RoutingState, plain: Placed) -> Cached:
        slots = np.full(ctx.moe_layers, ready.slots // ctx.moe_layers)
        slots[: ready.slots % ctx.moe_layers] += 1
        if ctx.option("slots", "marginal") == "marginal":
            _, layers = best_first(learnt_hits(routing))
            slots = np.bincount(layers[: ready.slots], minlength=ctx.moe_layers)
        run = simulate((routing.counts > 0).astype(np.uint8), slots, start=routing.context)
        warm_up = warm_up_of(len(routing.counts))
        return Cached(
            **vars(plain),
            content=run.content,
            present=run.present[warm_up:],
            fetched=np.zeros((len(routing.counts) - warm_up, ctx.moe_layers)),
            layer_slots=slots.astype(float),
            warm_up=warm_up,
        )

    def prompt_extra_s(self, ctx: Context, ready: Prepared, placed: Placed, prefill_s: float) -> float:
        """Prompts whose session was not kept are computed whole."""
        sessions = int(ctx.option("sessions", 0))
        if not isinstance(ready, WispReady) or not sessions:
            return 0.0
        return ready.again_s * (1.0 - ready.kept / sessions)

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        assert isinstance(placed, Cached) and isinstance(ready, WispReady)
        least, most = int(placed.layer_slots.min()), int(placed.layer_slots.max())
        facts = [("Slots by layer", f"From {least} to {most} of {ctx.experts} experts of a layer are cached.")]
        sessions = int(ctx.option("sessions", 0))
        if sessions:
            facts.append(
                (
                    "Idle sessions",
                    f"HBM keeps the KV cache of {ready.kept:,} of {sessions:,} idle sessions; computing one again "
                    f"would take {ready.again_s:.3g} s.",
                )
            )
        return Details(caches=(self.report(ctx, ready, placed, routing),), facts=tuple(facts))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        slots = ready.slots if isinstance(ready, CacheReady) else 0
        return (
            f"{slots:,} of {ctx.experts * ctx.moe_layers:,} experts fit in the LRU caches of the layers; "
            "what is missing crosses PCIe on demand."
        )


def learnt_hits(routing: RoutingState) -> NDArray[np.float64]:
    """Hits per pass that slot c adds in each layer, [layers, experts], from the warm-up passes (from all, if none)."""
    learnt = routing.counts[: warm_up_of(len(routing.counts)) or None]
    return stack_positions((learnt > 0).astype(np.uint8), routing.context) / len(learnt)


def best_first(added: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Order in which slots go to layers: gain of each step and the layer that gets it, [layers x experts].

    added: hits that slot c of layer l adds. Within a layer slots go in order, so a slot that adds little before one
    that adds much is valued with it: the slopes of the concave hull of the layer's hits.
    """
    hull = np.stack([_hull_slopes(row) for row in added])
    layers, slots = (index.ravel() for index in np.indices(added.shape))
    order = np.lexsort((layers, slots, -hull.ravel()))  # equal gains: evenly over the layers
    return hull.ravel()[order], layers[order]


def _hull_slopes(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pool adjacent slots until gains do not rise (pool adjacent violators)."""
    sums: list[float] = []
    sizes: list[int] = []
    for gain in row:
        sums.append(float(gain))
        sizes.append(1)
        while len(sums) > 1 and sums[-1] * sizes[-2] > sums[-2] * sizes[-1]:
            total, size = sums.pop(), sizes.pop()
            sums[-1] += total
            sizes[-1] += size
    return np.repeat([s / n for s, n in zip(sums, sizes, strict=True)], sizes)
