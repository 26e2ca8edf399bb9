"""Fits the planner's own laws of time to measured points.

The laws are those of :mod:`planner.physics`, not copies of them; what is fitted is their coefficients. The sum of
``|log(law / measured)|`` is made small, so that one disturbed point moves little and small times weigh as much as
large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from planner.physics.gpu import computed_rows
from planner.physics.operation import Array, operation_s

NODES, STARTS, STEPS = 9, 12, 80
_STEP = 1e-5  # of a coefficient's logarithm, for slopes
_SOFT = 1e-3  # relative difference below which the absolute value is rounded off


@dataclass(frozen=True)
class Fit:
    """Coefficients, and the median of ``|law / measured - 1|`` over the points."""

    values: tuple[float, ...]
    misfit: float


def fit(
    law: Callable[[Array], Array],
    low: Sequence[float],
    high: Sequence[float],
    seconds: Sequence[float],
    weights: Sequence[float] | None = None,
) -> Fit:
    """Coefficients between ``low`` and ``high`` (all above zero): damped, reweighted Gauss-Newton steps on logarithms.

    ``law`` maps [rows, coefficients] to seconds [rows, points]; ``seconds`` are measured, [points], ``weights``
    how much each counts. The laws have corners, and so several valleys: several starts are tried.
    """
    bottom, top, target = np.log(low), np.log(high), np.log(seconds)

    counts = np.ones(len(seconds)) if weights is None else np.asarray(weights, float)

    def away(at: Array) -> Array:
        """Differences of logarithms, [rows, points]."""
        return np.log(law(np.exp(at))) - target

    grid = np.stack(np.meshgrid(*np.linspace(bottom, top, NODES).T, indexing="ij"), axis=-1).reshape(-1, len(low))
    losses = np.sqrt(away(grid) ** 2 + _SOFT**2) @ counts
    found = [_descend(away, counts, grid[start], bottom, top) for start in np.argsort(losses, kind="stable")[:STARTS]]
    best = min(found, key=lambda pair: pair[1])[0]
    misfit = float(np.median(np.abs(np.expm1(away(best[None, :])[0]))))
    return Fit(tuple(float(v) for v in np.exp(best)), misfit)


def _descend(
    away: Callable[[Array], Array], counts: Array, at: Array, bottom: Array, top: Array
) -> tuple[Array, float]:
    """The valley below ``at``, and the loss there."""
    size, damping = len(at), 1e-2
    here = away(at[None, :])[0]
    loss = float(np.sqrt(here**2 + _SOFT**2) @ counts)
    for _ in range(STEPS):
        inside = np.where(at + _STEP <= top, _STEP, -_STEP)  # a coefficient with equal bounds must not leave them
        slopes = ((away(at + np.diag(inside)) - here) / inside[:, None]).T * (top > bottom)
        weights = counts / np.sqrt(here**2 + _SOFT**2)
        normal = slopes.T @ (weights[:, None] * slopes)
        scale = np.diag(normal).max() or 1.0
        step = np.linalg.solve(normal + np.eye(size) * scale * damping, -slopes.T @ (weights * here))
        trial = np.clip(at + np.clip(step, -1.0, 1.0), bottom, top)
        there = away(trial[None, :])[0]
        reached = float(np.sqrt(there**2 + _SOFT**2) @ counts)
        if reached < loss:
            at, here, loss, damping = trial, there, reached, max(damping / 4, 1e-9)
        else:
            damping *= 4
            if damping > 1e6:
                break
    return at, loss


def cpu_law(tokens: Sequence[float], moved: float, parameters: float) -> Callable[[Array], Array]:
    """Seconds of an expert on vector units; coefficients: bytes/s, FLOP/s, 1 + overlap (so that none is zero)."""
    rows = np.asarray(tokens, float)

    def law(c: Array) -> Array:
        overlap: Any = c[:, 2:3] - 1.0  # one for each row of the grid
        return operation_s(2.0 * parameters * rows / c[:, 1:2], moved / c[:, 0:1], overlap)

    return law


def gpu_law(tokens: Sequence[float], moved: float, parameters: float) -> Callable[[Array], Array]:
    """The same on a GPU; coefficients: bytes/s, FLOP/s at many rows, 1 + half tokens, 1 + overlap."""
    rows = np.asarray(tokens, float)

    def law(c: Array) -> Array:
        gpu: Any = SimpleNamespace(compute_half_tokens=c[:, 2:3] - 1.0)
        compute = 2.0 * parameters * computed_rows(rows[None, :], gpu) / c[:, 1:2]
        overlap: Any = c[:, 3:4] - 1.0
        return operation_s(compute, moved / c[:, 0:1], overlap)

    return law


def line(sizes: Sequence[float], seconds: Sequence[float]) -> Fit:
    """Latency (s) and rate (bytes/s) of transfers: ``latency + size / rate``."""
    size = np.asarray(sizes, float)
    last = int(np.argmax(size))
    guess = size[last] / seconds[last]
    shortest = min(seconds)
    return fit(
        lambda c: c[:, 0:1] + size[None, :] / c[:, 1:2],
        (shortest / 100, guess / 10),
        (shortest * 3, guess * 10),
        seconds,
    )
