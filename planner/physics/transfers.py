"""Bytes between devices in a pass: over host links, between GPUs, between nodes; each on its lane, and in the flows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.context import Context
from planner.physics.operation import Array, Phase
from planner.result import Lane, PartId
from planner.step import Pass


def add_host_to_gpu(ctx: Context, run: Pass, phase: Phase, part: PartId, moved_bytes: Array) -> None:
    """Bytes from host memory to the GPUs of a node, all their links together, sharing the host channels.

    Copies from pinned memory read each byte once. Through a staging buffer it crosses the channels ``host_crossings``
    times, at the rate of the CPUs that move it.
    """
    pcie, dram, gpu = ctx.machine.pcie, ctx.machine.dram, ctx.machine.gpu
    assert pcie is not None and gpu is not None
    moved = np.asarray(moved_bytes, float)
    phase.add("link", part, "link", moved / (ctx.machine.host_to_gpus_bytes_per_s))
    total = float(np.mean(moved.reshape(-1, moved.shape[-1]), axis=0).sum())
    run.flows.pcie_bytes += total
    if dram is not None:
        staged = ctx.machine.host_crossings
        rate = dram.bandwidth_bytes_per_s if staged <= 1 else dram.cpu_bandwidth_bytes_per_s / staged
        phase.add("dram", part, "dram", moved / rate)
        run.flows.dram_bytes += total * staged


def add_round_trip(ctx: Context, run: Pass, phase: Phase, lane: Lane, one_way_bytes: Array) -> None:
    """Activations to the host and results back over PCIe, serial with the work on ``lane``, ``one_way_bytes`` [layers].

    Each crosses the host channels too, and shares the link with whatever else crosses it in this phase (one way: the
    two directions are independent). The latency of the two ways is never hidden.
    """
    pcie, dram = ctx.machine.pcie, ctx.machine.dram
    assert pcie is not None and dram is not None
    moved = np.asarray(one_way_bytes, float)
    phase.add(lane, "link", "link", 2.0 * moved / ctx.machine.host_to_gpus_bytes_per_s)
    phase.add("link", "link", "link", moved / ctx.machine.host_to_gpus_bytes_per_s)
    phase.add("dram", "link", "dram", 2.0 * moved / dram.bandwidth_bytes_per_s)
    add_latency(run, 2.0 * pcie.latency_s * (moved > 0))
    run.flows.pcie_bytes += float(moved.sum())
    run.flows.dram_bytes += 2.0 * float(moved.sum())


def add_latency(run: Pass, seconds: ArrayLike) -> None:
    """Time per layer that no rate shortens and nothing hides: a phase of its own."""
    run.phase("latency").add("overhead", "overhead", "overhead", seconds)


def add_collective(ctx: Context, run: Pass, phase: Phase, sent_bytes: Array, ranks: int, lane: Lane = "gpu") -> None:
    """Bytes that each of ``ranks`` GPUs sends in each layer; serial with the GPU's work unless on a lane of its own."""
    gpu, scaleup, network = ctx.machine.gpu, ctx.machine.scaleup, ctx.machine.network
    assert gpu is not None
    inside = ranks <= gpu.per_node
    link = scaleup if inside and scaleup is not None else network if not inside else ctx.machine.pcie
    if link is None:
        link = ctx.machine.pcie
    assert link is not None
    sent = np.asarray(sent_bytes, float)
    phase.add(lane, "collective", "collective", sent / link.bytes_per_s)
    total = float(sent.reshape(-1, sent.shape[-1]).mean(axis=0).sum()) * ranks
    if inside and scaleup is not None:
        run.flows.scaleup_bytes += total
    elif not inside and network is not None:
        run.flows.network_bytes += total
    else:
        run.flows.pcie_bytes += total


def add_two_level(
    ctx: Context, run: Pass, phase: Phase, across_bytes: Array, inside_bytes: Array, ranks: int, lane: Lane
) -> None:
    """Bytes that each of ``ranks`` GPUs sends to other nodes and forwards within its node; the two are pipelined."""
    network, scaleup = ctx.machine.network, ctx.machine.scaleup or ctx.machine.pcie
    assert network is not None and scaleup is not None
    across, inside = np.asarray(across_bytes, float), np.asarray(inside_bytes, float)
    seconds = np.maximum(across / network.bytes_per_s, inside / scaleup.bytes_per_s)
    phase.add(lane, "collective", "collective", seconds)
    run.flows.network_bytes += float(across.sum()) * ranks
    if ctx.machine.scaleup is not None:
        run.flows.scaleup_bytes += float(inside.sum()) * ranks
    else:
        run.flows.pcie_bytes += float(inside.sum()) * ranks
