"""Routed experts on each kind of device: seconds and flows from the integer tokens that each expert receives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.physics import cpu as cpu_physics
from planner.physics import gpu as gpu_physics
from planner.physics import ndp as ndp_physics
from planner.physics.operation import Array, operation_s
from planner.step import Flows

Counts = NDArray[np.int32]


@dataclass(frozen=True)
class Stored:
    """How each expert is stored away from the GPU, ``[moe_layers, experts]``."""

    bytes: Array
    bits: Array
    format: NDArray[np.int8]  # index into widths
    matrix: NDArray[np.bool_] | bool = True  # a CPU's matrix unit can take this form


@dataclass(frozen=True)
class Work:
    """Compute and byte seconds of each expert, ``[samples, moe_layers, experts]``; zero where it has no tokens."""

    compute_s: Array
    bytes_s: Array
    overlap: float | Array

    @property
    def seconds(self) -> Array:
        return operation_s(self.compute_s, self.bytes_s, self.overlap)

    def only(self, mask: NDArray[np.bool_]) -> Work:
        return Work(np.where(mask, self.compute_s, 0.0), np.where(mask, self.bytes_s, 0.0), self.overlap)


def on_gpu(ctx: Context, counts: Counts, expert_bytes: Array | float, fmt: str, slices: int = 1) -> Work:
    """Experts computed on a GPU that holds ``1 / slices`` of each; every expert that is hit is read once."""
    gpu = ctx.machine.gpu
    assert gpu is not None
    compute = gpu_physics.product_compute_s(ctx.expert_parameters / slices, counts, gpu, ctx.gpu_rate(fmt))
    moved = np.where(counts > 0, np.asarray(expert_bytes) / slices / gpu.bandwidth_bytes_per_s, 0.0)
    return Work(compute, moved, gpu.overlap)


def on_cpu(ctx: Context, counts: Counts, stored: Stored) -> Work:
    """Experts computed by the CPUs of a node from host memory."""
    cpu, dram = ctx.machine.cpu, ctx.machine.dram
    assert cpu is not None and dram is not None
    bandwidth = dram.cpu_bandwidth_bytes_per_s
    unpack = cpu_physics.unpack_s(ctx.expert_parameters, stored.bits, bandwidth, cpu)
    hit = counts > 0
    # Expanding low-bit weights occupies the cores while they read, so it adds to the reading time of the kernel.
    compute = cpu_physics.expert_compute_s(ctx.expert_parameters, counts, cpu, stored.matrix)
    moved = np.where(hit, stored.bytes / bandwidth + unpack, 0.0)
    return Work(compute, moved, cpu.overlap)


def on_ndp(ctx: Context, counts: Counts, stored: Stored, kind: str, mapping: str) -> Work:
    """Experts computed where they lie, on one near-data unit each; read again for each fill of its buffer."""
    ndp = ctx.machine.dimm_ndp if kind == "dimm_ndp" else ctx.machine.cxl_ndp
    assert ndp is not None
    compute = ndp_physics.expert_compute_s(ctx.expert_parameters, counts, ndp, mapping, stored.bits)
    moved = ndp_physics.expert_bytes_s(stored.bytes, counts, ndp, ctx.hidden_bytes)
    return Work(compute, moved, ndp.overlap)


def count_gpu(
    ctx: Context, flows: Flows, counts: Counts, mask: NDArray[np.bool_], expert_bytes: float, fmt: str
) -> None:
    """Add FLOP and HBM bytes of experts computed on the GPU (all slices together), mean over samples."""
    gpu = ctx.machine.gpu
    assert gpu is not None
    chosen = np.where(mask, counts, 0)
    samples = counts.shape[0]
    flop = 2.0 * ctx.expert_parameters * float(chosen.sum()) / samples
    moved = float((chosen > 0).sum()) / samples * expert_bytes
    flows.gpu_flop += flop
    flows.gpu_peak_s += flop / gpu.flop_per_s(ctx.gpu_rate(fmt))
    flows.hbm_bytes += moved
    flows.hbm_achieved_s += moved / gpu.bandwidth_bytes_per_s


def count_ndp(
    ctx: Context, flows: Flows, counts: Counts, mask: NDArray[np.bool_], stored: Stored, kind: str, mapping: str
) -> None:
    """Add FLOP, bytes and unit-seconds at peak of experts computed on near-data units, mean over samples."""
    ndp = ctx.machine.dimm_ndp if kind == "dimm_ndp" else ctx.machine.cxl_ndp
    assert ndp is not None
    read = ndp_physics.expert_read_bytes(stored.bytes, counts, ndp, ctx.hidden_bytes)
    pairs, moved = tokens_and_bytes(counts, mask, read)
    flop = 2.0 * ctx.expert_parameters * pairs
    width = 1.0
    if mapping == "scaled" and pairs > 0:  # throughput grows as 16 / bits, and so does the peak
        width = float((np.where(mask, counts, 0) * stored.bits).sum()) / counts.shape[0] / pairs / 16.0
    flows.ndp_peak_s += flop * width / ndp.peak_flop_per_s
    if kind == "dimm_ndp":
        flows.ndp_flop += flop
        flows.ndp_bytes += moved
    else:
        flows.cxl_flop += flop
        flows.cxl_bytes += moved


def tokens_and_bytes(counts: Counts, mask: NDArray[np.bool_], stored_bytes: Array) -> tuple[float, float]:
    """Token-expert pairs and bytes of the masked experts that are hit, mean over samples, all layers together."""
    samples = counts.shape[0]
    chosen = np.where(mask, counts, 0)
    hit = (chosen > 0) * stored_bytes
    return float(chosen.sum()) / samples, float(hit.sum()) / samples


def spread(ctx: Context, per_moe_layer: Array) -> Array:
    """``[..., moe_layers]`` placed into ``[..., layers]``, zero elsewhere."""
    values = np.asarray(per_moe_layer, float)
    full = np.zeros((*values.shape[:-1], ctx.layers))
    full[..., ctx.moe] = values
    return full
