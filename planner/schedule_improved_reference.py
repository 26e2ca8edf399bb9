"""Plain NumPy twins of the kernels of the improved schedule: the same decisions and the same rounding.

``PLAIN`` takes the place of the compiled kit in :func:`planner.schedule_improved.improve_layers`. Sums whose rounding
could turn a decision are taken in order, one by one, as the kernels do.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from planner import schedule_bound as bound
from planner.schedule_improved import Kit, Row
from planner.schedule_knapsack import FIT, HOME, STATES
from planner.schedule_prove import Cuts, Pool
from planner.schedule_search_reference import add_up, search_reference, whole_reference


# --- knapsacks ------------------------------------------------------------------------------------------------------
def knapsack_reference(room: float, items: np.ndarray, price: np.ndarray, free: np.ndarray, keep: np.ndarray) -> float:
    """Twin of :func:`planner.schedule_knapsack.knapsack`. A subset is (seconds, price, items taken)."""

    def compare(e: int, f: int) -> int:
        return int(np.sign(price[f] * free[e] - price[e] * free[f]))

    order = sorted(items.tolist(), key=functools.cmp_to_key(compare))
    seconds, gain = (np.concatenate([[0.0], np.cumsum(amount[order])]) for amount in (free, price))
    subsets: list[tuple[float, float, tuple[int, ...]]] = [(0.0, 0.0, ())]
    most, answer = -1.0, {}
    for i in range(len(order) + 1):
        split_most, split_answer, alive = -1.0, {}, []
        for weight, value, taken in subsets:
            left = room - weight
            j = i + int(np.searchsorted(seconds[i + 1 :] - seconds[i], left, side="right"))
            whole = dict.fromkeys([*taken, *order[i:j]], 1.0)
            reached = value + gain[j] - gain[i]
            if reached > most:
                most, answer = reached, whole
            if j < len(order):
                share = min((left - (seconds[j] - seconds[i])) / free[order[j]], 1.0)
                reached += share * price[order[j]]
                whole = {**whole, order[j]: share}
            if reached > split_most:
                split_most, split_answer = reached, whole
            if reached > most:
                alive.append((weight, value, taken))
        if not alive or i == len(order):
            break
        if len(alive) > STATES:
            if split_most > most:
                most, answer = split_most, split_answer
            break
        e = order[i]
        more = [(w + free[e], v + price[e], (*t, e)) for w, v, t in alive if w + free[e] <= room]
        subsets, top = [], -1.0
        for subset in sorted([*alive, *more], key=lambda s: s[0]):
            if subset[1] > top:
                subsets.append(subset)
                top = subset[1]
    keep[items] = 0.0
    for e, share in answer.items():
        keep[e] = share
    return float(most)


# --- prices ---------------------------------------------------------------------------------------------------------
def allowed_reference(horizon: float, row: Row, k: int) -> np.ndarray:
    """Twin of :func:`planner.schedule_bound.allowed`, for all experts."""
    limit = horizon * FIT
    on = row.base[np.where(row.home >= 0, 3 + row.home, 3)]
    return (
        (row.base[k] + row.seconds[k] <= limit)
        & (row.base[2] + row.host[k] <= limit)
        & (on + row.dimm[k] <= limit)
    )  # fmt: skip


def rounding_cut_reference(
    horizon: float, row: Row, k: int, unit: float, inside: np.ndarray
) -> tuple[np.ndarray, float]:
    """Twin of :func:`planner.schedule_bound.rounding_cut`: coefficients and constant."""
    may = allowed_reference(horizon, row, k)
    left = add_up(horizon - row.base[k], -row.seconds[k, may & inside])
    whole = np.floor(left / unit + 1e-9)
    fraction = max(left / unit - whole, 0.0)
    if fraction > 0.999:
        return np.zeros(may.size), np.inf
    size = np.where(inside, -1.0, 1.0) * np.where(may, row.seconds[k], 0.0) / unit
    below = np.floor(size)
    rounded = below + np.maximum(0.0, size - below - fraction) / (1.0 - fraction)
    zero = add_up(-whole, rounded[may & inside])
    return np.where(may, np.where(inside, -rounded, rounded), 0.0) * unit / horizon, zero * unit / horizon


def relaxed_reference(
    horizon: float, prices: np.ndarray, row: Row, cuts: list[tuple[int, np.ndarray, float]], tables: tuple[Any, ...]
) -> tuple[float, np.ndarray, np.ndarray]:
    """Twin of :func:`planner.schedule_bound.relaxed`: value, keep and away."""
    striped, fixed, free, state, item, count = tables
    total = (prices[0] * row.base[0] + prices[1] * row.base[1] + prices[2] * row.base[2]) / horizon
    total = add_up(total, (p * (1.0 + zero) for p, (_, _, zero) in zip(prices[3:], cuts, strict=True)))
    asked = np.full((2, row.home.size), np.inf)
    for k in (0, 1):
        may = allowed_reference(horizon, row, k)
        asked[k, may] = (prices[k] * row.seconds[k, may] + prices[2] * row.host[k, may]) / horizon
        for price, (domain, cut, _) in zip(prices[3:], cuts, strict=True):
            if domain == k:
                asked[k, may] += price * cut[may]
    away = np.where(np.isinf(asked).all(axis=0), np.where(row.seconds[0] < np.inf, 0, 1), np.argmin(asked, axis=0))
    price = np.minimum(asked.min(axis=0), bound.NEVER)
    keep = np.where(state == HOME, 1.0, 0.0)
    total = add_up(total, price[state != HOME])
    for d in range(fixed.size):
        room = horizon * FIT - row.base[3 + d] - striped - fixed[d]
        if room < 0:
            return np.inf, keep, away
        total -= knapsack_reference(room, item[d, : count[d]], price, free, keep)
    return total, keep, away


def game_reference(table: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Twin of :func:`planner.schedule_bound.game`: value, prices, weights."""
    rows, resources = table.shape
    lift = max(0.0, float((1.0 - table).max()))
    tableau = np.zeros((resources + 1, rows + resources + 1))
    tableau[:resources, :rows] = table.T + lift
    tableau[:resources, rows:-1] = np.eye(resources)
    tableau[:resources, -1] = 1.0
    tableau[-1, :rows] = -1.0
    basis = rows + np.arange(resources)
    for _ in range(bound.STEPS):
        enter = int(np.argmin(tableau[-1, :-1]))
        if tableau[-1, enter] >= -1e-11:
            break
        leave, ratio = -1, np.inf
        for r in np.flatnonzero(tableau[:-1, enter] > 1e-9).tolist():
            found = tableau[r, -1] / tableau[r, enter]
            if found < ratio - 1e-12 or (found <= ratio + 1e-12 and tableau[r, enter] > tableau[leave, enter]):
                leave, ratio = r, found
        if leave < 0:
            break
        tableau[leave] /= tableau[leave, enter]
        for r in range(resources + 1):
            if r != leave:
                tableau[r] -= tableau[r, enter] * tableau[leave]
        basis[leave] = enter
    prices = np.maximum(tableau[-1, rows:-1], 0.0)
    total = add_up(0.0, prices)
    weights = np.zeros(rows)
    inside = basis < rows
    weights[basis[inside]] = tableau[:-1, -1][inside] / total
    return 1.0 / total - lift, prices / total, weights


