"""Routed experts on the CPU, part of whose work runs beside the GPU's attention.

With A the attention of a layer, G the GPU's part of its experts, I the CPU's work that must wait for the layer's own
router and E what may start earlier, the layer takes

    max( A + max(G, I),  E + I ):

E hides behind A as far as the CPU and the host channels are idle there, and what is left of it runs before I.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.physics import experts
from planner.physics.experts import Counts, spread
from planner.physics.operation import Array, Phase, phase_times
from planner.policies.base import Placed
from planner.step import Pass


def add_early_cpu(
    ctx: Context,
    run: Pass,
    phase: Phase,
    placed: Placed,
    counts: Counts,
    mask: NDArray[np.bool_],
    early: Array,
    *,
    later: int = 0,
) -> None:
    """Masked experts on the CPU in ``phase``; the share ``early`` of each may run beside the first phase of the pass.

    mask: bool [passes, layers, experts]. early: 0 to 1, same shape or broadcastable. later: 0 = beside the attention
    of the expert's own layer (it was foreseen), 1 = beside that of the next layer (its result is awaited one later).
    """
    dram = ctx.machine.dram
    assert dram is not None
    work = experts.on_cpu(ctx, counts, placed.stored).only(mask)
    seconds = work.seconds
    on_compute = np.where(work.compute_s >= work.bytes_s, seconds, 0.0)
    on_bytes = seconds - on_compute
    channel = np.where((counts > 0) & mask, placed.stored.bytes, 0.0) / dram.bandwidth_bytes_per_s
    first = run.phases[0]
    parts = (on_compute, on_bytes, channel)
    waiting = [spread(ctx, (p * early).sum(axis=2))[None] for p in parts]
    if later:
        waiting = [np.concatenate((np.zeros_like(p[..., :1]), p[..., :-1]), axis=2) for p in waiting]
    fits = _share_that_hides(first, waiting[0] + waiting[1], waiting[2])
    own = [spread(ctx, (p * (1.0 - early)).sum(axis=2))[None] for p in parts]
    for target, values in ((first, [w * fits for w in waiting]), (phase, _sums(own, waiting, fits))):
        target.add("cpu", "routed_cpu", "cpu_compute", values[0])
        target.add("cpu", "routed_cpu", "dram", values[1])
        target.add("dram", "routed_cpu", "dram", values[2])
    pairs, moved = experts.tokens_and_bytes(counts, mask, placed.stored.bytes)
    run.flows.cpu_flop += 2.0 * ctx.expert_parameters * pairs
    run.flows.dram_bytes += moved


def _sums(own: list[Array], waiting: list[Array], fits: Array) -> list[Array]:
    return [o + w * (1.0 - fits) for o, w in zip(own, waiting, strict=True)]


def _share_that_hides(phase: Phase, cpu_s: Array, channel_s: Array) -> Array:
    """Share of CPU work that fits into the phase without making it longer: its CPU and channel time both have room."""
    total = phase_times(phase).total
    share = np.ones(np.broadcast_shapes(total.shape, cpu_s.shape))
    for lane, wanted in (("cpu", cpu_s), ("dram", channel_s)):
        taken = sum((p.seconds for p in phase.pieces if p.lane == lane), np.zeros((1, 1, 1)))
        room = np.maximum(total - taken, 0.0)
        # Work below a femtosecond counts as none; a quotient of it would overflow.
        ratio = np.divide(room, wanted, out=np.ones(share.shape), where=np.broadcast_to(wanted > 1e-15, share.shape))
        share = np.minimum(share, ratio)
    return share
