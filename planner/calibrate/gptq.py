"""GPTQ (Frantar et al., arXiv 2210.17323): quantise column by column, and let the later columns make up for the error.

For a matrix W [rows, columns] with inputs X the output error is |(W - Q) X|^2, whose Hessian over a row is
H = X^T X. With H^-1 = U^T U, U upper triangular, the update after column j is
W[:, j+1:] -= (W[:, j] - Q[:, j]) / U[j, j] x U[j, j+1:]. Columns are taken in their order, BLOCK at a time: inside a
block by a compiled loop, after it for all later columns by one matrix product. The grid of a group is found when its
first column is reached, on the weights as corrected until then.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit

from planner.arrays import kernel_input
from planner.calibrate.errors import CalibrationError
from planner.calibrate.quantise import (
    _SHRINK,
    ROWS,
    find_grid,
    grid_reference,
    group_length,
    levels_of,
    nearest_level,
    nearest_reference,
)

BLOCK = 128
DAMPING = 0.01
"""Added to the diagonal, as a share of its mean (the paper's value)."""
_MOST_DAMPING = 1.0
_SMALL = 64
_BAND = 1024


def second_moment(parts: Iterable[np.ndarray], columns: int) -> np.ndarray:
    """X^T X / samples, float64 [columns, columns], from parts of X, each [samples, columns]."""
    found = np.zeros((columns, columns))
    samples = 0
    for part in parts:
        x = np.asarray(part, np.float64)
        samples += len(x)
        for begin in range(0, columns, _BAND):  # a band at a time: the product is never there as a whole
            found[begin : begin + _BAND] += x[:, begin : begin + _BAND].T @ x
    found /= max(samples, 1)
    return found


def hessian_factor(inputs: np.ndarray, damping: float = DAMPING) -> np.ndarray:
    """:func:`factor_of` the second moment of inputs [samples, columns]."""
    return factor_of(second_moment([inputs], np.shape(inputs)[1]), damping)


def factor_of(hessian: np.ndarray, damping: float = DAMPING) -> np.ndarray:
    """U, float32 [columns, columns], upper triangular with (hessian + damping)^-1 = U^T U. Changes ``hessian``.

    About three float64 matrices of that size exist at once, which sets the memory of a calibration. Raises
    CalibrationError if no damping up to the mean of the diagonal makes the Hessian positive definite.
    """
    mean = float(np.diagonal(hessian).mean())
    share, size = (damping, mean) if mean > 0 else (1.0, 1.0)
    added = 0.0
    while share <= _MOST_DAMPING:
        np.einsum("ii->i", hessian)[:] += share * size - added
        added = share * size
        try:
            # turned end for end, a factor L L^T becomes R R^T with R upper triangular, and U is the inverse of R
            lower = np.linalg.cholesky(hessian[::-1, ::-1])
        except np.linalg.LinAlgError:
            share *= 10.0
            continue
        _invert_lower(lower)
        return np.ascontiguousarray(lower[::-1, ::-1], np.float32)
    raise CalibrationError(
        "the activations are so nearly dependent that GPTQ's Hessian cannot be factored; give more or other samples."
    )


def _invert_lower(matrix: np.ndarray) -> None:
    """Invert a lower triangular matrix in place, by halves: nearly all of it is matrix products."""
    n = len(matrix)
    if n <= _SMALL:
        matrix[:] = np.tril(np.linalg.inv(matrix))
        return
    half = n // 2
    a, c, d = matrix[:half, :half], matrix[half:, :half], matrix[half:, half:]
    _invert_lower(a)
    _invert_lower(d)
    c[:] = -(d @ c) @ a


@njit(nogil=True, cache=True)
def _columns(weights, factor, begin, end, group, levels, shrink, scale, zero, out, errors):  # type: ignore[no-untyped-def]
    """Quantise columns begin..end of all rows. scale, zero [rows] carry over from block to block; errors
    [end - begin, rows] is what the later columns have to make up for."""
    rows, columns = weights.shape
    width = end - begin
    block = np.empty((max(width, min(group, columns)), ROWS), np.float32)
    ahead = np.empty((min(group, columns), ROWS), np.float32)
    work = np.empty((6, ROWS), np.float32)
    error = np.zeros(ROWS, np.float32)
    for first in range(0, rows, ROWS):
        used = min(ROWS, rows - first)
        if used < ROWS:
            block[:] = np.float32(0)
            error[:] = np.float32(0)
        own_scale, own_zero = scale[first : first + used], zero[first : first + used]
        for r in range(used):
            for j in range(width):
                block[j, r] = weights[first + r, begin + j]
        for j in range(width):
            if (begin + j) % group == 0:
                last = min(begin + j + group, columns)
                if last <= end:
                    find_grid(block, j, last - begin, used, levels, shrink, own_scale, own_zero, work)
                else:  # a group longer than the block starts with it, and its columns are corrected up to here
                    for r in range(used):
                        for k in range(begin + j, last):
                            ahead[k - begin - j, r] = weights[first + r, k]
                    find_grid(ahead, 0, last - begin - j, used, levels, shrink, own_scale, own_zero, work)
            pivot = factor[begin + j, begin + j]
            for r in range(used):
                level = nearest_level(block[j, r], own_scale[r], own_zero[r], levels)
                out[first + r, begin + j] = level
                error[r] = (block[j, r] - level) / pivot
                errors[j, first + r] = error[r]
            for k in range(j + 1, width):
                u = factor[begin + j, begin + k]
                for r in range(ROWS):  # a fixed count: the compiler leaves out all tests
                    block[k, r] -= error[r] * u


def gptq(weights: np.ndarray, factor: np.ndarray, bits: int, group_size: int = 128) -> np.ndarray:
    """float32 [rows, columns] as the quantised weights are read back.

    weights: float32 [rows, columns], finite; factor: U of :func:`hessian_factor` for the inputs of this matrix.
    """
    return _run(weights, factor, bits, group_size, kernel=True)


def gptq_reference(weights: np.ndarray, factor: np.ndarray, bits: int, group_size: int = 128) -> np.ndarray:
    """NumPy twin of :func:`gptq`."""
    return _run(weights, factor, bits, group_size, kernel=False)


def _run(weights: np.ndarray, factor: np.ndarray, bits: int, group_size: int, kernel: bool) -> np.ndarray:
    left = np.array(weights, np.float32, order="C")  # corrected as the columns go by
    factor = kernel_input(factor, np.float32)
    rows, columns = left.shape
    if factor.shape != (columns, columns):
        raise CalibrationError(f"the Hessian factor has shape {factor.shape} for a matrix of {columns} columns.")
    group, levels = group_length(group_size, columns), levels_of(bits)
    out = np.empty_like(left)
    scale, zero = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    for begin in range(0, columns, BLOCK):
        end = min(begin + BLOCK, columns)
        errors = np.empty((end - begin, rows), np.float32)
        if kernel:
            _columns(left, factor, begin, end, group, levels, _SHRINK, scale, zero, out, errors)
        else:
            scale, zero = _columns_reference(left, factor, begin, end, group, levels, scale, zero, out, errors)
        if end < columns:
            left[:, end:] -= errors.T @ factor[begin:end, end:]
    return out


def _columns_reference(
    weights: np.ndarray,
    factor: np.ndarray,
    begin: int,
    end: int,
    group: int,
    levels: int,
    scale: np.ndarray,
    zero: np.ndarray,
    out: np.ndarray,
    errors: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """NumPy twin of the compiled loop: one column of all rows at a time."""
    columns = weights.shape[1]
    block = weights[:, begin:end].copy()
    for j in range(end - begin):
        if (begin + j) % group == 0:
            last = min(begin + j + group, columns)
            part = block[:, j : last - begin] if last <= end else weights[:, begin + j : last]
            scale, zero = grid_reference(part, levels)
        level = nearest_reference(block[:, j], scale, zero, levels)
        out[:, begin + j] = level
        errors[j] = (block[:, j] - level) / factor[begin + j, begin + j]
        block[:, j + 1 :] -= errors[j][:, None] * factor[begin + j, begin + j + 1 : end]
    return scale, zero


def warm() -> None:
    """Compile (or load from the cache) both quantisers."""
    from planner.calibrate.quantise import round_to_nearest

    small = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    round_to_nearest(small, 2, 8)
    gptq(small, np.eye(16, dtype=np.float32), 2, 8)
