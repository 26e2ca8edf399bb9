"""Time of matrix products on a GPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.devices import Gpu
from planner.physics.operation import Array

TILE_ROWS = 16.0  # rows of the smallest tensor-core tile (mma.m16n8k16): fewer rows cost as much


def computed_rows(tokens: ArrayLike, gpu: Gpu) -> Array:
    """Rows that a product with ``tokens`` rows costs at the best efficiency: whole tiles, and what large ones lose.

    ``N (1 + h / (N + h))`` with ``N = ceil(n / 16) 16`` and ``h = compute_half_tokens``: n + h rows for many tokens
    (tile and wave quantisation), whole tiles for few. Never fewer for more tokens. 0 for n = 0.
    """
    rows = np.ceil(np.asarray(tokens, float) / TILE_ROWS) * TILE_ROWS
    lost = gpu.compute_half_tokens
    return rows * (1.0 + lost / np.maximum(rows + lost, 1.0))


def product_compute_s(parameters: ArrayLike, tokens: ArrayLike, gpu: Gpu, rate: str) -> Array:
    """Seconds of compute of ``tokens`` rows times a weight of ``parameters`` elements: 2 FLOP per multiply-add."""
    flop = 2.0 * np.asarray(parameters, float) * computed_rows(tokens, gpu)
    return flop / (gpu.flop_per_s(rate) * gpu.compute_efficiency_max)


def layer_overhead_s(gpu: Gpu, tokens_in_pass: float, ranks: int, cuda_graphs: bool) -> float:
    """Launch and synchronisation of one layer: a replayed graph, or single kernels above the captured batch.

    ``layer_launch_s + layer_launch_tp_s * log2(ranks)`` with graphs; the eager figure without them, the figure beyond
    the captured batch for a batch that is larger, whichever costs more where both apply.
    """
    base = gpu.layer_launch_s if cuda_graphs else gpu.layer_launch_eager_s
    if tokens_in_pass > gpu.captured_batch_max:
        base = max(gpu.layer_uncaptured_s, base)
    return base + gpu.layer_launch_tp_s * float(np.log2(ranks))