def find_cut_reference(horizon: float, row: Row, running: np.ndarray) -> tuple[int, float, np.ndarray]:
    """The most violated rounding cut: domain (-1: none), unit and S."""
    found = (-1, 0.0, np.zeros(row.home.size, bool))
    most = bound.WORTH
    for k in (0, 1):
        inside = (running[k] > 0.5) & allowed_reference(horizon, row, k)
        tried: list[float] = []
        for e in np.flatnonzero((running[k] >= 1e-6) & (running[k] <= 1 - 1e-6) & (row.seconds[k] > 0)):
            seconds = float(row.seconds[k, e])
            if len(tried) == bound.UNITS or any(abs(old - seconds) <= 1e-9 * old for old in tried):
                continue
            tried.append(seconds)
            for parts in (1, 2, 3):
                cut, zero = rounding_cut_reference(horizon, row, k, seconds / parts, inside)
                violation = add_up(zero, cut * running[k]) if zero < np.inf else -np.inf
                if violation > most:
                    found, most = (k, seconds / parts, inside), violation
    return found


def prove_reference(*arguments: Any) -> bool:
    """Twin of :func:`planner.schedule_prove.prove`."""
    horizon, row, (tables, pool, cuts, number) = arguments[0], Row(*arguments[1:6]), arguments[6:]
    return _prove(horizon, row, tables, pool, cuts, number)


