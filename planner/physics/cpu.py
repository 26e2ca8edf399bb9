"""Time of an expert on the CPU: vector units for few tokens, matrix tiles above."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.devices import Cpu
from planner.physics.operation import Array


def expert_compute_s(parameters: float, tokens: ArrayLike, cpu: Cpu, matrix: ArrayLike = True) -> Array:
    """Seconds of compute of one expert with ``tokens`` rows.

    At most ``vector_tokens_max`` rows run on the vector units, in proportion to the rows; above, the matrix unit
    works on whole tiles of ``tile_rows`` rows (KTransformers, SOSP'25: AMX above 4 tokens per expert, 16-row tiles).
    A CPU without a matrix unit uses its vector units throughout. Forms in blocks (``matrix`` false: GGUF, as ggml and
    KTransformers' llamafile kernels compute them) have a rate of their own: integer dot products whose unpacking costs
    as much on wide vector units as on narrow ones, so that it goes with cores and clock, not with their peak.
    """
    rows = np.asarray(tokens, float)
    vector = 2.0 * parameters * rows / cpu.vector_flop_per_s
    blocks = 2.0 * parameters * rows / cpu.block_flop_per_s
    if cpu.matrix_flop_per_s is None:
        return np.where(matrix, vector, blocks)
    tiles = np.ceil(rows / cpu.tile_rows) * cpu.tile_rows
    tiled = 2.0 * parameters * tiles / cpu.matrix_flop_per_s
    best = np.where(rows <= cpu.vector_tokens_max, np.minimum(vector, tiled), tiled) * (rows > 0)
    return np.where(matrix, best, blocks)


def unpack_s(parameters: float, bits: ArrayLike, bandwidth_bytes_per_s: float, cpu: Cpu) -> Array:
    """Seconds that expanding one expert's weights below 8 bit costs: as if each weight had extra bits to read.

    The extra bits are fitted on published CPU-expert decode rates (low-bit kernels are compute-bound there).
    """
    low = np.asarray(bits, float) < 8.0
    return np.where(low, parameters * cpu.low_bit_extra_bits / 8.0 / bandwidth_bytes_per_s, 0.0)
