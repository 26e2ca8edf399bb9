"""Kernels that one layer is made of: what each costs in launches, whatever its size.

A decoder layer of the plainest kind (grouped-query attention, 16-bit or weight-only formats, no shared expert) runs 13
kernels in today's engines; latent attention, an index over the cache, linear attention, normed queries and keys,
shared experts and products of 8-bit activations (each preceded by its quantisation) add to them. Counted by hand from
the structure of a layer as engines usually fuse it, not profiled; an engine may launch more or fewer. A layer of one
block alone (a mixer or experts, as hybrid models number them) has fewer. In a captured graph each kernel more or less
costs or saves its dispatch (``gpu.kernel_launch_s``); a pass that is launched kernel by kernel, as
prefill passes are, lasts no less than the host takes for all of them (``gpu.kernel_launch_eager_s``). Both are 0
in the catalog; the calibration of an engine states them.
"""

from __future__ import annotations

import numpy as np

from models import Layer
from planner.context import Context
from planner.physics.operation import Array

PLAIN = 13
"""Of the plainest MoE layer, the one that ``gpu.layer_launch_s`` stands for."""
MIXER = {
    "full": 5,  # norm, QKV product, rotation and cache write, attention, output product
    "window": 5,
    "compressed": 8,  # and compressor product, its norm, choice of entries
    "mla": 10,  # norm, down product, 2 norms, query product, rotation and write, 2 absorbed products, attention, output
    "linear": 8,  # norm, 2 input products, convolution, gates, recurrence, gated norm, output product
    "mamba": 6,
    "none": 0,
}
INDEX = 7  # 3 products, norm, rotation, scores, choice
EXPERTS = 8  # norm, router, choice, permutation, product, activation, product, weighted sum
SHARED = 4  # product, activation, product, addition
DENSE = 4  # norm, product, activation, product
EIGHT_BIT = ("fp8", "int8", "fp4")


def kernels(ctx: Context) -> Array:
    """Kernels of each layer of a pass on the GPU, [layers]."""
    return np.array([_kernels(ctx, layer) for layer in ctx.arch.layers], float)


def _kernels(ctx: Context, layer: Layer) -> int:
    names = [t.name for t in layer.tensors]
    eight, eight_experts = ctx.dense_rate in EIGHT_BIT, ctx.gpu_rate(ctx.gpu_width.format) in EIGHT_BIT
    mixer = layer.mixer
    count = MIXER.get(mixer.kind, MIXER["full"])
    count += any("qk_norm" in n or "q_norm" in n for n in names) and mixer.kind in ("full", "window")
    if mixer.kind != "none" and eight:
        count += 3 if mixer.kind == "mla" else 2
    if mixer.index_topk and mixer.index_keys:
        count += INDEX + 2 * eight
    if layer.is_moe:
        count += EXPERTS + 2 * eight_experts
        count += (SHARED + 2 * eight) * (layer.shared_experts > 0)
    elif layer.ffn == "dense":
        count += DENSE + 2 * eight
    return count


def captured_extra_s(ctx: Context, kernel_s: float) -> Array:
    """Time of the kernels of each layer more than a plain one's in a captured graph, [layers]; negative for fewer."""
    return (kernels(ctx) - PLAIN) * kernel_s


def launched_s(ctx: Context, kernel_s: float) -> float:
    """Time that the host takes to launch all kernels of a pass one by one; no such pass is shorter."""
    return float(kernels(ctx).sum()) * kernel_s
