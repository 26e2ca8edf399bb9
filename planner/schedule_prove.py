"""The search for prices that prove a horizon of one row impossible; see :mod:`planner.schedule_bound` for the proof."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from planner.schedule_bound import COLUMNS, CUTS, PROOF, UNITS, WORTH, allowed, game, relaxed, rounding_cut


class Pool(NamedTuple):
    """Relaxed schedules found for one row, and the last prices. Carried over from one horizon to the next."""

    keep: np.ndarray
    """float64 [COLUMNS, experts], share that stays on the home DIMM"""
    away: np.ndarray
    """int64 [COLUMNS, experts], 0 GPU, 1 CPU: where the rest runs"""
    load: np.ndarray
    """float64 [COLUMNS, 3], s of GPU, CPU, host channels"""
    peak: np.ndarray
    """float64 [COLUMNS], s of the longest DIMM"""
    weights: np.ndarray
    """float64 [COLUMNS], the mixture that no price could disprove"""
    prices: np.ndarray
    """float64 [3 + CUTS]"""


class Cuts(NamedTuple):
    """Rounding cuts of one row, kept in a form that holds for every horizon."""

    domain: np.ndarray
    """int64 [CUTS], 0 GPU, 1 CPU"""
    unit: np.ndarray
    """float64 [CUTS], s"""
    inside: np.ndarray
    """bool [CUTS, experts]"""


def empty_pool(experts: int) -> tuple[Pool, Cuts, np.ndarray]:
    """Room for one row: equal prices, nothing found; the last array counts columns, cuts and relaxations solved."""
    pool = Pool(
        np.zeros((COLUMNS, experts)), np.zeros((COLUMNS, experts), np.int64), np.zeros((COLUMNS, 3)), np.zeros(COLUMNS),
        np.zeros(COLUMNS), np.where(np.arange(3 + CUTS) < 3, 1.0 / 3.0, 0.0),
    )  # fmt: skip
    cuts = Cuts(np.zeros(CUTS, np.int64), np.zeros(CUTS), np.zeros((CUTS, experts), np.bool_))
    return pool, cuts, np.zeros(3, np.int64)


@njit(nogil=True, cache=True)
def _find_cut(horizon, seconds, host, dimm, home, base, running, inside):  # type: ignore[no-untyped-def]
    """The rounding cut that the mixed schedule running [2, experts] violates most; returns its domain and unit.

    Units are the seconds of experts that the schedule splits, S those that it mostly runs there (written into inside).
    The domain is -1 if no cut is violated by WORTH.
    """
    experts = home.shape[0]
    domain, best_unit, most = -1, 0.0, WORTH
    mostly, cut, tried = np.zeros((2, experts), np.bool_), np.empty(experts), np.empty(UNITS)
    for k in range(2):
        for e in range(experts):
            mostly[k, e] = running[k, e] > 0.5 and allowed(horizon, seconds, host, dimm, home, base, k, e)
        number = 0
        for e in range(experts):
            if running[k, e] < 1e-6 or running[k, e] > 1 - 1e-6 or seconds[k, e] <= 0.0:
                continue
            fresh = number < UNITS
            for i in range(number):
                fresh = fresh and abs(tried[i] - seconds[k, e]) > 1e-9 * tried[i]
            if not fresh:
                continue
            tried[number] = seconds[k, e]
            number += 1
            for parts in range(1, 4):
                unit = seconds[k, e] / parts
                found = rounding_cut(horizon, seconds, host, dimm, home, base, k, unit, mostly[k], cut)
                if found == np.inf:
                    continue
                for i in range(experts):
                    found += cut[i] * running[k, i]
                if found > most:
                    domain, best_unit, most = k, unit, found
    for e in range(experts):
        inside[e] = domain >= 0 and mostly[domain, e]
    return domain, best_unit


@njit(nogil=True, cache=True)
def _cut_load(keep, away, k, cut, zero):  # type: ignore[no-untyped-def]
    """Load of a cut on domain k under one relaxed schedule, in units of the horizon."""
    total = 1.0 + zero
    for e in range(keep.shape[0]):
        if away[e] == k:
            total += (1.0 - keep[e]) * cut[e]
    return total


@njit(nogil=True, cache=True)
def _measure(seconds, host, home, base, tables, keep, away, load):  # type: ignore[no-untyped-def]
    """Writes GPU, CPU and host seconds of one relaxed schedule into load [3]; returns its longest DIMM."""
    near = np.empty(base.shape[0])
    for i in range(3):
        load[i] = near[i] = base[i]
    for i in range(3, base.shape[0]):
        near[i] = base[i] + tables[0] + tables[1][i - 3]
    for e in range(home.shape[0]):
        if keep[e] < 1.0:
            load[away[e]] += (1.0 - keep[e]) * seconds[away[e], e]
            load[2] += (1.0 - keep[e]) * host[away[e], e]
        if home[e] >= 0:
            near[3 + home[e]] += keep[e] * tables[2][e]
    longest = 0.0
    for i in range(3, base.shape[0]):
        longest = max(longest, near[i])
    return longest


@njit(nogil=True, cache=True)
def _find_columns(  # type: ignore[no-untyped-def]
    horizon, seconds, host, dimm, home, base, pool, cuts, cut, cut_zero, number, begin, used, table, rows
):
    """Adds the schedules of the pool from begin on that are possible within horizon to the table of the game.

    rows: which schedule each row of the table is. Returns the number of rows.
    """
    for j in range(begin, number[0]):
        possible = pool.peak[j] <= horizon * PROOF
        for e in range(home.shape[0]):
            if possible and pool.keep[j, e] < 1.0:
                possible = allowed(horizon, seconds, host, dimm, home, base, pool.away[j, e], e)
        if possible:
            rows[used] = j
            for r in range(3):
                table[used, r] = pool.load[j, r] / horizon
            for c in range(number[1]):
                table[used, 3 + c] = _cut_load(pool.keep[j], pool.away[j], cuts.domain[c], cut[c], cut_zero[c])
            used += 1
    return used


@njit(nogil=True, cache=True)
def _mix(pool, rows, used, mix, running):  # type: ignore[no-untyped-def]
    """Sets pool.weights from those of the game's rows, and running [2, experts], the share of each on GPU and CPU."""
    for j in range(pool.weights.shape[0]):
        pool.weights[j] = 0.0
    for e in range(running.shape[1]):
        running[0, e] = running[1, e] = 0.0
    for i in range(used):
        j = rows[i]
        pool.weights[j] = mix[i]
        if mix[i] > 0.0:
            for e in range(running.shape[1]):
                running[pool.away[j, e], e] += mix[i] * (1.0 - pool.keep[j, e])


