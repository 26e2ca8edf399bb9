"""Passes in which the experts of a layer are split between the GPU's residents, the link and the CPU.

A policy says, for every expert of every sampled pass, whether it is computed from HBM, sent to the GPU for this pass,
or computed by the CPU; :func:`add_split` makes lanes of that. Beside each other, a layer takes

    max( GPU: shared + residents + sent,  link: sent / B_link + compute of the last one,  CPU: its experts,
         host channels: (sent + read by the CPU) / B_dram )

and one after the other, their sum. Each expert that is hit is read once, on whichever device computes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.context import Context, Width
from planner.parallel import Layout
from planner.physics import attention, experts, transfers
from planner.physics.attention import Rows
from planner.physics.experts import Counts, Stored, spread
from planner.physics.operation import Array, Phase, phase_times
from planner.policies.base import Placed
from planner.policies.cpu_experts import add_cpu_experts
from planner.policies.hybrid import add_dense_side, add_residents, counts_rows, sync_s
from planner.result import CacheReport
from planner.split import CPU, HIT, STREAM, Tables
from planner.step import Pass


@dataclass(frozen=True)
class Split:
    """Where each expert of each timed pass is computed, and what moves."""

    counts: Counts  # [passes, layers, experts]
    place: NDArray[np.int8]  # codes of planner.split
    link_s: Array | None = None  # [passes, layers] transfers that a layer waits for; None = whole experts
    background_s: Array | None = None  # [passes, layers] transfers for later layers or passes
    cache: CacheReport | None = None


def tables(ctx: Context, placed: Placed, *counts: NDArray[np.integer]) -> Tables:
    """Seconds of one expert by stored width and tokens, up to the largest of all ``counts``, and of one transfer."""
    most = max(int(c.max(initial=1)) for c in counts)
    tokens = np.arange(most + 1, dtype=np.int32)[None, None]
    on_cpu, on_gpu = [], []
    for width in placed.widths:
        stored = Stored(
            np.full((1, 1), width.expert_bytes),
            np.full((1, 1), width.bits),
            np.zeros((1, 1), np.int8),
            width.cpu_matrix,
        )
        on_cpu.append(experts.on_cpu(ctx, tokens, stored).seconds[0, 0])
        on_gpu.append(experts.on_gpu(ctx, tokens, width.expert_bytes, width.format, slices(ctx)).seconds[0, 0])
    rate = ctx.machine.host_to_gpus_bytes_per_s
    return Tables(np.stack(on_cpu), np.stack(on_gpu), np.array([w.expert_bytes / rate for w in placed.widths]))


def slices(ctx: Context) -> int:
    return ctx.machine.gpu.per_node if ctx.machine.gpu else 1


def looked_up(table: Array, placed: Placed, counts: Counts) -> Array:
    """Seconds of every expert of every pass from a table, [passes, layers, experts]."""
    return np.asarray(table[placed.stored.format.astype(np.int64)[None], counts])


def add_split(
    ctx: Context,
    run: Pass,
    rows: Rows,
    layout: Layout,
    placed: Placed,
    split: Split,
    width: Width | None,
    *,
    serial: bool = False,
) -> None:
    """Routed experts of a pass. ``width``: form of those in HBM, None = their stored form."""
    counts, place = split.counts, split.place
    phase = run.phase("experts on GPU, link and CPU")
    add_dense_side(ctx, run, phase, rows, layout)
    add_in_hbm(ctx, run, phase, placed, counts, place == HIT, width, layout)
    _add_sent(ctx, run, phase, placed, split, serial=serial)
    on_cpu = place == CPU
    if serial:
        run.phase("experts on the CPU")
    add_cpu_experts(ctx, run, run.phases[-1], placed, counts, on_cpu)
    add_cpu_transfer(ctx, run, run.phases[-1], counts, on_cpu)
    if split.background_s is not None:
        _add_background(ctx, run, phase, split.background_s)


def add_in_hbm(
    ctx: Context,
    run: Pass,
    phase: Phase,
    placed: Placed,
    counts: Counts,
    mask: NDArray[np.bool_],
    width: Width | None,
    layout: Layout,
) -> None:
    """Masked experts computed from HBM, and the collective over the GPUs that share each expert."""
    if width is not None:
        add_residents(ctx, run, phase, counts, mask, layout)
        return
    for index, stored in enumerate(placed.widths):
        chosen = mask & (placed.stored.format == index)
        work = experts.on_gpu(ctx, counts, stored.expert_bytes, stored.format, layout.tensor)
        _add_gpu_work(ctx, phase, work, chosen)
        experts.count_gpu(ctx, run.flows, counts, chosen, stored.expert_bytes, stored.format)
    if layout.tensor > 1:
        message = np.asarray(ctx.work.is_moe, float) * counts_rows(counts, ctx) * ctx.hidden_bytes
        transfers.add_collective(ctx, run, phase, message * 2.0 * (layout.tensor - 1) / layout.tensor, layout.tensor)


def _add_gpu_work(ctx: Context, phase: Phase, work: experts.Work, mask: NDArray[np.bool_]) -> Array:
    chosen = work.only(mask)
    seconds = chosen.seconds
    waits = np.where(chosen.compute_s >= chosen.bytes_s, seconds, 0.0)
    phase.add("gpu", "routed_gpu", "gpu_compute", spread(ctx, waits.sum(axis=2)))
    phase.add("gpu", "routed_gpu", "hbm", spread(ctx, (seconds - waits).sum(axis=2)))
    return seconds


def _add_sent(ctx: Context, run: Pass, phase: Phase, placed: Placed, split: Split, *, serial: bool) -> None:
    """Experts sent for this pass: all transfers, then the compute of the last; serial: transfers, then all compute."""
    sent = split.place == STREAM
    if not sent.any():
        return
    rate = ctx.machine.host_to_gpus_bytes_per_s
    moved = np.where(sent, placed.stored.bytes, 0.0).sum(axis=2)
    if split.link_s is not None:
        moved = split.link_s * rate
    transfer = run.phase("experts sent to the GPU") if serial else phase
    transfers.add_host_to_gpu(ctx, run, transfer, "link", spread(ctx, moved)[None])
    on = run.phase("sent experts on the GPU") if serial else phase
    seconds = np.zeros(split.place.shape)
    for index, width in enumerate(placed.widths):
        chosen = sent & (placed.stored.format == index)
        work = experts.on_gpu(ctx, split.counts, width.expert_bytes, width.format, slices(ctx))
        seconds += _add_gpu_work(ctx, on, work, chosen)
        experts.count_gpu(ctx, run.flows, split.counts, chosen, width.expert_bytes, width.format)
    if not serial:  # the one with the fewest tokens goes last; nothing is left to hide its compute
        last = np.where(sent, seconds, np.inf).min(axis=2)
        phase.add("link", "routed_gpu", "hbm", spread(ctx, np.where(np.isfinite(last), last, 0.0)))


def add_cpu_transfer(ctx: Context, run: Pass, phase: Phase, counts: Counts, mask: NDArray[np.bool_]) -> None:
    """Activations of the CPU's tokens to the host and results back, on the CPU's lane; latency is never hidden."""
    pcie, dram = ctx.machine.pcie, ctx.machine.dram
    assert pcie is not None and dram is not None
    pairs = np.where(mask, counts, 0).sum(axis=2)
    moved = np.minimum(pairs, counts_rows(counts, ctx)) * ctx.hidden_bytes
    phase.add("cpu", "link", "link", spread(ctx, 2.0 * moved / ctx.machine.host_to_gpus_bytes_per_s))
    # Results share the link with the experts that are sent the same way meanwhile.
    phase.add("link", "link", "link", spread(ctx, moved / ctx.machine.host_to_gpus_bytes_per_s))
    phase.add("dram", "link", "dram", spread(ctx, 2.0 * moved / dram.bandwidth_bytes_per_s))
    busy = spread(ctx, 2.0 * pcie.latency_s * (pairs > 0).astype(float))
    run.phase("latency").add("overhead", "overhead", "overhead", busy)
    total = float(moved.mean(axis=0).sum())
    run.flows.pcie_bytes += total
    run.flows.dram_bytes += 2.0 * total


def add_head_and_overhead(ctx: Context, run: Pass, rows: Rows, layout: Layout, place: NDArray[np.int8]) -> None:
    """LM head, launches, and the host round trip of layers that hand work to the CPU, when they do."""
    attention.add_head(ctx, run, rows, layout)
    attention.add_overhead(ctx, run, rows, layout)
    handed = (place == CPU).any(axis=2).mean(axis=0)
    run.phase("host round trip").add("overhead", "overhead", "overhead", spread(ctx, handed * sync_s(ctx)))


def _add_background(ctx: Context, run: Pass, phase: Phase, seconds: Array) -> None:
    """Transfers for later: in the link's idle time beside these experts, the rest beside the next layer's attention.

    After the last MoE layer there is no next attention, so there the rest shows.
    """
    wanted = spread(ctx, seconds)[None]
    total = np.broadcast_to(phase_times(phase).total, wanted.shape)
    link = sum((p.seconds for p in phase.pieces if p.lane == "link"), np.zeros_like(total))
    here = np.minimum(wanted, np.maximum(total - link, 0.0))
    later = np.zeros_like(wanted)
    later[..., 1:] = (wanted - here)[..., :-1]
    here[..., -1] = wanted[..., -1]
    rate = ctx.machine.host_to_gpus_bytes_per_s
    transfers.add_host_to_gpu(ctx, run, phase, "link", here * rate)
    transfers.add_host_to_gpu(ctx, run, run.phases[0], "link", later * rate)
