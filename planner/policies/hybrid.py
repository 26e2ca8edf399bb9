"""What the policies that use host or near-data memory share: residents on the GPU, streamed prefill, ledgers."""

from __future__ import annotations

import math
from math import ceil

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.parallel import Layout
from planner.physics import attention, collective, experts, transfers
from planner.physics.attention import Rows
from planner.physics.experts import Counts, Stored, spread
from planner.physics.memory import Tier, gpu_tier
from planner.physics.operation import Phase
from planner.policies.base import Prepared
from planner.step import Pass


def hybrid_gpu_tier(
    ctx: Context,
    layout: Layout,
    kv_location: str,
    resident: int,
    batch: int,
    context_tokens: float,
    buffer_bytes: float = 0.0,
) -> Tier:
    """GPU ledger with ``resident`` experts of each layer, one copy per node, sliced over its GPUs."""
    return gpu_tier(
        ctx,
        layout,
        batch,
        context_tokens,
        kv_on_gpu=kv_location == "gpu",
        expert_bytes=ctx.gpu_width.expert_bytes * resident * ctx.moe_layers,
        buffer_bytes=buffer_bytes,
    )


def add_host_kv(ctx: Context, tier: Tier, kv_location: str, batch: int, context_tokens: float) -> None:
    if kv_location == "host":
        each = ctx.kv_held_bytes(context_tokens)
        tier.add("KV cache", each * batch, each * ceil(batch / tier.devices))  # whole sequences on each node


def add_residents(
    ctx: Context, run: Pass, phase: Phase, counts: Counts, resident: NDArray[np.bool_], layout: Layout
) -> None:
    """Experts that are computed from HBM, each sliced over the GPUs of the node."""
    width = ctx.gpu_width
    work = experts.on_gpu(ctx, counts, width.expert_bytes, width.format, layout.tensor).only(resident)
    seconds = work.seconds
    waits = np.where(work.compute_s >= work.bytes_s, seconds, 0.0)
    phase.add("gpu", "routed_gpu", "gpu_compute", spread(ctx, waits.sum(axis=2)))
    phase.add("gpu", "routed_gpu", "hbm", spread(ctx, (seconds - waits).sum(axis=2)))
    experts.count_gpu(ctx, run.flows, counts, resident, width.expert_bytes, width.format)
    if layout.tensor > 1:
        message = np.asarray(ctx.work.is_moe, float) * counts_rows(counts, ctx) * ctx.hidden_bytes
        transfers.add_collective(ctx, run, phase, message * 2.0 * (layout.tensor - 1) / layout.tensor, layout.tensor)


def counts_rows(counts: Counts, ctx: Context) -> float:
    """Rows of the pass that the counts belong to: token-expert pairs over top-k."""
    return float(counts[0, 0].sum()) / ctx.top_k


def streamed_prefill(
    ctx: Context,
    ready: Prepared,
    stored: Stored,
    resident: NDArray[np.bool_],
    counts: Counts,
    tokens: int,
    fmt: str,
    *,
    overlap: float,
    whole_layers: bool = True,
    source: str = "host",
) -> Pass:
    """Prefill on the GPU with the experts of each layer streamed from ``source`` memory (layer-wise prefill).

    ``whole_layers`` streams every non-resident expert of a layer, routed to or not; else only those that are hit.
    ``overlap`` is how much of the shorter of streaming and computing hides behind the longer.
    """
    rows = attention.prefill_rows(ctx, tokens)
    layout = ready.layout
    run = Pass(tokens=rows.tokens, copies=layout.data)
    attention.add_attention(ctx, run, rows, layout, "gpu", "gpu")
    phase = run.phase("experts, streamed", overlap)
    add_dense_side(ctx, run, phase, rows, layout)
    add_residents(ctx, run, phase, counts, resident, layout)
    add_streamed(ctx, run, phase, stored, resident, counts, fmt, whole_layers, source=source)
    attention.add_head(ctx, run, rows, layout)
    attention.add_overhead(ctx, run, rows, layout)
    return run


