"""Routed experts on the CPU, part of whose work runs beside the GPU's attention.

Foreseen work (DAOP) of a layer starts before its attention ends: with A the attention, G the GPU's part of the experts
and C the CPU's, ``t_layer = max(A + G, C)`` instead of ``A + max(G, C)``.

Deferred work (KTransformers) is awaited one layer later. In each layer the CPU first ends what is left of the layer
before, R, then does what cannot wait, I, then as much of the layer's own deferred work D as fits until the GPU is done:

    t_layer = max( A + G,  max(A, R) + I ),      R' = max( 0,  D - (t_layer - max(A, R) - I) ),

so the CPU is idle only while there is nothing to do, and the step is never longer than with ``I + D`` in one layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.physics import experts
from planner.physics.experts import Counts, spread
from planner.physics.operation import Array, Phase, phase_times
from planner.policies.base import Placed
from planner.step import Pass

NOTHING_S = 1e-15  # work below a femtosecond counts as none; a quotient of it would overflow


@dataclass(frozen=True)
class CpuWork:
    """Seconds of CPU work by what it waits for, and of the host channels, each [..., passes, layers]."""

    compute_s: Array
    bytes_s: Array
    channel_s: Array

    @property
    def cpu_s(self) -> Array:
        return self.compute_s + self.bytes_s

    def times(self, share: Array) -> CpuWork:
        return CpuWork(self.compute_s * share, self.bytes_s * share, self.channel_s * share)

    def add_to(self, phase: Phase) -> None:
        phase.add("cpu", "routed_cpu", "cpu_compute", self.compute_s)
        phase.add("cpu", "routed_cpu", "dram", self.bytes_s)
        phase.add("dram", "routed_cpu", "dram", self.channel_s)


def add_foreseen_cpu(
    ctx: Context, run: Pass, phase: Phase, placed: Placed, counts: Counts, mask: NDArray[np.bool_], early: Array
) -> None:
    """Masked experts on the CPU in ``phase``; the share ``early`` of each may run beside the first phase of the pass.

    mask: bool [passes, layers, experts]. early: 0 to 1, broadcastable to it.
    """
    now, before = _work(ctx, run, placed, counts, mask, early)
    attention = run.phases[0]
    hidden = _share_within(phase_times(attention).total, _lane(attention, "cpu"), _lane(attention, "dram"), before)
    before.times(hidden).add_to(attention)
    now.add_to(phase)
    before.times(1.0 - hidden).add_to(phase)


def add_deferred_cpu(
    ctx: Context, run: Pass, phase: Phase, placed: Placed, counts: Counts, mask: NDArray[np.bool_], late: Array
) -> None:
    """Masked experts on the CPU; the result of the share ``late`` of each is awaited one layer later.

    ``phase`` holds everything else that runs beside them already. late: 0 to 1, [passes, layers, experts].
    """
    now, deferred = _work(ctx, run, placed, counts, mask, late)
    now.add_to(phase)
    attention = run.phases[0]
    before = phase_times(attention).total
    shape = np.broadcast_shapes(before.shape, phase_times(phase).total.shape, deferred.compute_s.shape)
    before, busy_a, read_a = (np.broadcast_to(x, shape) for x in (before, *_lanes(attention)))
    beside = np.zeros(shape)  # the lanes of the phase that are not the CPU's
    for lane in {p.lane for p in phase.pieces} - {"cpu", "dram"}:
        beside = np.maximum(beside, _lane(phase, lane))
    busy_p, read_p = (np.broadcast_to(x, shape) for x in _lanes(phase))
    in_attention, in_phase = np.zeros(shape), np.zeros(shape)  # shares of the deferred work of the layer before
    in_own = np.ones(shape)
    cpu_s, channel_s = (np.broadcast_to(x, shape) for x in (deferred.cpu_s, deferred.channel_s))
    for layer in range(shape[2]):
        now_s, now_read = busy_p[..., layer], read_p[..., layer]
        if layer:
            left = 1.0 - in_own[..., layer - 1]
            cpu, read = cpu_s[..., layer - 1], channel_s[..., layer - 1]
            room = _fits(before[..., layer], busy_a[..., layer], read_a[..., layer], cpu, read)
            in_attention[..., layer] = np.minimum(left, room)
            in_phase[..., layer] = left - in_attention[..., layer]
            now_s = now_s + in_phase[..., layer] * cpu
            now_read = now_read + in_phase[..., layer] * read
        end = np.maximum(np.maximum(beside[..., layer], now_s), now_read)
        in_own[..., layer] = np.minimum(1.0, _fits(end, now_s, now_read, cpu_s[..., layer], channel_s[..., layer]))
    shifted = CpuWork(*(_later(x) for x in (deferred.compute_s, deferred.bytes_s, deferred.channel_s)))
    shifted.times(in_attention).add_to(attention)
    shifted.times(in_phase).add_to(phase)
    deferred.times(in_own).add_to(phase)


def _work(
    ctx: Context, run: Pass, placed: Placed, counts: Counts, mask: NDArray[np.bool_], share: Array
) -> tuple[CpuWork, CpuWork]:
    """The work that stays and the work that may move, by layer; flows are counted."""
    dram = ctx.machine.dram
    assert dram is not None
    work = experts.on_cpu(ctx, counts, placed.stored).only(mask)
    seconds = work.seconds
    on_compute = np.where(work.compute_s >= work.bytes_s, seconds, 0.0)
    channel = np.where((counts > 0) & mask, placed.stored.bytes, 0.0) / dram.bandwidth_bytes_per_s
    parts = (on_compute, seconds - on_compute, channel)
    pairs, moved = experts.tokens_and_bytes(counts, mask, placed.stored.bytes)
    run.flows.cpu_flop += 2.0 * ctx.expert_parameters * pairs
    run.flows.dram_bytes += moved
    stays, moves = (CpuWork(*(spread(ctx, (p * s).sum(axis=2))[None] for p in parts)) for s in (1.0 - share, share))
    return stays, moves


def _lane(phase: Phase, lane: str) -> Array:
    return np.asarray(sum((p.seconds for p in phase.pieces if p.lane == lane), np.zeros((1, 1, 1))))


def _lanes(phase: Phase) -> tuple[Array, Array]:
    return _lane(phase, "cpu"), _lane(phase, "dram")


def _later(values: Array) -> Array:
    """Values of each layer at the layer that follows."""
    return np.concatenate((np.zeros_like(values[..., :1]), values[..., :-1]), axis=-1)


def _share_within(end: Array, cpu_taken: Array, dram_taken: Array, work: CpuWork) -> Array:
    return np.minimum(1.0, _fits(end, cpu_taken, dram_taken, work.cpu_s, work.channel_s))


def _fits(end: Array, cpu_taken: Array, dram_taken: Array, cpu_s: Array, channel_s: Array) -> Array:
    """How many times work of ``cpu_s`` and ``channel_s`` fits until ``end`` beside what is taken already, at most 1."""
    share: Array = np.ones(np.broadcast_shapes(end.shape, cpu_taken.shape, dram_taken.shape, cpu_s.shape))
    for taken, wanted in ((cpu_taken, cpu_s), (dram_taken, channel_s)):
        room = np.maximum(end - taken, 0.0)
        there = np.broadcast_to(wanted > NOTHING_S, share.shape)
        share = np.minimum(share, np.divide(room, wanted, out=np.ones(share.shape), where=there))
    return share
