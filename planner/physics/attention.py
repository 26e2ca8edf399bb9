"""Attention and the other weights outside the routed experts: their phases of a pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import models
from planner.context import Context
from planner.parallel import Layout, attention_ranks
from planner.physics import collective, launches, transfers
from planner.physics import gpu as gpu_physics
from planner.physics.operation import Array, Phase
from planner.result import PartId
from planner.step import Pass

NO_MIXER = models.KINDS.index("none")  # a layer that is a feed-forward block alone


@dataclass(frozen=True)
class Rows:
    """What a pass computes on one replica."""

    tokens: int  # rows through every layer
    sequences: int  # sequences that they belong to
    logits_rows: int  # rows that need the LM head
    prefill: bool
    attention_flop: Array  # of all rows together, projections excluded, [contexts, 1, layers]
    kv_read_bytes: Array  # of all sequences together, [contexts, 1, layers]
    state_bytes: Array  # recurrent state of all sequences, read and written once, [layers]


def decode_rows(ctx: Context, sequences: int) -> Rows:
    """A decode or verify pass of ``sequences``; a verify pass reads each sequence's KV once for all its tokens."""
    tokens = sequences * ctx.tokens_per_sequence
    return Rows(
        tokens=tokens,
        sequences=sequences,
        logits_rows=tokens,
        prefill=False,
        attention_flop=ctx.attention_flop * tokens,
        kv_read_bytes=ctx.kv_read_bytes * sequences,
        state_bytes=ctx.state_bytes * sequences,
    )


def prefill_rows(ctx: Context, tokens: int) -> Rows:
    """A prefill pass of ``tokens`` new prompt tokens, as many prompts (or parts of one) as fill it.

    Each row sees the prompt up to itself, so a pass is timed at the mean context of the new tokens; the KV of the
    context is read once per pass and sequence.
    """
    prompt = ctx.scenario.workload.prompt_tokens
    new = ctx.new_prompt_tokens
    mean_context = prompt - new + (new + 1) / 2.0
    sequences = max(1, round(tokens / new))
    kv = ctx.scenario.model.kv_format
    return Rows(
        tokens=tokens,
        sequences=sequences,
        logits_rows=sequences,
        prefill=True,
        attention_flop=models.attention_flops(ctx.arch, mean_context, absorbed=False)[None, None] * tokens,
        kv_read_bytes=models.kv_bytes_held(ctx.arch, kv, mean_context)[None, None] * sequences,
        state_bytes=ctx.state_bytes * sequences,
    )


def _gpu_weights(
    ctx: Context,
    run: Pass,
    phase: Phase,
    part: PartId,
    group: str,
    parameters: Array,
    tokens: float,
    ranks: int,
    read_by: int,
    fullest: float = 1.0,
) -> None:
    """One product per layer on each GPU: ``tokens`` rows against ``parameters / ranks`` weights of ``group``.

    ``fullest``: rows of the fullest GPU over the mean; it sets the time.
    """
    gpu = ctx.machine.gpu
    assert gpu is not None
    rate = "bf16" if group in ("router", "embed", "lm_head") else ctx.dense_rate
    slice_parameters = np.asarray(parameters, float) / ranks
    stored = ctx.group_bytes(group, slice_parameters)
    compute = gpu_physics.product_compute_s(slice_parameters, tokens * fullest, gpu, rate)
    moved = stored / gpu.bandwidth_bytes_per_s
    phase.add_operation("gpu", part, compute, moved, gpu.overlap, "gpu_compute", "hbm")
    flop = 2.0 * float(slice_parameters.sum()) * tokens * read_by
    run.flows.gpu_flop += flop
    run.flows.gpu_peak_s += flop / gpu.flop_per_s(rate)
    run.flows.hbm_bytes += float(stored.sum()) * read_by
    run.flows.hbm_achieved_s += float(moved.sum()) * read_by


def _fullest(rows: Rows, layout: Layout) -> float:
    """Sequences of the fullest GPU over the mean: whole sequences, where each GPU runs attention for its own."""
    if not layout.attention_data or rows.prefill:
        return 1.0
    return math.ceil(rows.sequences / layout.tensor) * layout.tensor / rows.sequences


