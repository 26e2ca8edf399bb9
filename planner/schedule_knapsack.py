"""Exact knapsacks of the home DIMMs of one row: which experts are worth keeping on their DIMM at given prices.

A DIMM has room for so many seconds. Keeping a free expert takes ``free`` seconds more of it than sending the expert
away (its near-data time less the reads that it then does not suffer) and saves the price that the GPU or the CPU would
ask. Meet in the middle (Horowitz and Sahni, Journal of the ACM 21, 1974): the subsets of each half are sorted by
seconds once per row, as seconds do not depend on prices; new prices cost one sweep. Beyond twenty experts the ten
heaviest are exact and the others may be split, best saving per second first, which can only save more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

HALF = 10
"""Experts of one half of a knapsack: 2 ** HALF subsets."""
FIT = 1.0 + 1e-12
"""Room that a capacity leaves to rounding."""
STRIPED, AWAY, HOME, FREE = 0, 1, 2, 3
"""State of an expert: no home; cannot run at home; best kept at home; to be decided."""


@njit(nogil=True, cache=True)
def subsets(weight, limit, sums, masks):  # type: ignore[no-untyped-def]
    """All subset sums of weight [k] up to limit, sorted (ties by mask), with their bit masks; returns their number."""
    spare, spare_masks = np.empty_like(sums), np.empty_like(masks)
    size = 1
    sums[0], masks[0] = 0.0, 0
    for bit in range(weight.shape[0]):
        for i in range(size):
            spare[i], spare_masks[i] = sums[i], masks[i]
        left = right = filled = 0
        while left < size or right < size:
            more = spare[right] + weight[bit] if right < size else np.inf
            if left < size and spare[left] <= more:
                sums[filled], masks[filled] = spare[left], spare_masks[left]
                left += 1
                filled += 1
            elif more <= limit:
                sums[filled], masks[filled] = more, spare_masks[right] | (1 << bit)
                right += 1
                filled += 1
            else:
                right = size
        size = filled
    return size


@njit(nogil=True, cache=True)
def _halves(room, items, free, half, sums, masks, size):  # type: ignore[no-untyped-def]
    """Sorted subsets of both halves of one DIMM's items (of the first only, if the rest may be split)."""
    count = items.shape[0]
    for side in range(2 if count <= 2 * HALF else 1):
        begin, end = (half, count) if side else (0, half)
        weight = np.empty(end - begin)
        for i in range(begin, end):
            weight[i - begin] = free[items[i]]
        size[side] = subsets(weight, room, sums[side], masks[side])