def add_streamed(
    ctx: Context,
    run: Pass,
    phase: Phase,
    stored: Stored,
    resident: NDArray[np.bool_],
    counts: Counts,
    fmt: str,
    whole_layers: bool,
    share: float = 1.0,
    source: str = "host",
) -> None:
    """Non-resident experts cross the links and are computed on the GPU.

    ``share``: one over the passes that a crossing serves; that share of its bytes is charged to each.
    """
    layout_slices = ctx.machine.gpu.per_node if ctx.machine.gpu else 1
    work = experts.on_gpu(ctx, counts, stored.bytes, fmt, layout_slices).only(~resident)
    seconds = work.seconds
    waits = np.where(work.compute_s >= work.bytes_s, seconds, 0.0)
    phase.add("gpu", "routed_gpu", "gpu_compute", spread(ctx, waits.sum(axis=2)))
    phase.add("gpu", "routed_gpu", "hbm", spread(ctx, (seconds - waits).sum(axis=2)))
    if whole_layers:
        moved = np.where(resident, 0.0, stored.bytes).sum(axis=1)[None, :]
    else:
        hit = ((counts > 0) & ~resident).astype(float)
        if share < 1.0:  # a group of passes: what any of them hits crosses once
            hit = 1.0 - (1.0 - hit.mean(axis=0, keepdims=True)) ** (1.0 / share)
        moved = (hit * stored.bytes).sum(axis=2)
    crossing = spread(ctx, moved * share)[None]
    if source == "cxl_ndp":
        add_cxl_to_gpu(ctx, run, phase, crossing)
    else:
        transfers.add_host_to_gpu(ctx, run, phase, "link", crossing)
    pairs, read = experts.tokens_and_bytes(counts, ~resident, stored.bytes)
    gpu = ctx.machine.gpu
    assert gpu is not None
    flop = 2.0 * ctx.expert_parameters * pairs
    run.flows.gpu_flop += flop
    run.flows.gpu_peak_s += flop / gpu.flop_per_s(ctx.gpu_rate(fmt))
    run.flows.hbm_bytes += read
    run.flows.hbm_achieved_s += read / gpu.bandwidth_bytes_per_s


def add_cxl_to_gpu(ctx: Context, run: Pass, phase: Phase, moved_bytes: NDArray[np.float64]) -> None:
    """Bytes from CXL devices to the GPUs of a node: the devices' ports and the GPUs' ports in series."""
    link, pcie, ndp, gpu = ctx.machine.cxl_link, ctx.machine.pcie, ctx.machine.cxl_ndp, ctx.machine.gpu
    assert link is not None and pcie is not None and ndp is not None and gpu is not None
    inside = ndp.bandwidth_bytes_per_s * ndp.units  # the device reads its own memory first
    rate = min(link.bytes_per_s * ndp.units, ctx.machine.host_to_gpus_bytes_per_s, inside)
    phase.add("cxl_link", "link", "link", moved_bytes / rate)
    total = float(moved_bytes.reshape(-1, moved_bytes.shape[-1]).mean(axis=0).sum())
    run.flows.cxl_link_bytes += total
    run.flows.cxl_bytes += total
    if ctx.option("cxl_bounce", False) and ctx.machine.dram is not None:
        phase.add("dram", "link", "dram", 2.0 * moved_bytes / ctx.machine.dram.bandwidth_bytes_per_s)
        run.flows.dram_bytes += 2.0 * total


def add_dense_side(ctx: Context, run: Pass, phase: Phase, rows: Rows, layout: Layout) -> None:
    """Dense MLPs and shared experts on the GPU, beside whatever else runs in the phase."""
    attention.add_dense(ctx, run, phase, rows, layout)
    attention.add_shared(ctx, run, phase, rows, layout)
    dense = (np.asarray(ctx.work.dense_parameters) > 0) & ~ctx.work.is_moe  # MoE layers reduce with their experts
    if layout.tensor > 1 and dense.any():
        sent = collective.all_reduce_bytes(rows.tokens * ctx.hidden_bytes, layout.tensor)
        transfers.add_collective(ctx, run, phase, sent * np.asarray(dense, float), layout.tensor)


def host_experts(ctx: Context, tier: Tier, stored_bytes: float, copies: int, duplicated_share: float = 0.0) -> None:
    """Routed experts in host memory, one copy per node, and one layer of them more while they are repacked.

    ``duplicated_share`` of them are resident in HBM too: the engine's own duplicates.
    """
    tier.add("experts", stored_bytes * (1.0 - duplicated_share) * copies)
    tier.add("duplicates of experts in HBM", stored_bytes * duplicated_share * copies)
    tier.add("load peak", stored_bytes / max(ctx.moe_layers, 1) * copies)


def sync_s(ctx: Context) -> float:
    """Host round trip of an MoE layer that hands work to the CPU: what the fitted per-layer cost adds to a launch."""
    cpu, gpu = ctx.machine.cpu, ctx.machine.gpu
    if cpu is None or gpu is None:
        return 0.0
    launch = gpu.layer_launch_s + gpu.layer_launch_tp_s * math.log2(gpu.per_node)
    return max(0.0, cpu.layer_sync_s - launch)
