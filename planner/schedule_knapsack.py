"""Exact knapsacks of the home DIMMs of one row: which experts are worth keeping on their DIMM at given prices.

A DIMM has room for so many seconds. Keeping a free expert takes ``free`` seconds more of it than sending the expert
away (its near-data time less the reads that it then does not suffer) and saves the price that the GPU or the CPU would
ask. Solved by lists of undominated subsets (Nemhauser and Ullmann, Management Science 15, 1969), best saving per second
first, without those that even a split of the remaining experts cannot lift above the best found. Where a list outgrows
STATES, what its subsets reach with such a split is taken, which can only be more.
"""

from __future__ import annotations

import numpy as np
from numba import njit

STATES = 2048
"""Longest list of undominated subsets."""
FIT = 1.0 + 1e-12
"""Room that a capacity leaves to rounding."""
STRIPED, AWAY, HOME, FREE = 0, 1, 2, 3
"""State of an expert: no home; cannot run at home; best kept at home; to be decided."""


def prepare(
    seconds: np.ndarray, dimm: np.ndarray, home: np.ndarray, base: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Knapsacks of the DIMMs of one row; arrays as in :func:`planner.schedule_search.search`.

    Returns striped [s], the least reads of striped experts on each DIMM; fixed [dimms] [s], with every free expert
    away; free [experts] [s]; state [experts]; item [dimms, most], free experts; count [dimms], how many they are.
    """
    dimms = base.shape[0] - 3
    away = np.where(np.isfinite(seconds[:2]), dimm, np.inf).min(axis=0)
    near, lives = seconds[2], home >= 0
    state = np.where(near <= away, HOME, FREE)
    state = np.where(np.isinf(near), AWAY, state)
    state = np.where(lives, state, STRIPED)
    fixed = np.bincount(home[lives], np.where(state == HOME, near, away)[lives], dimms)
    free = np.zeros(home.shape[0])
    free[state == FREE] = near[state == FREE] - away[state == FREE]
    chosen = np.flatnonzero(state == FREE)
    count = np.bincount(home[chosen], minlength=dimms)
    item = np.zeros((dimms, max(int(count.max()), 1)), np.int64)
    for d in range(dimms):
        item[d, : count[d]] = chosen[home[chosen] == d]
    return float(away[~lives].sum()), fixed, free, state, item, count


@njit(nogil=True, cache=True)
def working_room(most):  # type: ignore[no-untyped-def]
    """Arrays for knapsacks of up to so many items: two lists of subsets, and where each subset comes from."""
    lists, nodes = (2, 2 * STATES), most * STATES + 1
    return (
        np.empty(lists),
        np.empty(lists),
        np.empty(lists, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
    )


@njit(nogil=True, cache=True)
def _by_ratio(items, count, price, free, order):  # type: ignore[no-untyped-def]
    """Items by price per second, best first (insertion sort; ties keep their order)."""
    for i in range(count):
        e = items[i]
        j = i
        while j > 0 and price[e] * free[order[j - 1]] > price[order[j - 1]] * free[e]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = e


@njit(nogil=True, cache=True)
def _extend(seconds, price, weight, value, node, size, first_node, room, next_weight, next_value, next_node):  # type: ignore[no-untyped-def]
    """Undominated subsets with and without one more item, by seconds; new ones get nodes from first_node on."""
    left = right = filled = 0
    top = -1.0
    while left < size or right < size:
        more = weight[right] + seconds if right < size else np.inf
        if left < size and weight[left] <= more:
            if value[left] > top:
                next_weight[filled], next_value[filled], next_node[filled] = weight[left], value[left], node[left]
                top = value[left]
                filled += 1
            left += 1
        elif more <= room:
            if value[right] + price > top:
                top = value[right] + price
                next_weight[filled], next_value[filled], next_node[filled] = more, top, first_node + right
                filled += 1
            right += 1
        else:
            right = size
    return filled


@njit(nogil=True, cache=True)
def knapsack(room, items, count, price, free, keep, weight, value, node, parent, taken):  # type: ignore[no-untyped-def]
    """Most price that one DIMM saves within room (at least 0) by keeping some of items[:count], see :func:`prepare`.

    Writes the share of each item that is kept into keep [experts]: 0 or 1, but for one where a list outgrew STATES. The
    rest is room to work, see :func:`working_room`.
    """
    # A subset's node says which item it took last, and which node it was before.
    order = np.empty(count, np.int64)
    _by_ratio(items, count, price, free, order)
    seconds, gain = np.zeros(count + 1), np.zeros(count + 1)  # of the first i items
    for i in range(count):
        seconds[i + 1] = seconds[i] + free[order[i]]
        gain[i + 1] = gain[i] + price[order[i]]
    weight[0, 0], value[0, 0], node[0, 0] = 0.0, 0.0, 0
    nodes, size, now = 1, 1, 0
    most, best_node, best_from, best_to, part = -1.0, 0, 0, 0, 0.0
    for i in range(count + 1):
        # what each subset reaches with the next items, whole and split; only those that may still win stay
        j, kept = count, 0
        bound, bound_at, bound_to, bound_part = -1.0, 0, 0, 0.0
        for s in range(size):
            left = room - weight[now, s]
            while j > i and seconds[j] - seconds[i] > left:
                j -= 1
            reached = value[now, s] + gain[j] - gain[i]
            if reached > most:
                most, best_node, best_from, best_to = reached, node[now, s], i, j
            share = 0.0
            if j < count:
                share = min((left - (seconds[j] - seconds[i])) / free[order[j]], 1.0)
                reached += share * price[order[j]]
            if reached > bound:
                bound, bound_at, bound_to, bound_part = reached, node[now, s], j, share
            if reached > most:
                weight[now, kept], value[now, kept], node[now, kept] = weight[now, s], value[now, s], node[now, s]
                kept += 1
        size = kept
        if size == 0 or i == count:
            break
        if size > STATES:
            if bound > most:
                most, best_node, best_from, best_to, part = bound, bound_at, i, bound_to, bound_part
            break
        for s in range(size):
            parent[nodes + s], taken[nodes + s] = node[now, s], i
        size = _extend(
            free[order[i]], price[order[i]], weight[now], value[now], node[now], size, nodes, room,
            weight[1 - now], value[1 - now], node[1 - now],
        )  # fmt: skip
        nodes += kept
        now = 1 - now
    for i in range(count):
        keep[order[i]] = 1.0 if best_from <= i < best_to else 0.0
    if best_to < count:
        keep[order[best_to]] = part
    while best_node > 0:
        keep[order[taken[best_node]]] = 1.0
        best_node = parent[best_node]
    return most