def add_attention(ctx: Context, run: Pass, rows: Rows, layout: Layout, kv_location: str, device: str) -> None:
    """Projections (always on the GPU) and the attention core on its device, with the KV cache where it lives."""
    gpu, t = ctx.machine.gpu, layout.tensor
    assert gpu is not None
    phase = run.phase("attention")
    per_rank = rows.tokens / t if layout.attention_data else rows.tokens
    ranks = 1 if layout.attention_data else t
    fullest = _fullest(rows, layout)
    _gpu_weights(ctx, run, phase, "attention", "mixer", ctx.work.mixer_parameters, per_rank, ranks, t, fullest)
    _gpu_weights(ctx, run, phase, "dense_shared", "router", ctx.work.router_parameters, rows.tokens, 1, t)
    if device == "cpu":
        add_core_on_cpu(ctx, run, phase, rows, from_gpu=True)
    else:
        _gpu_core(ctx, run, phase, rows, layout, kv_location)
    if t > 1:
        _attention_collective(ctx, run, phase, rows, layout)


def _gpu_core(ctx: Context, run: Pass, phase: Phase, rows: Rows, layout: Layout, kv_location: str) -> None:
    gpu, t = ctx.machine.gpu, layout.tensor
    assert gpu is not None
    shards = attention_ranks(ctx, layout)
    state = 2.0 * rows.state_bytes / t
    kv = rows.kv_read_bytes / shards + state
    flop = rows.attention_flop / t
    compute = flop / (gpu.flop_per_s("bf16") * gpu.compute_efficiency_max)
    moved = kv / gpu.kv_bandwidth_bytes_per_s
    fullest = _fullest(rows, layout)
    phase.add_operation("gpu", "attention", compute * fullest, moved * fullest, gpu.overlap, "gpu_compute", "hbm")
    run.flows.gpu_flop += float(flop.mean(axis=0).sum()) * t
    run.flows.gpu_peak_s += float(flop.mean(axis=0).sum()) * t / gpu.flop_per_s("bf16")
    run.flows.hbm_bytes += float(kv.mean(axis=0).sum()) * t
    run.flows.hbm_achieved_s += float(moved.mean(axis=0).sum()) * t
    if kv_location == "host":
        transfers.add_host_to_gpu(ctx, run, phase, "attention", rows.kv_read_bytes + 2.0 * rows.state_bytes)


def add_core_on_cpu(ctx: Context, run: Pass, phase: Phase, rows: Rows, *, from_gpu: bool) -> None:
    """The attention core on the CPU, where the cache lies; ``from_gpu``: its queries come from there and go back."""
    cpu, dram = ctx.machine.cpu, ctx.machine.dram
    assert cpu is not None and dram is not None
    kv = rows.kv_read_bytes + 2.0 * rows.state_bytes
    compute = rows.attention_flop / cpu.vector_flop_per_s
    moved = kv / dram.cpu_kv_bandwidth_bytes_per_s
    phase.add_operation("cpu", "attention", compute, moved, cpu.overlap, "cpu_compute", "dram")
    phase.add("dram", "attention", "dram", kv / dram.bandwidth_bytes_per_s)
    if from_gpu:  # serial with the core on the same lane, where a layer has a cache at all
        transfers.add_round_trip(ctx, run, phase, "cpu", rows.tokens * ctx.hidden_bytes * (kv.max(axis=(0, 1)) > 0))
    run.flows.cpu_flop += float(rows.attention_flop.mean(axis=0).sum())
    run.flows.dram_bytes += float(kv.mean(axis=0).sum())


def _attention_collective(ctx: Context, run: Pass, phase: Phase, rows: Rows, layout: Layout) -> None:
    """All-reduce of the sliced heads; sequences of their own need none (what follows gathers its rows itself)."""
    if not layout.attention_data:
        sent = collective.all_reduce_bytes(rows.tokens * ctx.hidden_bytes, layout.tensor)
        transfers.add_collective(ctx, run, phase, sent * np.asarray(ctx.work.kind != NO_MIXER, float), layout.tensor)


