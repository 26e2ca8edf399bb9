"""How a plan spreads over GPUs: tensor, expert, data and pipeline parallel, and attention per rank."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from planner.context import Context
from planner.errors import PlanError


@dataclass(frozen=True)
class Layout:
    """``tensor`` GPUs share each layer of one stage, ``pipeline`` stages make one replica, ``data`` replicas run.

    ``expert``: the ``tensor`` GPUs hold whole experts instead of slices. ``attention_data``: each of them runs
    attention for its own sequences (weights replicated) instead of a slice of the heads.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False
    attention_data: bool = False
    micro_batches: int = 1

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data

    def words(self) -> str:
        parts = []
        if self.tensor > 1:
            kind = "expert" if self.expert else "tensor"
            parts.append(f"{kind} parallel over {self.tensor} GPUs")
            if self.attention_data:
                parts.append("attention data parallel")
        if self.pipeline > 1:
            parts.append(f"{self.pipeline} pipeline stages")
        if self.data > 1:
            parts.append(f"{self.data} replicas")
        return ", ".join(parts) or "one GPU"


def sequences_per_pass(batch: int, layout: Layout) -> int:
    """Sequences of one pass of the fullest replica (whole sequences: the slowest sets the time)."""
    replica = math.ceil(batch / layout.data)
    return max(1, math.ceil(replica / passes_per_step(batch, layout)))


def passes_per_step(batch: int, layout: Layout) -> int:
    """Micro-batches of one step: those asked for, and at least one per pipeline stage if there are sequences."""
    replica = math.ceil(batch / layout.data)
    return min(max(layout.micro_batches, layout.pipeline), replica)


def replicas_at_work(batch: int, layout: Layout) -> float:
    """Replicas that have a sequence to decode: fewer than there are, when the batch is smaller."""
    return float(min(layout.data, batch))


def gpu_layout(ctx: Context) -> Layout:
    """Layout of an all-GPU plan: what the scenario says, the rest chosen.

    Chosen: tensor parallel over the GPUs of a node, pipeline over nodes. Products must equal the GPU count.
    """
    policy, gpus = ctx.scenario.policy, ctx.machine.gpus
    gpu = ctx.machine.gpu
    assert gpu is not None
    tensor, pipeline, data = policy.tensor_parallel, policy.pipeline_parallel, policy.data_parallel
    known = (tensor or 1) * (pipeline or 1) * (data or 1)
    if gpus % known:
        raise PlanError(
            f"tensor x pipeline x data parallel is {known}, which does not divide the system's {gpus} GPUs; "
            "choose numbers whose product does."
        )
    rest = gpus // known
    if tensor is None:
        tensor = math.gcd(rest, gpu.per_node)
        rest //= tensor
    if pipeline is None:
        pipeline = rest
        rest = 1
    if data is None:
        data, rest = rest, 1
    if rest != 1:
        raise PlanError(
            f"tensor {tensor} x pipeline {pipeline} x data {data} parallel use {tensor * pipeline * data} of the "
            f"system's {gpus} GPUs; the product must be {gpus}."
        )
    if pipeline > ctx.layers:
        raise PlanError(
            f"policy.pipeline_parallel is {pipeline}; the model has {ctx.layers} layers, so at most that many stages."
        )
    expert = bool(policy.expert_parallel)
    if expert and ctx.experts < tensor:
        raise PlanError(
            f"policy.expert_parallel needs at least one expert per GPU; the model has {ctx.experts} for {tensor} GPUs."
        )
    return Layout(
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        expert=expert and tensor > 1,
        attention_data=bool(ctx.option("attention_data_parallel", expert and _replicated(ctx))) and tensor > 1,
        micro_batches=policy.micro_batches,
    )


def node_layout(ctx: Context) -> Layout:
    """Layout of a policy that uses host or near-data memory: each node is a replica, its GPUs share each layer."""
    gpu = ctx.machine.gpu
    assert gpu is not None
    return Layout(tensor=gpu.per_node, data=gpu.nodes, micro_batches=ctx.scenario.policy.micro_batches)


def _replicated(ctx: Context) -> bool:
    import models

    return models.kv_replicated(ctx.arch)


def attention_ranks(ctx: Context, layout: Layout) -> np.ndarray:
    """Over how many GPUs the KV cache of a layer is really divided, [layers].

    Grouped-query heads divide up to their number; a latent (MLA) cache is read whole by every rank unless
    attention is data parallel.
    """
    if layout.attention_data:
        return np.full(ctx.layers, layout.tensor, float)
    if _replicated(ctx):
        return np.ones(ctx.layers)
    heads = np.maximum(np.asarray(ctx.work.kv_heads), 1)
    return np.minimum(heads, layout.tensor).astype(float)


def fullest_stage(per_layer: np.ndarray, layout: Layout) -> float:
    """Sum over the layers of the fullest pipeline stage, over the mean of all stages; 1 where there is nothing."""
    whole = float(per_layer.sum())
    if layout.pipeline == 1 or whole <= 0:
        return 1.0
    bounds = np.linspace(0, per_layer.size, layout.pipeline + 1).round().astype(int)
    return max(float(per_layer[a:b].sum()) for a, b in pairwise(bounds)) * layout.pipeline / whole


def pipeline_factor(layer_s: np.ndarray, layout: Layout, passes: int) -> float:
    """Time of a step in units of one pass through all layers.

    One stage: a pass per micro-batch. ``p`` stages with ``m`` micro-batches in flight: every stage works on
    ``m`` micro-batches per step, so ``m`` times the slowest stage, and never less than one whole pass.
    """
    if layout.pipeline == 1:
        return float(passes)
    return max(1.0, passes * fullest_stage(layer_s, layout) / layout.pipeline)
