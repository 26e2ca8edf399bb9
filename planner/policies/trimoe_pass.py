"""A schedule of TriMoE put into the lanes and flows of a pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.context import Context
from planner.physics import experts, transfers
from planner.physics.experts import spread
from planner.physics.operation import Array, Phase
from planner.policies.base import TIER_CODE, Placed
from planner.policies.hybrid import counts_rows
from planner.policies.trimoe_cxl import add_activations
from planner.policies.trimoe_domains import WideResult
from planner.policies.trimoe_futures import FuturePlaced
from planner.schedule import CPU, GPU, NDP, ScheduleResult
from planner.step import Pass


def add_domains(
    ctx: Context,
    run: Pass,
    phase: Phase,
    placed: Placed,
    counts: np.ndarray,
    costs: dict[str, Any],
    plan: ScheduleResult,
) -> None:
    """The schedule as pieces of the phase, each second on the resource that it waits for."""
    dram, gpu = ctx.machine.dram, ctx.machine.gpu
    assert dram is not None and gpu is not None
    domain = plan.domain.reshape(counts.shape)
    resident = np.broadcast_to(placed.resident, counts.shape)
    hit, miss = (domain == GPU) & resident, (domain == GPU) & ~resident
    hot, fetched, link_s = costs["hot"], costs["fetched"], np.broadcast_to(costs["link_s"], counts.shape)

    def add(lane: Any, part: Any, resource: Any, seconds: Array) -> None:
        phase.add(lane, part, resource, spread(ctx, seconds.sum(axis=2)))

    for work, mask in ((hot, hit), (fetched, miss & (fetched.seconds >= link_s))):
        waits = work.compute_s >= work.bytes_s
        add("gpu", "routed_gpu", "gpu_compute", np.where(mask & waits, work.seconds, 0.0))
        add("gpu", "routed_gpu", "hbm", np.where(mask & ~waits, work.seconds, 0.0))
    add("gpu", "link", "link", np.where(miss & (fetched.seconds < link_s), link_s, 0.0))
    on_cpu = domain == CPU
    work = costs["cpu"]
    waits = work.compute_s >= work.bytes_s
    lane = on_cpu
    if isinstance(plan, WideResult) and isinstance(placed, FuturePlaced):  # the later of the sockets sets the time
        lane = on_cpu & (placed.socket[None] == plan.busiest_socket.reshape(*counts.shape[:2], 1))
    add("cpu", "routed_cpu", "cpu_compute", np.where(lane & waits, work.seconds, 0.0))
    add("cpu", "routed_cpu", "dram", np.where(lane & ~waits, work.seconds, 0.0))
    reads = np.where(on_cpu | miss, placed.stored.bytes, 0.0)
    phase.add("dram", "routed_cpu", "dram", spread(ctx, plan.host_s.reshape(counts.shape[:2])))
    _add_units(ctx, phase, placed, domain, costs, plan)
    _count(ctx, run, placed, counts, costs, hit, miss, on_cpu, domain == NDP, reads)


def _add_units(
    ctx: Context, phase: Phase, placed: Placed, domain: np.ndarray, costs: dict[str, Any], plan: ScheduleResult
) -> None:
    shape = domain.shape
    load = plan.ndp_s.reshape(*shape[:2], plan.ndp_s.shape[1])
    busiest = load.argmax(axis=2)
    there = (domain == NDP) & (placed.home[None] == busiest[..., None])
    work = costs["ndp"]
    on_compute = np.where(there & (work.compute_s >= work.bytes_s), work.seconds, 0.0).sum(axis=2)
    rest = np.maximum(load.max(axis=2) - on_compute, 0.0)
    phase.add("ndp", "routed_ndp", "ndp_compute", spread(ctx, on_compute))
    phase.add("ndp", "routed_ndp", "ndp_memory", spread(ctx, rest))


def _count(
    ctx: Context,
    run: Pass,
    placed: Placed,
    counts: np.ndarray,
    costs: dict[str, Any],
    hit: np.ndarray,
    miss: np.ndarray,
    on_cpu: np.ndarray,
    on_ndp: np.ndarray,
    reads: Array,
) -> None:
    width, flows, gpu = ctx.gpu_width, run.flows, ctx.machine.gpu
    assert gpu is not None
    experts.count_gpu(ctx, flows, counts, hit, width.expert_bytes, width.format)
    samples = counts.shape[0]
    pairs, moved = experts.tokens_and_bytes(counts, miss, placed.stored.bytes)
    flows.gpu_flop += 2.0 * ctx.expert_parameters * pairs
    if "fetched_flop_per_s" in costs:  # experts of several formats
        seconds = np.where(miss, counts, 0) / costs["fetched_flop_per_s"]
        flows.gpu_peak_s += 2.0 * ctx.expert_parameters * float(seconds.sum()) / samples
    else:
        rate = gpu.flop_per_s(ctx.gpu_rate(placed.widths[0].format))
        flows.gpu_peak_s += 2.0 * ctx.expert_parameters * pairs / rate
    flows.hbm_bytes += moved
    flows.hbm_achieved_s += moved / gpu.bandwidth_bytes_per_s
    flows.pcie_bytes += moved
    pairs, _ = experts.tokens_and_bytes(counts, on_cpu, placed.stored.bytes)
    flows.cpu_flop += 2.0 * ctx.expert_parameters * pairs
    flows.dram_bytes += float(reads.sum()) / samples
    mapping = str(ctx.option("ndp_compute", "gemv"))
    on_cxl = on_ndp & (placed.tier == TIER_CODE["cxl_ndp"])
    experts.count_ndp(ctx, flows, counts, on_ndp & ~on_cxl, placed.stored, "dimm_ndp", mapping)
    if on_cxl.any():
        experts.count_ndp(ctx, flows, counts, on_cxl, placed.stored, "cxl_ndp", mapping)
        add_activations(ctx, run, counts, on_cxl)
    flows.ndp_host_bytes += float(reads.sum()) / samples


def add_hand_over(ctx: Context, run: Pass, counts: np.ndarray) -> None:
    """Activations to the host and results back once per layer, before and after the three domains."""
    pcie, gpu, ndp, dram = ctx.machine.pcie, ctx.machine.gpu, ctx.machine.dimm_ndp, ctx.machine.dram
    assert pcie is not None and gpu is not None and ndp is not None and dram is not None
    phase = run.phase("hand-over")
    moved = counts_rows(counts, ctx) * ctx.hidden_bytes
    rate = min(ctx.machine.host_to_gpus_bytes_per_s, dram.bandwidth_bytes_per_s / 2.0)
    phase.add("link", "link", "link", spread(ctx, np.full((1, ctx.moe_layers), 2.0 * moved / rate)))
    fixed = 2.0 * pcie.latency_s + 2.0 * ndp.command_s
    transfers.add_latency(run, spread(ctx, np.full((1, ctx.moe_layers), fixed)))
    run.flows.pcie_bytes += moved * ctx.moe_layers
    run.flows.dram_bytes += 2.0 * moved * ctx.moe_layers
