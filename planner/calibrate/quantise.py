"""Round-to-nearest at 1 to 4 bits: the rows of a matrix in groups of columns, each with its own scale.

At 1 bit a weight becomes plus or minus the mean magnitude of its group, the least squares choice. At 2 to 4 bits it is
rounded to scale x (q - zero), q in 0..2^b - 1, as in GPTQ (arXiv 2210.17323); the range of a group is its minimum to
its maximum, shrunk by the factor of SHRINK that leaves the least squared error.

The kernels work on blocks of rows turned so that the inner loop runs over rows: it vectorises without reordering any
sum, and the NumPy twins give the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planner.arrays import kernel_input
from planner.calibrate.errors import CalibrationError

SHRINK = tuple(round(1.0 - 0.05 * i, 2) for i in range(13))
"""1.0 down to 0.4: at 2 bits a Gaussian is best cut at about 1.5 of its standard deviations."""
_SHRINK = np.array(SHRINK, np.float32)
GROUPS = (8, 16, 32, 64, 128, 256, 512, 1024)
WHOLE_ROW = 0
ROWS = 32
_MAGIC = np.float32(12582912.0)  # 1.5 x 2^23: adding and subtracting it rounds half to even, and vectorises


def group_length(group_size: int, columns: int) -> int:
    """Columns that share a scale; 0 stands for the whole row. Raises CalibrationError for another size."""
    if group_size == WHOLE_ROW:
        return columns
    if group_size not in GROUPS:
        raise CalibrationError(
            f"The group size is {group_size}; accepted are {', '.join(map(str, GROUPS))}, or 0 for one scale per row."
        )
    return min(group_size, columns)


@njit(nogil=True, cache=True)
def find_grid(block, start, stop, used, levels, shrink, scale, zero, work):  # type: ignore[no-untyped-def]
    """Scale and zero of rows 0..used of block[start:stop, rows]; ``levels`` is 2^bits - 1. work: float32 [6, ROWS]."""
    low, high, best, error, tried, offset = work[0], work[1], work[2], work[3], work[4], work[5]
    if levels == 1:
        for r in range(used):
            low[r] = np.float32(0)
        for j in range(start, stop):
            for r in range(used):
                low[r] += abs(block[j, r])
        for r in range(used):
            scale[r] = low[r] / np.float32(stop - start)
            zero[r] = np.float32(0)
        return
    top = np.float32(levels)
    for r in range(used):
        low[r] = np.float32(0)
        high[r] = np.float32(0)
        best[r] = np.float32(np.inf)
        scale[r] = np.float32(0)
        zero[r] = np.float32(0)
    for j in range(start, stop):
        for r in range(used):
            low[r] = min(low[r], block[j, r])
            high[r] = max(high[r], block[j, r])
    for p in shrink:
        for r in range(used):
            width = (high[r] - low[r]) * p
            tried[r] = width / top
            # 1 stands in for the width of a group of zeros, which stays zero under any scale
            inverse = top / width if width > np.float32(0) else np.float32(1)
            error[r] = inverse
            offset[r] = (-low[r] * p * inverse + _MAGIC) - _MAGIC
        _squared_error(block, start, stop, used, top, tried, offset, error)
        for r in range(used):
            if error[r] < best[r]:
                best[r] = error[r]
                scale[r] = tried[r]
                zero[r] = offset[r]


@njit(nogil=True, cache=True)
def _squared_error(block, start, stop, used, top, scale, zero, error):  # type: ignore[no-untyped-def]
    """error holds 1/scale on entry and the sum of squared errors on return."""
    inverse = np.empty(used, np.float32)
    for r in range(used):
        inverse[r] = error[r]
        error[r] = np.float32(0)
    for j in range(start, stop):
        for r in range(used):
            x = block[j, r]
            q = ((x * inverse[r] + _MAGIC) - _MAGIC) + zero[r]
            q = min(max(q, np.float32(0)), top)
            d = x - scale[r] * (q - zero[r])
            error[r] += d * d


@njit(inline="always", nogil=True, cache=True)
def nearest_level(x, scale, zero, levels):  # type: ignore[no-untyped-def]
    """The value of the grid nearest to x."""
    if levels == 1:
        return scale if x >= np.float32(0) else -scale
    if scale == np.float32(0):
        return np.float32(0)
    q = ((x / scale + _MAGIC) - _MAGIC) + zero
    q = min(max(q, np.float32(0)), np.float32(levels))
    return scale * (q - zero)


@njit(nogil=True, cache=True)
def _rtn(weights, group, levels, shrink, out):  # type: ignore[no-untyped-def]
    rows, columns = weights.shape
    block = np.empty((group, ROWS), np.float32)
    work = np.empty((6, ROWS), np.float32)
    scale = np.empty(ROWS, np.float32)
    zero = np.empty(ROWS, np.float32)
    for first in range(0, rows, ROWS):
        used = min(ROWS, rows - first)
        for start in range(0, columns, group):
            size = min(group, columns - start)
            for r in range(used):
                for j in range(size):
                    block[j, r] = weights[first + r, start + j]
            find_grid(block, 0, size, used, levels, shrink, scale, zero, work)
            for r in range(used):
                for j in range(size):
                    out[first + r, start + j] = nearest_level(block[j, r], scale[r], zero[r], levels)


def round_to_nearest(weights: np.ndarray, bits: int, group_size: int = 128) -> np.ndarray:
    """float32 [rows, columns] as the quantised weights are read back. weights: float32 [rows, columns], finite."""
    weights = kernel_input(weights, np.float32)
    out = np.empty_like(weights)
    _rtn(weights, group_length(group_size, weights.shape[1]), levels_of(bits), _SHRINK, out)
    return out


def levels_of(bits: int) -> int:
    """2^bits - 1; raises CalibrationError outside 1..4."""
    if bits not in (1, 2, 3, 4):
        raise CalibrationError(f"The bit-width is {bits}; accepted are 1, 2, 3 and 4.")
    return int(2**bits - 1)


# --- twins -----------------------------------------------------------------------------------------------------------
def grid_reference(group: np.ndarray, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """NumPy twin of :func:`find_grid`: scale and zero of each row of group [rows, columns], float32."""
    if levels == 1:
        total = np.zeros(len(group), np.float32)
        for column in group.T:
            total += np.abs(column)
        return total / np.float32(group.shape[1]), np.zeros(len(group), np.float32)
    zeros = np.zeros(len(group), np.float32)
    top = np.float32(levels)
    low, high = np.minimum(group.min(axis=1), 0), np.maximum(group.max(axis=1), 0)
    best, scale, zero = np.full(len(group), np.inf, np.float32), zeros.copy(), zeros.copy()
    for p in _SHRINK:
        width = (high - low) * p
        tried = width / top
        inverse = np.divide(top, width, out=np.ones_like(width), where=width > 0)
        offset = np.rint(-low * p * inverse)
        error = zeros.copy()
        for column in group.T:
            q = np.clip(np.rint(column * inverse) + offset, 0, top)
            d = column - tried * (q - offset)
            error += d * d
        better = error < best
        best, scale, zero = (np.where(better, a, b) for a, b in ((error, best), (tried, scale), (offset, zero)))
    return scale, zero


def nearest_reference(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, levels: int) -> np.ndarray:
    """NumPy twin of :func:`nearest_level`, elementwise."""
    if levels == 1:
        return np.where(x >= 0, scale, -scale)
    ratio = np.divide(x, scale, out=np.zeros_like(x), where=scale != 0)
    return scale * (np.clip(np.rint(ratio) + zero, 0, np.float32(levels)) - zero)


def round_to_nearest_reference(weights: np.ndarray, bits: int, group_size: int = 128) -> np.ndarray:
    """NumPy twin of :func:`round_to_nearest`."""
    weights = np.asarray(weights, np.float32)
    group, levels = group_length(group_size, weights.shape[1]), levels_of(bits)
    out = np.empty_like(weights)
    for start in range(0, weights.shape[1], group):
        part = weights[:, start : start + group]
        scale, zero = grid_reference(part, levels)
        out[:, start : start + group] = nearest_reference(part, scale[:, None], zero[:, None], levels)
    return out