def add_dense(ctx: Context, run: Pass, phase: Phase, rows: Rows, layout: Layout) -> None:
    """Dense MLPs (and residual MLPs) on the GPU, sliced over the ranks."""
    _gpu_weights(
        ctx, run, phase, "dense_shared", "dense", ctx.work.dense_parameters, rows.tokens, layout.tensor, layout.tensor
    )


def add_shared(ctx: Context, run: Pass, phase: Phase, rows: Rows, layout: Layout) -> None:
    """Shared experts on the GPU, sliced over the ranks."""
    _gpu_weights(
        ctx, run, phase, "dense_shared", "shared", ctx.work.shared_parameters, rows.tokens, layout.tensor, layout.tensor
    )


def add_head(ctx: Context, run: Pass, rows: Rows, layout: Layout) -> None:
    """LM head, once per pass; and the MTP module, once per drafted token."""
    phase = run.phase("head")
    head = np.asarray([float(ctx.work.lm_head_parameters)])
    _gpu_weights(ctx, run, phase, "dense_shared", "lm_head", head, rows.logits_rows, layout.tensor, layout.tensor)
    drafted = ctx.scenario.workload.draft_tokens
    if drafted and not rows.prefill and ctx.work.mtp_parameters:
        _add_mtp(ctx, run, phase, rows.sequences, drafted, layout.tensor)


def _add_mtp(ctx: Context, run: Pass, phase: Phase, sequences: int, drafted: int, ranks: int) -> None:
    """The MTP module and the LM head, once per drafted token: what all tokens need, and the distinct experts they hit.

    Its router is not sampled: experts are taken as equally likely, ``E (1 - (1 - k/E)^n)`` of them hit by n tokens.
    """
    each = float(ctx.work.mtp_expert_parameters)
    module = float(ctx.work.mtp_parameters) / max(len(ctx.arch.mtp_blocks), 1)
    rest = np.full(drafted, max(module - each * ctx.experts, 0.0) if each else module)
    _gpu_weights(ctx, run, phase, "dense_shared", "mixer", rest, sequences, ranks, ranks)
    head = np.full(drafted, float(ctx.work.lm_head_parameters))
    _gpu_weights(ctx, run, phase, "dense_shared", "lm_head", head, sequences, ranks, ranks)
    if each:
        hit = ctx.experts * (1.0 - (1.0 - ctx.top_k / ctx.experts) ** sequences)
        # Whole experts follow each other, each with its share of the tokens.
        routed = np.full(drafted, hit * each)
        _gpu_weights(ctx, run, phase, "dense_shared", "mixer", routed, sequences * ctx.top_k / hit, ranks, ranks)


def add_overhead(ctx: Context, run: Pass, rows: Rows, layout: Layout, moe_extra_s: float = 0.0) -> None:
    """Launch and synchronisation of every layer; ``moe_extra_s`` for MoE layers that hand work to another device."""
    gpu = ctx.machine.gpu
    assert gpu is not None
    phase = run.phase("overhead")
    # Prefill keeps the GPU busy for longer than a launch takes, so single kernels hide behind each other there;
    # where it does not, serving holds the pass to the time of its launches.
    graphs = rows.prefill or ctx.scenario.policy.cuda_graphs
    # With data-parallel attention every GPU has its own share of the batch: graphs are captured for that, and its own
    # scheduler looks after that.
    schedulers = layout.tensor if layout.attention_data else 1
    counted = 0 if rows.prefill else rows.tokens / schedulers
    each = gpu_physics.layer_overhead_s(gpu, counted, layout.tensor, graphs)
    seconds = np.full(ctx.layers, each) + np.asarray(ctx.work.is_moe, float) * moe_extra_s
    if gpu.kernel_launch_s and graphs and not rows.prefill and counted <= gpu.captured_batch_max:
        seconds = np.maximum(seconds + launches.captured_extra_s(ctx, gpu.kernel_launch_s), 0.0)
    phase.add("overhead", "overhead", "overhead", seconds)
    engine = gpu.step_overhead_s + gpu.sequence_overhead_s * rows.sequences / schedulers
    if engine > 0:  # between two passes: scheduling, sampling, input preparation
        run.phase("engine").add("overhead", "overhead", "overhead", np.array([engine]))