def _possible(horizon: float, row: Row, pool: Pool, j: int) -> bool:
    """Whether relaxed schedule j is one within this horizon."""
    may = np.stack([allowed_reference(horizon, row, k) for k in (0, 1)])
    runs = np.take_along_axis(may, pool.away[j][None], 0)[0]
    return bool(pool.peak[j] <= horizon * bound.PROOF and (runs | (pool.keep[j] >= 1)).all())


def _loads(horizon: float, pool: Pool, j: int, priced: list[tuple[int, np.ndarray, float]]) -> list[float]:
    """Row of the game for relaxed schedule j."""
    off = 1.0 - pool.keep[j]
    extra = [add_up(1.0 + zero, (off * cut)[pool.away[j] == k]) for k, cut, zero in priced]
    return [*(pool.load[j] / horizon), *extra]


def _measure(row: Row, tables: tuple[Any, ...], keep: np.ndarray, away: np.ndarray) -> tuple[np.ndarray, float]:
    """GPU, CPU and host seconds of a relaxed schedule, and its longest DIMM."""
    load, near = row.base[:3].copy(), row.base[3:] + tables[0] + tables[1]
    for e in range(row.home.size):
        if keep[e] < 1:
            load[away[e]] += (1.0 - keep[e]) * row.seconds[away[e], e]
            load[2] += (1.0 - keep[e]) * row.host[away[e], e]
        if row.home[e] >= 0:
            near[row.home[e]] += keep[e] * tables[2][e]
    return load, float(near.max())


def _prove(
    horizon: float, row: Row, tables: tuple[Any, ...], pool: Pool, cuts: Cuts, number: np.ndarray
) -> bool:  # fmt: skip
    priced: list[tuple[int, np.ndarray, float]] = []
    for c in range(number[1]):
        cut, zero = rounding_cut_reference(horizon, row, int(cuts.domain[c]), float(cuts.unit[c]), cuts.inside[c])
        priced.append((int(cuts.domain[c]), cut, zero if zero < np.inf else -1.0))
    pool.weights[:] = 0.0
    rows: list[int] = []
    seen, value = 0, np.inf
    while True:
        rows += [j for j in range(seen, number[0]) if _possible(horizon, row, pool, j)]
        seen = int(number[0])
        prices = pool.prices[: 3 + len(priced)]
        if rows:
            value, prices[:], mix = game_reference(np.array([_loads(horizon, pool, j, priced) for j in rows]))
            pool.weights[:] = 0.0
            pool.weights[rows] = mix
        if value <= bound.PROOF:
            if len(priced) == bound.CUTS:
                return False
            running = np.zeros((2, row.home.size))
            for j in rows:
                if pool.weights[j] > 0:
                    for k in (0, 1):
                        running[k] += np.where(pool.away[j] == k, pool.weights[j] * (1.0 - pool.keep[j]), 0.0)
            k, unit, inside = find_cut_reference(horizon, row, running)
            if k < 0:
                return False
            c = len(priced)
            cuts.domain[c], cuts.unit[c], cuts.inside[c] = k, unit, inside
            priced.append((k, *rounding_cut_reference(horizon, row, k, unit, inside)))
            pool.prices[3 + c] = 0.0
            number[1] += 1
            continue
        if number[0] == bound.COLUMNS:
            return False
        number[2] += 1
        found, keep, away = relaxed_reference(horizon, prices, row, priced, tables)
        if found > bound.PROOF:
            return True
        if found > value - 1e-9:
            return False
        j = int(number[0])
        pool.keep[j], pool.away[j] = keep, away
        pool.load[j], pool.peak[j] = _measure(row, tables, keep, away)
        number[0] += 1


PLAIN = Kit(search_reference, whole_reference, prove_reference)