def prepare(
    seconds: np.ndarray,
    dimm: np.ndarray,
    home: np.ndarray,
    base: np.ndarray,
    limit: float,
    halves: Callable[..., None] = _halves,
) -> tuple[Any, ...]:
    """Knapsacks of the DIMMs of one row (arrays as in :func:`planner.schedule_search.search`), for horizons to limit.

    Returns striped [s], the least reads of striped experts on each DIMM; fixed [dimms] [s], with every free expert
    away; free [experts] [s]; state [experts]; item [dimms, most], free experts, heaviest first; count [dimms]; half
    [dimms], how many of them the first half has; sums, masks [dimms, 2, subsets] and size [dimms, 2] of the halves.
    """
    dimms = base.shape[0] - 3
    away = np.where(np.isfinite(seconds[:2]), dimm, np.inf).min(axis=0)
    near = seconds[2]
    state = np.where(near <= away, HOME, FREE)
    state = np.where(np.isinf(near), AWAY, state)
    state = np.where(home < 0, STRIPED, state)
    lives = home >= 0
    fixed = np.bincount(home[lives], np.where(state == HOME, near, away)[lives], dimms)
    free = np.zeros(home.shape[0])
    free[state == FREE] = near[state == FREE] - away[state == FREE]
    chosen = np.argsort(-free, kind="stable")[: int((state == FREE).sum())]
    count = np.bincount(home[chosen], minlength=dimms)
    item = np.zeros((dimms, max(int(count.max()), 1)), np.int64)
    for d in range(dimms):
        item[d, : count[d]] = chosen[home[chosen] == d]
    half = np.where(count > 2 * HALF, HALF, (count + 1) // 2)
    most = 1 << int(half.max())
    sums, masks = np.zeros((dimms, 2, most)), np.zeros((dimms, 2, most), np.int64)
    size = np.ones((dimms, 2), np.int64)
    striped = float(away[~lives].sum())
    for d in range(dimms):
        room = limit * FIT - base[3 + d] - striped - fixed[d]
        halves(room, item[d, : count[d]], free, half[d], sums[d], masks[d], size[d])
    return striped, fixed, free, state, item, count, half, sums, masks, size


@njit(nogil=True, cache=True)
def _values(items, begin, end, price, masks, size, value, best, where):  # type: ignore[no-untyped-def]
    """Of the sorted subsets of items[begin:end]: most price among the first i + 1 (best), and which it is (where)."""
    value[0] = 0.0
    for bit in range(end - begin):
        more = price[items[begin + bit]]
        for mask in range(1 << bit):
            value[mask | (1 << bit)] = value[mask] + more
    top, at = -1.0, 0
    for i in range(size):
        if value[masks[i]] > top:
            top, at = value[masks[i]], i
        best[i], where[i] = top, at


@njit(nogil=True, cache=True)
def _tail(items, begin, price, free, weight, gain, order):  # type: ignore[no-untyped-def]
    """Items from begin on may be split, best price per second first: running seconds and price, from 0, and order."""
    number = items.shape[0] - begin
    for i in range(number):  # insertion sort; ties keep their order
        e = items[begin + i]
        j = i
        while j > 0 and price[e] * free[order[j - 1]] > price[order[j - 1]] * free[e]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = e
    weight[0] = gain[0] = 0.0
    for i in range(number):
        weight[i + 1] = weight[i] + free[order[i]]
        gain[i + 1] = gain[i] + price[order[i]]


@njit(nogil=True, cache=True)
def knapsack(room, items, count, half, price, free, sums, masks, size, keep):  # type: ignore[no-untyped-def]
    """Most price that one DIMM saves within room (at least 0) by keeping some of its items, see :func:`prepare`.

    Writes the share of each item that is kept into keep [experts]: 0 or 1, but for one expert of a split tail.
    """
    exact = count <= 2 * HALF
    end = size[1] if exact else count - half + 1
    value = np.empty(1 << half)
    first_best, first_where = np.empty(size[0]), np.empty(size[0], np.int64)
    weight, gain, where = np.empty(end), np.empty(end), np.empty(end, np.int64)
    _values(items, 0, half, price, masks[0], size[0], value, first_best, first_where)
    if exact:
        _values(items, half, count, price, masks[1], end, value, gain, where)
        weight = sums[1]
    else:
        _tail(items[:count], half, price, free, weight, gain, where)
    most, first, second, part = -1.0, 0, 0, 0.0
    j = end - 1
    for i in range(size[0]):
        left = room - sums[0, i]
        while j >= 0 and weight[j] > left:
            j -= 1
        if j < 0:
            break
        share, found = 0.0, first_best[i] + gain[j]
        if not exact and j + 1 < end:
            share = (left - weight[j]) / (weight[j + 1] - weight[j])
            found += share * (gain[j + 1] - gain[j])
        if found > most:
            most, first, second, part = found, i, j, share
    chosen = masks[0, first_where[first]]
    for i in range(half):
        keep[items[i]] = (chosen >> i) & 1
    if exact:
        chosen = masks[1, where[second]]
        for i in range(half, count):
            keep[items[i]] = (chosen >> (i - half)) & 1
    else:
        for i in range(count - half):
            keep[where[i]] = 1.0 if i < second else (part if i == second else 0.0)
    return most
