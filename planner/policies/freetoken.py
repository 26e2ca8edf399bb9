"""FreeToken's q* policy (arXiv 2608.16157 and its source): misses are divided between the link and the CPU.

One LRU cache in HBM holds experts of all layers. Of the m misses of a layer, q are sent over the link, enter the cache
and are computed by the GPU, while the CPU computes the other m - q from host memory:

    q*/m = B_link / (B_link + B_cpu),   q the integer that minimises max(q W / B_link, (m - q) W / B_cpu),

both bandwidths as they are while both run: the host channels are shared, so what the link takes, the CPU lacks. With a
CPU kernel that reads no more than twice what the link brings, everything is sent instead (pure offload).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.physics import experts
from planner.physics.experts import Counts
from planner.policies.base import Option, Placed, Prepared
from planner.policies.fiddler import most_popular
from planner.policies.hybrimoe import shares
from planner.policies.split import Slots, SplitPolicy, history, warm_up
from planner.policies.split_pass import Split
from planner.result import CacheReport, Details
from planner.routing import RoutingState
from planner.split import HIT, NONE, STREAM
from planner.split_lru import replay


class FreeToken(SplitPolicy):
    id = "freetoken"
    name = "FreeToken (misses divided between link and CPU)"
    sentence = (
        "One cache in HBM holds experts of all layers; of each layer's misses, some are sent to the GPU and the others "
        "computed by the CPU, so that both finish together."
    )
    source = "FreeToken (arXiv 2608.16157), released code; the paper's abstract"
    dynamic = True
    ordered = True
    per_layer = False
    options = (
        Option(
            "backend",
            "choice",
            "auto",
            "auto: hybrid if the CPU's kernel reads more than twice what the link brings, else offload; hybrid: misses "
            "are divided; offload: all are sent",
            choices=("auto", "hybrid", "offload"),
        ),
    )
    notes = (
        "The most loaded misses are the ones that are sent; the source does not say which.",
        "The rule weighs bytes alone; compute is timed as everywhere.",
    )

    def why_host(self) -> str:
        return "in host memory; a miss is sent into the cache or computed by the CPU, in the ratio of the bandwidths"

    def steps_wanted(self, ctx: Context) -> int:
        return history(ctx, self)

    def chosen(self, ctx: Context, ready: Prepared, routing: RoutingState) -> NDArray[np.bool_]:
        assert isinstance(ready, Slots)
        return most_popular(routing.profile, ready.slots)

    def split(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Split:
        assert isinstance(ready, Slots)
        counts, load = routing.counts, routing.profile.ravel()
        chosen = np.flatnonzero(placed.resident)
        start = chosen[np.argsort(load[chosen], kind="stable")]  # the most loaded ones count as used last
        link_s, cpu_s = shared_seconds(ctx, placed)
        if self.backend(ctx, placed) == "offload":
            cpu_s = math.inf
        place = replay(counts, start, ready.slots, link_s, cpu_s)
        first = warm_up(counts.shape[0])
        place = place[first:]
        sent = np.where(place == STREAM, placed.stored.bytes, 0.0)
        report = CacheReport(
            name="LRU over all layers",
            slots_per_layer=ready.slots / ctx.moe_layers,
            hit_rate=float((place == HIT).sum()) / max(float((place != NONE).sum()), 1.0),
            warm_up_steps=first,
            steps=place.shape[0],
            bytes_per_step=float(sent.sum()) / place.shape[0],
        )
        return Split(counts[first:], place, cache=report)

    def split_prefill(self, ctx: Context, ready: Prepared, placed: Placed, counts: Counts) -> NDArray[np.int8]:
        held = placed.resident
        return np.where(counts > 0, np.where(held, HIT, STREAM), NONE).astype(np.int8)

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("stream",)

    def backend(self, ctx: Context, placed: Placed) -> str:
        """The option, or FreeToken's rule: hybrid if the CPU's kernel reads more than twice what the link brings."""
        asked = str(ctx.option("backend", "auto"))
        if asked != "auto":
            return asked
        alone = cpu_seconds(ctx, placed)
        mean = float(placed.stored.bytes.mean())
        return "hybrid" if mean / alone > 2.0 * ctx.machine.host_to_gpus_bytes_per_s else "offload"

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details:
        split = self.split(ctx, ready, placed, routing)
        link_s, cpu_s = shared_seconds(ctx, placed)
        words = f"{self.backend(ctx, placed)}; q*/m = {_share(link_s, cpu_s):.2f} where misses are divided."
        return Details(caches=(split.cache,) if split.cache else (), facts=(("Backend", words), *shares(split)))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        slots = ready.slots if isinstance(ready, Slots) else ready.resident_per_layer * ctx.moe_layers
        total = ctx.experts * ctx.moe_layers
        return f"A cache of {slots} of {total} experts in HBM; misses are divided between link and CPU."


def cpu_seconds(ctx: Context, placed: Placed) -> float:
    """Seconds of one expert with one token on the CPU alone, mean over experts."""
    one = np.ones((1, *placed.stored.bytes.shape), np.int32)
    return float(experts.on_cpu(ctx, one, placed.stored).seconds.mean())


def shared_seconds(ctx: Context, placed: Placed) -> tuple[float, float]:
    """Seconds of one expert over the link and on the CPU while both run, mean over experts.

    The link keeps its rate; the CPU's kernel gets what is left of the host channels (FreeToken's fallback, and its
    measurement on EPYC Rome: 110 and 26 GB/s alone, 119.5 GB/s together).
    """
    dram = ctx.machine.dram
    assert dram is not None
    mean = float(placed.stored.bytes.mean())
    link = ctx.machine.host_to_gpus_bytes_per_s
    left = dram.bandwidth_bytes_per_s - link
    alone = cpu_seconds(ctx, placed)
    return mean / link, max(alone, mean / left) if left > 0 else math.inf


def _share(link_s: float, cpu_s: float) -> float:
    return 1.0 if math.isinf(cpu_s) else cpu_s / (link_s + cpu_s)
