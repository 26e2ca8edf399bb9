"""MoE-Infinity (arXiv 2401.14361 v3): a GPU expert cache, prefetching and eviction by predicted activation.

Weights: everything but routed experts in HBM, all experts in host memory, the rest of HBM is one cache for all layers.
The GPU computes everything.

Predicted activation pEAM[i, e]: share of layer i's tokens that go to expert e, from the request's own activation matrix
so far and from past requests. When layer l executes, experts of later layers are prefetched in the order of

    pEAM[i, e] (1 - (i - l) / L)

and the cached expert of lowest priority is evicted. What the router asks for and is not there is fetched on demand,
ahead of all waiting prefetches but behind the transfer that is under way:

    t_layer = max(t_attention, begun x t_PCIe) + max(t_experts, missing x t_PCIe + t_last),   t_PCIe = W / B_link
"""

from __future__ import annotations

import numpy as np

from planner.context import Context
from planner.physics import attention
from planner.policies.base import Option, Placed, Prepared
from planner.policies.cache import (
    NOTES,
    Cached,
    CachePolicy,
    CacheReady,
    attention_phase,
    idle_link_s,
    warm_up_of,
)
from planner.prefetch_kernel import simulate_prefetch
from planner.result import Details
from planner.routing import RoutingState
from planner.step import Pass


class MoeInfinity(CachePolicy):
    id = "moe-infinity"
    name = "MoE-Infinity"
    sentence = (
        "The GPU computes every expert from a cache in HBM; experts of coming layers are prefetched and cached ones "
        "evicted by the activation that the request's own history predicts."
    )
    source = "MoE-Infinity (arXiv 2401.14361 v3), github.com/EfficientMoE/MoE-Infinity"
    options = (
        Option(
            "prefetch",
            "bool",
            True,
            "fetch experts of coming layers while the link would be idle; off = the same cache, on demand only",
        ),
    )
    notes = (
        *NOTES,
        "Predicted activation is the mean of two shares: of the request's own tokens (prefill included) and of the "
        "offline calibration run. The source matches the request to a collection of past requests' matrices instead; "
        "the collection itself is not modelled.",
        "A transfer that has begun is finished before a miss is served, so a wrong prefetch can cost more than it "
        "saves when one expert takes longer than a layer's attention. The link counts as idle during attention only.",
        "The source gives early layers extra protection in the cache without a formula; here they have what the "
        "distance to their next turn gives them.",
        "Prefill fetches on demand the experts that its tokens choose.",
    )

    def cached(self, ctx: Context, ready: CacheReady, routing: RoutingState, plain: Placed) -> Cached:
        size = self.slot_bytes(ctx)
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        alone = Pass(tokens=rows.tokens)
        attention.add_attention(ctx, alone, rows, ready.layout, ready.kv_location, ready.attention_device)
        transfer_s = size / ctx.machine.host_to_gpus_bytes_per_s
        idle = idle_link_s(attention_phase(alone))[ctx.moe] / transfer_s
        if not ctx.option("prefetch", True):
            idle = np.zeros_like(idle)
        run = simulate_prefetch(routing.counts, ready.slots, routing.profile, routing.context, idle)
        warm_up = warm_up_of(len(routing.counts))
        return Cached(
            **vars(plain),
            content=run.content,
            present=run.present[warm_up:],
            fetched=run.fetched[warm_up:] * size,
            layer_slots=np.full(ctx.moe_layers, ready.slots / ctx.moe_layers),
            warm_up=warm_up,
        )

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        assert isinstance(placed, Cached)
        counts = routing.counts[placed.warm_up :]
        fetched = float(placed.fetched.sum()) / self.slot_bytes(ctx) / len(counts)
        missing = float(((counts > 0) & ~placed.present).sum()) / len(counts)
        waits = missing * self.slot_bytes(ctx) / ctx.machine.host_to_gpus_bytes_per_s
        return Details(
            caches=(self.report(ctx, ready, placed, routing),),
            facts=(
                ("Prefetched", f"{fetched:.1f} experts per pass, all layers together, were fetched ahead."),
                (
                    "On demand",
                    f"{missing:.1f} experts per pass were missing when the router asked; their transfers take "
                    f"{waits * 1e3:.3g} ms.",
                ),
            ),
        )

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        slots = ready.slots if isinstance(ready, CacheReady) else 0
        return (
            f"{slots:,} of {ctx.experts * ctx.moe_layers:,} experts fit in the cache that all layers share; "
            f"{'prefetched by predicted activation' if ctx.option('prefetch', True) else 'fetched on demand only'}."
        )
