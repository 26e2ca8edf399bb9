"""Which experts to prefetch, to relayout and to rebalance, from the predicted load of every layer.

The rule. With predicted seconds of each expert in HBM (g), striped for the CPU (c) and on its DIMM (n), every layer has
predicted loads of GPU, CPU and each DIMM, if each expert is computed where its weights lie and every task is done.
Smooth makespan of the layer:

    M = (sum over GPU, CPU and DIMMs of load^8)^(1/8).

The predicted gain of a task is what it takes off M; it is queued if that is at least ``margin`` M.

* prefetch: the expert outside HBM with the highest predicted load takes the slot of the resident with the lowest;
* relayout: the striped expert that gains most on the least loaded DIMM, or the localised one that gains most striped;
* rebalance: the most loaded DIMM is paired with the least loaded, the second most with the second least and so on; in
  each pair the expert goes over whose move gains most (the pairing of Hermes, HPCA 2025, which TriMoE builds on).

Tasks that have not begun are decided anew in every step; those that have go on. Then :mod:`planner.layout.worth` takes
back what its layer does not gain enough by. TriMoE (arXiv 2603.01058) does not
publish when it moves an expert; that the cost model prefers the other place stands in for it.

:func:`decide` is the compiled kernel; its plain twin is :mod:`planner.layout.reference`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from planner.layout.state import IDLE, LOCALISE, PREFETCH, REBALANCE, STRIPE, Sizes, State

PREFETCHES, RELAYOUTS = 4, 8
"""New tasks of a layer and step at most; rebalancing adds at most one per pair of DIMMs."""

internal: Any = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
"""For what only kernels call: without wrappers, which take longest to compile."""


@internal
def place_of(resident, leaving, home, kind, target):  # type: ignore[no-untyped-def]
    """Where an expert will be computed when its task is done: 0 GPU, 1 CPU, 2 + d DIMM d."""
    if kind == PREFETCH or (resident and not leaving):
        return 0
    if kind in (LOCALISE, REBALANCE):
        return 2 + target
    if kind == STRIPE or home < 0:
        return 1
    return 2 + home


@internal
def host_place(home):  # type: ignore[no-untyped-def]
    """Where an expert is computed whose weights lie in the DIMMs only."""
    return np.int64(1 if home < 0 else 2 + home)


@internal
def _eighth(x):  # type: ignore[no-untyped-def]
    x *= x
    x *= x
    return x * x


@internal
def smooth(powers):  # type: ignore[no-untyped-def]
    """Smooth makespan of a sum of eighth powers."""
    return math.sqrt(math.sqrt(math.sqrt(max(powers, 0.0))))


@internal
def _move(load, powers, cost, source, goal):  # type: ignore[no-untyped-def]
    """Take an expert from one place to another; cost [3] on GPU, CPU, DIMM. Returns the new sum of powers."""
    before = load[source]
    load[source] = before - cost[min(source, 2)]
    powers += _eighth(load[source]) - _eighth(before)
    before = load[goal]
    load[goal] = before + cost[min(goal, 2)]
    return powers + (_eighth(load[goal]) - _eighth(before))


@internal
def _fill(state, layer, cost, base, load):  # type: ignore[no-untyped-def]
    """Loads of a layer when its tasks are done; returns the sum of their eighth powers."""
    load[:] = 0.0
    load[0] = base
    for e in range(cost.shape[1]):
        home, kind, target = state.home[layer, e], state.kind[layer, e], state.target[layer, e]
        place = place_of(
            state.resident[layer, e], state.leaving[layer, e], np.int64(home), np.int64(kind), np.int64(target)
        )
        load[place] += cost[layer, e, min(place, 2)]
    powers = 0.0
    for k in range(load.shape[0]):
        powers += _eighth(load[k])
    return powers


@internal
def _undo(state, layer, e, cost, load, powers):  # type: ignore[no-untyped-def]
    """Loads without the task of expert e."""
    home, kind, target = (
        np.int64(state.home[layer, e]),
        np.int64(state.kind[layer, e]),
        np.int64(state.target[layer, e]),
    )
    now = place_of(state.resident[layer, e], state.leaving[layer, e], home, kind, target)
    host = host_place(home)
    powers = _move(load, powers, cost[layer, e], now, host)
    if kind == PREFETCH and target >= 0 and not state.started[layer, e]:
        powers = _move(load, powers, cost[layer, target], host_place(np.int64(state.home[layer, target])), np.int64(0))
    return powers


@internal
def _reserve(held, host_bytes, dimms, kind, source, target, sign):  # type: ignore[no-untyped-def]
    """Memory that a relayout or rebalance writes to, reserved (sign 1) or given back (sign -1)."""
    if kind == LOCALISE:
        held[target] += sign * host_bytes * (dimms - 1) / dimms
    elif kind == REBALANCE:
        held[target] += sign * host_bytes
    elif kind == STRIPE:
        for d in range(dimms):
            if d != source:
                held[d] += sign * host_bytes / dimms


@internal
def _has_room(held, host_bytes, dimm_bytes, dimms, kind, source, target):  # type: ignore[no-untyped-def]
    if kind == LOCALISE:
        return held[target] + host_bytes * (dimms - 1) / dimms <= dimm_bytes
    if kind == REBALANCE:
        return held[target] + host_bytes <= dimm_bytes
    fullest = 0.0
    for d in range(dimms):
        if d != source:
            fullest = max(fullest, held[d])
    return fullest + host_bytes / dimms <= dimm_bytes


@internal
def _queue(state, sizes, layer, e, kind, target, gain, fresh):  # type: ignore[no-untyped-def]
    state.kind[layer, e] = kind
    state.target[layer, e] = target
    state.gain[layer, e] = gain
    state.age[layer, e] = 0
    state.started[layer, e] = False
    fresh[layer, e] = kind
    if kind == PREFETCH:
        state.left[layer, e] = sizes.hbm_bytes
        if target >= 0:
            state.leaving[layer, target] = True
        return
    size = sizes.host_bytes[layer, e]
    state.left[layer, e] = size if kind == REBALANCE else size * (sizes.dimms - 1) / sizes.dimms
    _reserve(state.held, size, sizes.dimms, kind, np.int64(state.home[layer, e]), target, 1.0)


@internal
def _withdraw(state, sizes, layer):  # type: ignore[no-untyped-def]
    """Takes back every task of a layer that has not begun, and what was reserved for it."""
    for e in range(state.kind.shape[1]):
        kind = np.int64(state.kind[layer, e])
        if kind == IDLE or state.started[layer, e]:
            continue
        home, target = np.int64(state.home[layer, e]), np.int64(state.target[layer, e])
        if kind == PREFETCH:
            if target >= 0:
                state.leaving[layer, target] = False
        else:
            _reserve(state.held, sizes.host_bytes[layer, e], sizes.dimms, kind, home, target, -1.0)
        state.kind[layer, e] = IDLE
        state.target[layer, e] = -1
        state.left[layer, e] = 0.0


@internal
def _review(state, layer, cost, load, powers):  # type: ignore[no-untyped-def]
    """Renews the gains of the tasks under way."""
    saved = load.copy()
    for e in range(cost.shape[1]):
        if state.kind[layer, e] != IDLE:
            without = _undo(state, layer, e, cost, load, powers)
            state.gain[layer, e] = smooth(without) - smooth(powers)
            load[:] = saved


@internal
def _prefetch(state, sizes, layer, predicted, cost, load, powers, margin, fresh):  # type: ignore[no-untyped-def]
    experts = cost.shape[1]
    saved = np.empty_like(load)
    for _ in range(PREFETCHES):
        planned = 0
        best = worst = -1
        for e in range(experts):
            if state.kind[layer, e] == PREFETCH:
                planned += 1
            elif state.resident[layer, e]:
                if not state.leaving[layer, e]:
                    planned += 1
                    if worst < 0 or predicted[layer, e] < predicted[layer, worst]:
                        worst = e
            elif state.kind[layer, e] == IDLE and (best < 0 or predicted[layer, e] > predicted[layer, best]):
                best = e
        if best < 0:
            break
        leaver = np.int64(worst if planned >= sizes.slots else -1)
        if planned >= sizes.slots and (worst < 0 or predicted[layer, best] <= predicted[layer, worst]):
            break
        saved[:] = load
        after = _move(load, powers, cost[layer, best], host_place(np.int64(state.home[layer, best])), np.int64(0))
        if leaver >= 0:
            after = _move(
                load, after, cost[layer, leaver], np.int64(0), host_place(np.int64(state.home[layer, leaver]))
            )
        gain = smooth(powers) - smooth(after)
        if gain <= 0.0 or gain < margin * smooth(powers):
            load[:] = saved
            break
        powers = after
        _queue(state, sizes, layer, best, np.int64(PREFETCH), leaver, gain, fresh)
    return powers


@internal
def _relayout(state, sizes, layer, cost, load, powers, margin, fresh):  # type: ignore[no-untyped-def]
    saved = load.copy()
    for _ in range(RELAYOUTS):
        emptiest = 0
        for d in range(1, sizes.dimms):
            if load[2 + d] < load[2 + emptiest]:
                emptiest = d
        pick, least = -1, powers
        for e in range(cost.shape[1]):
            if state.kind[layer, e] != IDLE or state.resident[layer, e]:
                continue
            home = np.int64(state.home[layer, e])
            source, goal = (1, 2 + emptiest) if home < 0 else (2 + home, 1)
            before, other = load[source], load[goal]
            left, filled = before - cost[layer, e, min(source, 2)], other + cost[layer, e, min(goal, 2)]
            after = powers + _eighth(left) - _eighth(before) + _eighth(filled) - _eighth(other)
            kind = np.int64(LOCALISE if home < 0 else STRIPE)
            if after < least and _has_room(
                state.held, sizes.host_bytes[layer, e], sizes.dimm_bytes, sizes.dimms, kind, home, np.int64(emptiest)
            ):
                pick, least = e, after
        if pick < 0:
            break
        gain = smooth(powers) - smooth(least)
        if gain <= 0.0 or gain < margin * smooth(powers):
            break
        saved[:] = load
        home = np.int64(state.home[layer, pick])
        if home < 0:
            powers = _move(load, powers, cost[layer, pick], np.int64(1), np.int64(2 + emptiest))
            _queue(state, sizes, layer, pick, np.int64(LOCALISE), np.int64(emptiest), gain, fresh)
        else:
            powers = _move(load, powers, cost[layer, pick], 2 + home, np.int64(1))
            _queue(state, sizes, layer, pick, np.int64(STRIPE), np.int64(-1), gain, fresh)
    return powers


@internal
def _rebalance(state, sizes, layer, cost, load, powers, margin, fresh):  # type: ignore[no-untyped-def]
    order = np.empty(sizes.dimms, np.int64)  # most loaded first, ties to the lower DIMM
    for d in range(sizes.dimms):
        at = d
        while at > 0 and load[2 + order[at - 1]] < load[2 + d]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = d
    for pair in range(sizes.dimms // 2):
        full, empty = np.int64(order[pair]), np.int64(order[sizes.dimms - 1 - pair])
        pick, least = -1, powers
        for e in range(cost.shape[1]):
            if state.kind[layer, e] != IDLE or state.resident[layer, e] or state.home[layer, e] != full:
                continue
            before, other = load[2 + full], load[2 + empty]
            left, filled = before - cost[layer, e, 2], other + cost[layer, e, 2]
            after = powers + _eighth(left) - _eighth(before) + _eighth(filled) - _eighth(other)
            if after < least and _has_room(
                state.held, sizes.host_bytes[layer, e], sizes.dimm_bytes, sizes.dimms, np.int64(REBALANCE), full, empty
            ):
                pick, least = e, after
        if pick < 0:
            continue
        gain = smooth(powers) - smooth(least)
        if gain > 0.0 and gain >= margin * smooth(powers):
            powers = _move(load, powers, cost[layer, pick], 2 + full, 2 + empty)
            _queue(state, sizes, layer, pick, np.int64(REBALANCE), empty, gain, fresh)
    return powers


@njit(nogil=True, cache=True)
def _decide(state, sizes, predicted, cost, base, margin, prefetch, relayout, rebalance, fresh):  # type: ignore[no-untyped-def]
    load = np.empty(2 + sizes.dimms)
    fresh[:] = IDLE
    for layer in range(cost.shape[0]):
        _withdraw(state, sizes, layer)
    for layer in range(cost.shape[0]):
        powers = _fill(state, layer, cost, base[layer], load)
        _review(state, layer, cost, load, powers)
        if prefetch and sizes.slots > 0:
            powers = _prefetch(state, sizes, layer, predicted, cost, load, powers, margin, fresh)
        if relayout:
            powers = _relayout(state, sizes, layer, cost, load, powers, margin, fresh)
        if rebalance:
            _rebalance(state, sizes, layer, cost, load, powers, margin, fresh)


@njit(nogil=True, cache=True)
def _take_back(state, sizes, layers):  # type: ignore[no-untyped-def]
    for layer in range(state.kind.shape[0]):
        if layers[layer]:
            _withdraw(state, sizes, layer)


@njit(nogil=True, cache=True)
def _confirmed(state, cost, base, fresh):  # type: ignore[no-untyped-def]
    dimms = state.held.shape[0]
    load, saved = np.empty(2 + dimms), np.empty(2 + dimms)
    good = 0
    for layer in range(cost.shape[0]):
        powers = _fill(state, layer, cost, base[layer], load)
        for e in range(cost.shape[1]):
            if fresh[layer, e] == IDLE:
                continue
            saved[:] = load
            if smooth(_undo(state, layer, e, cost, load, powers)) > smooth(powers):
                good += 1
            load[:] = saved
    return good


def decide(
    state: State,
    sizes: Sizes,
    predicted: np.ndarray,
    cost: np.ndarray,
    base_gpu_s: np.ndarray,
    margin: float,
    prefetch: bool = True,
    relayout: bool = True,
    rebalance: bool = True,
) -> np.ndarray:
    """Queue the tasks that the predicted load asks for; returns the kind of each new one, int8 [layers, experts].

    predicted: float64 [layers, experts], tokens of the next step. cost: float64 [layers, experts, 3], predicted seconds
    from HBM, striped on the CPU, on a DIMM. base_gpu_s: float64 [layers], what the GPU does besides. margin: least
    gain, as a share of the layer's smooth makespan.
    """
    fresh = np.zeros(state.kind.shape, np.int8)
    _decide(state, sizes, predicted, cost, base_gpu_s, float(margin), prefetch, relayout, rebalance, fresh)
    return fresh


def confirmed(state: State, cost: np.ndarray, base_gpu_s: np.ndarray, fresh: np.ndarray) -> int:
    """How many of the new tasks would also gain under the costs given here, each alone, all others kept.

    cost: as for :func:`decide`, at the true loads of the step that they were decided for. Call before the tasks run.
    """
    return int(_confirmed(state, cost, base_gpu_s, fresh))


def take_back(state: State, sizes: Sizes, layers: np.ndarray) -> None:
    """Take back the tasks that have not begun of the masked layers (bool [layers]), and what was reserved for them."""
    _take_back(state, sizes, np.ascontiguousarray(layers, np.bool_))
