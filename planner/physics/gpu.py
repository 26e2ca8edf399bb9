"""Time of matrix products on a GPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.machine import Gpu
from planner.physics.operation import Array


def compute_efficiency(tokens: ArrayLike, gpu: Gpu) -> Array:
    """Achieved share of peak FLOP/s of a product with ``tokens`` rows: ``max * n / (n + half)``.

    Saturating form; both constants are figures of the system (fitted on GEMM micro-benchmarks).
    """
    rows = np.asarray(tokens, float)
    return gpu.compute_efficiency_max * rows / (rows + gpu.compute_half_tokens)


def product_compute_s(parameters: ArrayLike, tokens: ArrayLike, gpu: Gpu, rate: str) -> Array:
    """Seconds of compute of ``tokens`` rows times a weight of ``parameters`` elements: 2 FLOP per multiply-add.

    Written so that zero tokens take zero time: ``2 P (n + half) / (peak max)`` for n > 0.
    """
    rows = np.asarray(tokens, float)
    flop = 2.0 * np.asarray(parameters, float) * (rows + gpu.compute_half_tokens)
    return np.where(rows > 0, flop / (gpu.flop_per_s(rate) * gpu.compute_efficiency_max), 0.0)


def layer_overhead_s(gpu: Gpu, tokens_in_pass: float, ranks: int, cuda_graphs: bool) -> float:
    """Launch and synchronisation of one layer: a replayed graph, or single kernels above the captured batch.

    ``layer_launch_s + layer_launch_tp_s * log2(ranks)`` with graphs; the eager figure otherwise.
    """
    captured = cuda_graphs and tokens_in_pass <= gpu.captured_batch_max
    base = gpu.layer_launch_s if captured else gpu.layer_launch_eager_s
    return base + gpu.layer_launch_tp_s * float(np.log2(ranks))
