"""DALI (arXiv 2602.03495): greedy assignment to CPU or GPU, few prefetches, a cache that follows the workload.

The assignment of a layer is a makespan problem of two machines, solved greedily: experts by ``|t_cpu(n) - t_gpu'(n)|``,
largest first, each to the side that finishes it earlier, where ``t_gpu'`` is the GPU's compute plus, for an expert that
is not cached, its transfer. A few experts of the next layer that its gate expects to be the most loaded are prefetched.
Every w steps the u most loaded experts outside the cache change places with the u least loaded ones inside.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.physics.experts import Counts
from planner.policies.base import Option, Placed, Prepared
from planner.policies.hybrimoe import after_warm_up, shares
from planner.policies.prediction import ACCURACY, predicted, windows_s
from planner.policies.split import SplitPolicy, history
from planner.policies.split_pass import Split, tables
from planner.result import Details
from planner.routing import RoutingState
from planner.split import dali


class Dali(SplitPolicy):
    id = "dali"
    name = "DALI (greedy CPU-GPU assignment)"
    sentence = (
        "Experts live in host memory with a cache in HBM that follows the load; in each layer a greedy rule assigns "
        "experts to CPU or GPU so that both finish early."
    )
    source = "DALI (arXiv 2602.03495)"
    dynamic = True
    ordered = True
    options = (
        Option(
            "prefetch", "int", 1, "experts of the next layer that are prefetched (Mixtral: 1); 0 = none", low=0, high=64
        ),
        ACCURACY,
        Option("swap_every", "int", 4, "steps between changes of the cache (w)", low=1, high=1024),
        Option("swaps", "int", 1, "experts of a layer that change places each time, at most (u)", low=0, high=1024),
    )
    notes = (
        "The published w and u are not stated in what was read; 4 and 1 are assumed. Experts change places only where "
        "the one outside was more loaded; their transfers spread over the next w steps.",
        "The prediction from the residual vector is taken to be as good as a gate applied one layer early.",
        "A prefetch uses the link only while it is idle; what is missing when its layer begins is sent on demand.",
    )

    def why_host(self) -> str:
        return "in host memory; computed by the CPU or sent to the GPU, as the greedy assignment of each layer says"

    def steps_wanted(self, ctx: Context) -> int:
        return history(ctx, self)

    def split(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Split:
        counts = routing.counts
        ahead = predicted(counts, (float(ctx.option("gate_accuracy", 0.96)),), ctx.scenario.routing.seed)[0]
        trail = dali(
            counts,
            ahead,
            placed.stored.format,
            tables(ctx, placed, counts, ahead),
            windows_s(ctx, ready, self.sequences_per_pass(ctx, ready.layout)),
            placed.resident,
            int(ctx.option("swap_every", 4)),
            int(ctx.option("swaps", 1)),
            int(ctx.option("prefetch", 1)),
        )
        return after_warm_up(ctx, ready, placed, routing, trail, "Workload cache")

    def split_prefill(self, ctx: Context, ready: Prepared, placed: Placed, counts: Counts) -> NDArray[np.int8]:
        """The same assignment; the cache as it is at the start of decode, nothing prefetched."""
        cached = placed.resident
        nothing = np.zeros(counts.shape, np.int64)
        zero = np.zeros(ctx.moe_layers)
        found = tables(ctx, placed, counts)
        return dali(counts, nothing, placed.stored.format, found, zero, cached, 1, 0, 0).place

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details:
        split = self.split(ctx, ready, placed, routing)
        return Details(caches=(split.cache,) if split.cache else (), facts=shares(split))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        return (
            f"All {ctx.experts} experts of each layer in host memory, {ready.resident_per_layer} of them cached in "
            "HBM; a greedy rule gives each expert of a pass to CPU or GPU."
        )
