"""TriMoE's cost equations 1 to 4, and the scheduling problem that they make."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.context import Context
from planner.physics import experts
from planner.physics.experts import Stored
from planner.physics.operation import Array
from planner.policies.base import Placed
from planner.policies.near_data import host_read_rate
from planner.policies.trimoe_mixed import warm_width
from planner.policies.trimoe_times import on_cpu, on_gpu


def expert_costs(
    ctx: Context, placed: Placed, counts: np.ndarray, rates: tuple[Array, Array] | None = None
) -> dict[str, Any]:
    """Equations 1 to 4 for every expert of every sampled step, [samples, moe_layers, experts].

    rates: bytes/s at which GPU and CPU read each expert from host memory, where they are not those of its layout.

    ``gpu_s``, ``cpu`` and ``ndp_s`` are the seconds on each domain, inf where an expert cannot run; the other entries
    are what they are made of.
    """
    m, resident, stored = ctx.machine, placed.resident, placed.stored
    dram, pcie, gpu, cpu = m.dram, m.pcie, m.gpu, m.cpu
    assert dram is not None and pcie is not None and gpu is not None and cpu is not None
    localised = placed.home >= 0
    host_rate, cpu_rate = rates or (
        np.where(localised, dram.channel_bandwidth_bytes_per_s, dram.bandwidth_bytes_per_s),
        np.where(localised, dram.channel_bandwidth_bytes_per_s, dram.cpu_bandwidth_bytes_per_s),
    )
    hot = on_gpu(ctx, counts, ctx.gpu_width.expert_bytes, ctx.gpu_width.format)
    fetched = on_gpu(ctx, counts, stored.bytes, placed.widths[0].format)
    link = np.maximum(stored.bytes / (ctx.machine.host_to_gpus_bytes_per_s), stored.bytes / host_rate)
    further_s = stored.bytes / cpu_rate - stored.bytes / dram.cpu_bandwidth_bytes_per_s
    near = experts.on_ndp(ctx, counts, stored, "dimm_ndp", str(ctx.option("ndp_compute", "gemv")))
    return {
        "hot": hot,
        "fetched": fetched,
        "link_s": link,
        "gpu_s": np.where(resident, hot.seconds, np.maximum(fetched.seconds, link)),
        "cpu": on_cpu(ctx, counts, stored, placed.widths, further_s),
        "ndp": near,
        "ndp_s": np.where(localised & ~resident, near.seconds, np.inf),
    }


def scheduling_problem(
    ctx: Context, placed: Placed, counts: np.ndarray, costs: dict[str, Any], base_gpu: Array
) -> dict[str, Any]:
    """The scheduling problem of every sampled step and layer, as the scheduler takes it."""
    dram, ndp = ctx.machine.dram, ctx.machine.dimm_ndp
    assert dram is not None and ndp is not None
    samples, layers, count = counts.shape
    rows = samples * layers

    def flat(values: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.broadcast_to(values, counts.shape).reshape(rows, count))

    reads = flat(placed.stored.bytes)
    zero = np.zeros(rows)
    return {
        "gpu_s": flat(costs["gpu_s"]),
        "cpu_s": flat(costs["cpu"].seconds),
        "ndp_s": flat(costs["ndp_s"]),
        "tokens": flat(counts),
        "home": flat(placed.home),
        "gpu_reads": np.where(flat(placed.resident), 0.0, reads),
        "cpu_reads": reads,
        "dimm_read_bytes_per_s": host_read_rate(ctx, "dimm_ndp"),
        "host_bytes_per_s": dram.bandwidth_bytes_per_s,
        "base_gpu_s": np.tile(base_gpu, samples),
        "base_cpu_s": zero,
        "base_host_s": zero,
        "dimms": ndp.units,
    }


def expected_costs(
    ctx: Context, mean_tokens: Array, stored: Stored, kind: str = "dimm_ndp"
) -> tuple[Array, Array, Array]:
    """Expected seconds of a step of each expert from HBM, on the CPU (striped) and on its unit (localised).

    mean_tokens: float64 [layers, experts], as the results: an expert with a small mean load is hit in only some steps.
    """
    hit = 1.0 - np.exp(-mean_tokens)
    tokens = np.maximum(mean_tokens / np.maximum(hit, 1e-30), 1.0)
    width, mapping = ctx.gpu_width, str(ctx.option("ndp_compute", "gemv"))
    hot = on_gpu(ctx, tokens, width.expert_bytes, width.format).seconds
    own = warm_width(ctx)
    widths = [*(w for w, _ in ctx.other_widths()), *([own] if own is not None else [])]
    warm = on_cpu(ctx, tokens, stored, widths).seconds
    return hit * hot, hit * warm, hit * experts.on_ndp(ctx, tokens, stored, kind, mapping).seconds
