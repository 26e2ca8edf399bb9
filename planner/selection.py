"""Beside the two selectors of :mod:`planner.bitwidth` (the paper's prefix search and the exact optimum of a layer):
losses weighted by importance, and one budget over all layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.bitwidth import WIDTHS, increments, select_layers

MOST_EXCHANGES = 10_000


def weighted(losses: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Losses times the importance of their expert over the mean of its layer, float64 [layers, N, 4].

    losses: [layers, N, 4]; importance: [layers, N], not negative. Equal importance changes nothing; a layer without
    any importance is left as it is. The paper (arXiv 2512.04476) does not weight: importance only orders its experts.
    """
    losses = np.asarray(losses, np.float64)
    importance = np.asarray(importance, np.float64)
    if losses.ndim != 3 or importance.shape != losses.shape[:2]:
        raise ValueError(
            f"losses have shape {losses.shape} and importance {importance.shape}; accepted are [layers, experts, 4] "
            "and [layers, experts]"
        )
    if not np.isfinite(importance).all() or (importance < 0).any():
        raise ValueError("an importance is negative or not a finite number")
    mean = importance.mean(axis=1, keepdims=True)
    share = np.divide(importance, mean, out=np.ones_like(importance), where=mean > 0)
    return losses * share[:, :, None]


def _excess(loss: float, optimum: float) -> float:
    return loss / optimum - 1.0 if optimum > 0 else 0.0


@dataclass(frozen=True)
class GlobalBits:
    """One budget over all layers."""

    bits: np.ndarray
    """int8 [layers, N]"""
    budget: int
    """increments over 1 bit that all layers together may spend: N x layers x (average - 1)"""
    loss: float
    bound: float
    """no assignment under this budget has less loss (linear relaxation)"""
    per_layer_loss: float
    """the exact optimum when every layer has its own equal budget"""

    @property
    def gap(self) -> float:
        """Proven: the loss is at most this share above the optimum. 0 where every row of losses is convex."""
        return max(0.0, _excess(self.loss, self.bound))

    @property
    def gain(self) -> float:
        """Share of the per-layer loss that sharing the budget saves."""
        return 1.0 - self.loss / self.per_layer_loss if self.per_layer_loss > 0 else 0.0


def select_global(losses: np.ndarray, average_bits: float) -> GlobalBits:
    """Widths of all experts of all layers under one budget of increments, floor(layers x N x (average - 1)).

    losses: float64 [layers, N, 4], finite, all layers' experts of one size. Steps along the lower convex hull of each
    row, steepest first, solve the linear relaxation exactly (Sinha and Zoltners, Oper. Res. 27, 1979); the steps that
    are left over are filled with the best upgrades and exchanges. For convex rows the result is the optimum; else it
    is within ``gap`` of it. Never worse than the exact optimum with equal budgets.
    """
    losses = np.asarray(losses, np.float64)
    if losses.ndim != 3 or losses.shape[2] != WIDTHS:
        raise ValueError(f"losses have shape {losses.shape}; accepted is [layers, experts, 4]")
    layers, n, _ = losses.shape
    equal = select_layers(losses, None, average_bits, "exact")
    rows = losses.reshape(-1, WIDTHS)
    budget = increments(layers * n, average_bits)
    level, left, bound = _greedy(rows, budget)
    level = _exchange(rows, level, left)
    loss = float(rows[np.arange(len(rows)), level].sum())
    separate = float(equal.loss.sum())
    if separate < loss:  # rounding left more on the table than sharing gains
        level, loss = equal.bits.ravel().astype(np.int64) - 1, separate
    return GlobalBits((level + 1).astype(np.int8).reshape(layers, n), budget, loss, min(bound, loss), separate)


def _greedy(rows: np.ndarray, budget: int) -> tuple[np.ndarray, int, float]:
    """Level of each row, increments left, and the bound of the relaxation."""
    who, start, size, gain = _hull(rows)
    order = np.argsort(-gain / size, kind="stable")  # within a row the slopes fall, so its steps stay in order
    who, start, size, gain = who[order], start[order], size[order], gain[order]
    spent = np.cumsum(size)
    fits = int(np.searchsorted(spent, budget, side="right"))
    level = np.zeros(len(rows), np.int64)
    level[who[:fits]] = start[:fits] + size[:fits]
    left = budget - (int(spent[fits - 1]) if fits else 0)
    relaxed = float(rows[:, 0].sum() - gain[:fits].sum())
    if fits < len(who):
        relaxed -= float(gain[fits] / size[fits]) * left
    return level, left, relaxed


def _hull(rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Falling steps of each row's lower convex hull: row, level it starts from, increments, loss it saves."""
    count = len(rows)
    at = np.zeros(count, np.int64)
    found: list[tuple[np.ndarray, ...]] = []
    alive = np.arange(count)
    while alive.size:
        here = rows[alive, at[alive]]
        ahead = np.arange(WIDTHS)[None, :] - at[alive][:, None]
        slope = np.where(ahead > 0, (here[:, None] - rows[alive]) / np.maximum(ahead, 1), -np.inf)
        target = np.argmax(slope, axis=1)  # of equal slopes the nearest
        falls = np.take_along_axis(slope, target[:, None], axis=1)[:, 0] > 0
        moved, target = alive[falls], target[falls]
        found.append((moved, at[moved], target - at[moved], rows[moved, at[moved]] - rows[moved, target]))
        at[moved] = target
        alive = moved[target < WIDTHS - 1]
    return tuple(np.concatenate([part[i] for part in found]) for i in range(4))


def _exchange(rows: np.ndarray, level: np.ndarray, left: int) -> np.ndarray:
    """Spend what is left, or take steps back from one row for a better one in another, while that lowers the loss."""
    index = np.arange(len(rows))
    level = level.copy()
    for _ in range(MOST_EXCHANGES):
        here = rows[index, level]
        best = 0.0
        change: tuple[int, int, int | None, int] | None = None
        for up in range(1, WIDTHS):
            can = level + up < WIDTHS
            saved = np.where(can, here - rows[index, np.minimum(level + up, WIDTHS - 1)], -np.inf)
            if up <= left:
                i = int(np.argmax(saved))
                if saved[i] > best:
                    best, change = float(saved[i]), (i, up, None, 0)
            for down in range(max(1, up - left), WIDTHS):
                may = level - down >= 0
                cost = np.where(may, rows[index, np.maximum(level - down, 0)] - here, np.inf)
                for i in _top_two(saved):
                    j = next((k for k in _top_two(-cost) if k != i), None)
                    if j is not None and saved[i] - cost[j] > best:
                        best, change = float(saved[i] - cost[j]), (i, up, j, down)
        if change is None or best <= 1e-12 * abs(float(here.sum())):
            break
        i, up, other, down = change
        level[i] += up
        if other is not None:
            level[other] -= down
        left += down - up
    return level


def _top_two(values: np.ndarray) -> list[int]:
    if values.size < 2:
        return list(range(values.size))
    two = np.argpartition(values, -2)[-2:]
    return [int(i) for i in two[np.argsort(-values[two])]]