@njit(nogil=True, cache=True)
def prove(horizon, seconds, host, dimm, home, base, tables, pool, cuts, number):  # type: ignore[no-untyped-def]
    """True if it is proven that no schedule of the row ends within horizon; number [3] is as in :func:`empty_pool`.

    Otherwise nothing is known, and pool.weights mixes relaxed schedules of the pool into one that no price disproves
    (all zero if none is known).
    Arrays of the row as in :func:`planner.schedule_search.search`, tables as in
    :func:`planner.schedule_knapsack.prepare`.
    """
    experts = home.shape[0]
    cut, cut_zero = np.zeros((CUTS, experts)), np.zeros(CUTS)
    for c in range(number[1]):
        cut_zero[c] = rounding_cut(
            horizon, seconds, host, dimm, home, base, cuts.domain[c], cuts.unit[c], cuts.inside[c], cut[c]
        )
        if cut_zero[c] == np.inf:  # says nothing at this horizon
            cut_zero[c] = -1.0
            for e in range(experts):
                cut[c, e] = 0.0
    table, rows, mix = np.empty((COLUMNS, 3 + CUTS)), np.empty(COLUMNS, np.int64), np.empty(COLUMNS)
    running = np.empty((2, experts))
    _mix(pool, rows, 0, mix, running)
    used = seen = 0
    value = np.inf
    while True:
        used = _find_columns(
            horizon, seconds, host, dimm, home, base, pool, cuts, cut, cut_zero, number, seen, used, table, rows
        )
        seen = number[0]
        if used > 0:
            value = game(table, used, 3 + number[1], pool.prices, mix)
            _mix(pool, rows, used, mix, running)
        if value <= PROOF:
            c = number[1]
            if c == CUTS:
                return False
            k, unit = _find_cut(horizon, seconds, host, dimm, home, base, running, cuts.inside[c])
            if k < 0:
                return False
            cuts.domain[c], cuts.unit[c] = k, unit
            cut_zero[c] = rounding_cut(horizon, seconds, host, dimm, home, base, k, unit, cuts.inside[c], cut[c])
            for i in range(used):
                table[i, 3 + c] = _cut_load(pool.keep[rows[i]], pool.away[rows[i]], k, cut[c], cut_zero[c])
            pool.prices[3 + c] = 0.0
            number[1] += 1
            continue
        j = number[0]
        if j == COLUMNS:
            return False
        number[2] += 1
        found = relaxed(
            horizon, pool.prices, seconds, host, dimm, home, base, number[1], cuts.domain, cut, cut_zero, tables,
            pool.keep[j], pool.away[j],
        )  # fmt: skip
        if found > PROOF:
            return True
        if found > value - 1e-9:  # the best answer to these prices is known already: all that is left is rounding
            return False
        pool.peak[j] = _measure(seconds, host, home, base, tables, pool.keep[j], pool.away[j], pool.load[j])
        number[0] += 1
