"""HybriMoE (arXiv 2504.05897): a three-timeline schedule of GPU, CPU and link, impact-driven prefetch, a score cache.

In each layer the cached experts by tokens, then the others by tokens, stand in a queue. The GPU takes from its front,
the CPU from its back; for an expert that is not cached the GPU waits for the link, ``t_gpu = max(t_gpu, t_link) +
t_gpu(n)`` with ``t_link += t_move``. Whichever would finish first takes its expert; the layer takes max(t_gpu, t_cpu).
While the link is idle, experts of the next layers are prefetched in the order in which they would shorten those
layers, by the same simulation. The cache keeps the experts with the highest ``S <- alpha TopP(s) + (1 - alpha) S``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.physics.experts import Counts
from planner.policies.base import Option, Placed, Prepared
from planner.policies.prediction import ACCURACY, FARTHER, predicted, windows_s
from planner.policies.split import SplitPolicy, history, warm_up
from planner.policies.split_pass import Split, tables
from planner.result import CacheReport, Details
from planner.routing import RoutingState
from planner.split import CPU, HIT, NONE, STREAM, Trail, hybrimoe


class HybriMoe(SplitPolicy):
    id = "hybrimoe"
    name = "HybriMoE (CPU-GPU schedule with a score cache)"
    sentence = (
        "Experts live in host memory with a cache in HBM; each layer is scheduled over GPU, CPU and link, and experts "
        "of the next layers are prefetched where that shortens them most."
    )
    source = "HybriMoE (arXiv 2504.05897) and its released code"
    dynamic = True
    ordered = True
    options = (
        Option("prefetch_layers", "int", 3, "layers ahead for which experts are prefetched; 0 = none", low=0, high=8),
        ACCURACY,
        FARTHER,
        Option("alpha", "float", 0.5, "weight of the newest scores in the cache's score", low=0.0, high=1.0),
        Option(
            "top_p",
            "int",
            0,
            "experts whose scores are averaged in each step; 0 = twice the experts per token",
            low=0,
            high=100_000,
        ),
    )
    notes = (
        "The cache's score uses each expert's share of the tokens of a step, since router scores of experts that were "
        "not chosen are not known.",
        "The published schedule counts the link alone; here a prefetch takes the host channels from the CPU's experts, "
        "so it can make a layer longer.",
        "A sent expert enters the cache if its score exceeds the lowest one there; a prefetch that is not finished in "
        "time is finished on demand.",
    )

    def why_host(self) -> str:
        return "in host memory; computed by the CPU, sent to the GPU or prefetched, as the schedule of each layer says"

    def steps_wanted(self, ctx: Context) -> int:
        return history(ctx, self)

    def split(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Split:
        """All steps in order, from a cache of the most loaded experts of the calibration run."""
        counts = routing.counts
        depth = int(ctx.option("prefetch_layers", 3))
        near, far = float(ctx.option("gate_accuracy", 0.96)), float(ctx.option("gate_accuracy_farther", 0.9))
        ahead = predicted(counts, (near, *[far] * (depth - 1)) if depth else (), ctx.scenario.routing.seed)
        score = routing.profile / np.maximum(routing.profile.sum(axis=1, keepdims=True), 1e-30)
        trail = hybrimoe(
            counts,
            ahead,
            placed.stored.format,
            tables(ctx, placed, counts, ahead),  # a wrong guess can pile tokens up
            windows_s(ctx, ready, self.sequences_per_pass(ctx, ready.layout)),
            placed.resident,
            score,
            float(ctx.option("alpha", 0.5)),
            int(ctx.option("top_p", 0)) or 2 * ctx.top_k,
        )
        return after_warm_up(ctx, ready, placed, routing, trail, "Score cache (MRS)")

    def split_prefill(self, ctx: Context, ready: Prepared, placed: Placed, counts: Counts) -> NDArray[np.int8]:
        """The same schedule; the cache as it is at the start of decode, nothing prefetched."""
        cached = placed.resident
        found = tables(ctx, placed, counts)
        places = []
        for one in counts:
            trail = hybrimoe(
                one[None],
                np.zeros((0, 1, *one.shape), np.int64),
                placed.stored.format,
                found,
                np.zeros(ctx.moe_layers),
                cached,
                np.zeros(cached.shape),
                0.0,
                0,
            )
            places.append(trail.place[0])
        return np.stack(places)

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details:
        split = self.split(ctx, ready, placed, routing)
        return Details(caches=(split.cache,) if split.cache else (), facts=shares(split))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        return (
            f"All {ctx.experts} experts of each layer in host memory, {ready.resident_per_layer} of them cached in "
            "HBM; GPU, CPU and link share each layer."
        )


def after_warm_up(
    ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, trail: Trail, name: str
) -> Split:
    """The steps after the cache has warmed up, and what the cache did in them."""
    start = warm_up(routing.counts.shape[0])
    place, counts = trail.place[start:], routing.counts[start:]
    link, background = trail.link_s[start:], trail.background_s[start:]
    reads = float((place != NONE).sum())
    moved = float((link + background).sum(axis=1).mean()) * ctx.machine.host_to_gpus_bytes_per_s
    report = CacheReport(
        name=name,
        slots_per_layer=float(ready.resident_per_layer),
        hit_rate=float((place == HIT).sum()) / max(reads, 1.0),
        warm_up_steps=start,
        steps=place.shape[0],
        bytes_per_step=moved,
    )
    return Split(counts, place, link, background, report)


def shares(split: Split) -> tuple[tuple[str, str], ...]:
    """Who computes the experts that a pass reads, in words."""
    reads = max(float((split.place != NONE).sum()), 1.0)
    parts = [(float((split.place == code).sum()) / reads, words) for code, words in _WORDS]
    text = ", ".join(f"{share:.0%} {words}" for share, words in parts)
    return (("Experts of a pass", f"Of the experts that a pass reads: {text}."),)


_WORDS = ((HIT, "computed from HBM"), (STREAM, "sent to the GPU"), (CPU, "computed by the CPU"))
