"""Runs the queued transfers of one step within what every link carries in the shadow of GPU work.

Resources, each with its own free seconds in the step: the DIMM-Link ingress and egress of every DIMM, every host memory
channel, PCIe. A task uses several of them at once and advances by the least share that any of them allows; what one
transfer gets is therefore never the sum of links:

* prefetch: PCIe, and the host channels (all of them for a striped expert, that of its DIMM for a localised one);
* localise on DIMM d: 1/D of the expert leaves each other DIMM, (D-1)/D enters d; stripe: the other way round;
* rebalance: the expert leaves one DIMM and enters the other.

In a ``chain`` a transfer also enters and leaves every DIMM that it passes; with ``direct`` links it does not (which of
the two TriMoE's links are is not published). Tasks run in the order of predicted gain per byte still to move, ties to
the lower layer and expert. What does not fit waits and keeps the bytes that it has moved.

:func:`run_tasks` is the compiled kernel; its plain twin is :mod:`planner.layout.reference`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from planner.layout.decide import internal
from planner.layout.state import IDLE, LOCALISE, PREFETCH, REBALANCE, STRIPE, Sizes, State

DONE = 1.0 - 1e-9
"""A task of which this share is done has come to its end."""
LEAST = 1e-9
"""A smaller share of a task than this is not begun."""


class Rates(NamedTuple):
    """What carries the transfers, bytes/s."""

    link: float
    """DIMM-Link of one DIMM, each direction"""
    pcie: float
    channel: float
    """one host memory channel"""
    channels: int
    rank: float
    """ranks of one DIMM: what a transfer over DIMM-Link takes from its NDP unit"""
    host_read: float
    """the same for a read over the host channel"""
    chain: bool


class Moved(NamedTuple):
    """What one step moved; arrays that :func:`run_tasks` fills."""

    used: np.ndarray
    """float64 [2 dimms + channels + 1], busy seconds: ingress and egress of each DIMM, channels, PCIe"""
    rank_s: np.ndarray
    """float64 [dimms], seconds that transfers take from each DIMM's NDP unit"""
    bytes: np.ndarray
    """float64 [4], moved by prefetch, localise, stripe, rebalance"""
    done: np.ndarray
    """int64 [4], tasks that ended"""


@internal
def _flow(source, goal, seconds, dimms, chain, demand):  # type: ignore[no-untyped-def]
    """DIMM-Link demand of bytes that take ``seconds`` on one link, from one DIMM to another."""
    demand[dimms + source] += seconds
    demand[goal] += seconds
    if chain:
        step = 1 if goal > source else -1
        passed = source + step
        while passed != goal:
            demand[passed] += seconds
            demand[dimms + passed] += seconds
            passed += step


@internal
def _demand(state, sizes, rates, layer, e, demand, rank):  # type: ignore[no-untyped-def]
    """Seconds of each resource, and of each DIMM's ranks, that the whole task takes; returns its bytes."""
    dimms = sizes.dimms
    demand[:] = 0.0
    rank[:] = 0.0
    kind, home, target = (
        np.int64(state.kind[layer, e]),
        np.int64(state.home[layer, e]),
        np.int64(state.target[layer, e]),
    )
    size = sizes.host_bytes[layer, e]
    if kind == PREFETCH:
        size = sizes.hbm_bytes
        demand[-1] = size / rates.pcie
        if home < 0:
            for c in range(rates.channels):
                demand[2 * dimms + c] = size / rates.channels / rates.channel
            for d in range(dimms):
                rank[d] = size / dimms / rates.host_read
        else:
            demand[2 * dimms + home % rates.channels] = size / rates.channel
            rank[home] = size / rates.host_read
        return size
    if kind == REBALANCE:
        _flow(home, target, size / rates.link, dimms, rates.chain, demand)
        rank[home] += size / rates.rank
        rank[target] += size / rates.rank
        return size
    one = target if kind == LOCALISE else home
    share = size / dimms
    for d in range(dimms):
        if d == one:
            continue
        source, goal = (d, one) if kind == LOCALISE else (one, d)
        _flow(source, goal, share / rates.link, dimms, rates.chain, demand)
        rank[d] += share / rates.rank
        rank[one] += share / rates.rank
    return size * (dimms - 1) / dimms


@internal
def _begin(state, layer, e):  # type: ignore[no-untyped-def]
    state.started[layer, e] = True
    victim = state.target[layer, e]
    if state.kind[layer, e] == PREFETCH and victim >= 0:
        state.resident[layer, victim] = False
        state.leaving[layer, victim] = False


@internal
def _end(state, sizes, layer, e):  # type: ignore[no-untyped-def]
    """The expert is where it was to go; what it leaves behind is free."""
    kind, home, target = (
        np.int64(state.kind[layer, e]),
        np.int64(state.home[layer, e]),
        np.int64(state.target[layer, e]),
    )
    size, dimms = sizes.host_bytes[layer, e], sizes.dimms
    if kind == PREFETCH:
        state.resident[layer, e] = True
    elif kind == LOCALISE:
        for d in range(dimms):
            if d != target:
                state.held[d] -= size / dimms
        state.home[layer, e] = target
    elif kind == STRIPE:
        state.held[home] -= size * (dimms - 1) / dimms
        state.home[layer, e] = -1
    else:
        state.held[home] -= size
        state.home[layer, e] = target
    state.kind[layer, e] = IDLE
    state.target[layer, e] = -1
    state.left[layer, e] = 0.0
    state.started[layer, e] = False


@njit(nogil=True, cache=True)
def _run(state, sizes, rates, order, free, charge, moved):  # type: ignore[no-untyped-def]
    experts = state.kind.shape[1]
    demand, rank = np.empty(free.shape[0]), np.empty(sizes.dimms)
    moved.used[:] = 0.0
    moved.rank_s[:] = 0.0
    moved.bytes[:] = 0.0
    moved.done[:] = 0
    for i in order:
        layer, e = i // experts, i % experts
        size = _demand(state, sizes, rates, layer, e, demand, rank)
        rest = state.left[layer, e] / size if size > 0.0 else 0.0
        share = rest
        if not charge:
            for k in range(free.shape[0]):
                room = max(free[k] - moved.used[k], 0.0)
                if demand[k] * share > room:
                    share = room / demand[k]
        if share < LEAST and share < rest:
            continue
        if not state.started[layer, e]:
            _begin(state, layer, e)
        for k in range(free.shape[0]):
            moved.used[k] += demand[k] * share
        for d in range(sizes.dimms):
            moved.rank_s[d] += rank[d] * share
        kind = state.kind[layer, e] - 1
        if share >= rest * DONE:
            moved.bytes[kind] += state.left[layer, e]
            moved.done[kind] += 1
            _end(state, sizes, layer, e)
        else:
            moved.bytes[kind] += size * share
            state.left[layer, e] -= size * share
    for i in order:
        layer, e = i // experts, i % experts
        if state.kind[layer, e] != IDLE:
            state.age[layer, e] += 1


def empty_moved(sizes: Sizes, rates: Rates) -> Moved:
    return Moved(
        np.zeros(2 * sizes.dimms + rates.channels + 1), np.zeros(sizes.dimms), np.zeros(4), np.zeros(4, np.int64)
    )


def run_tasks(state: State, sizes: Sizes, rates: Rates, free_s: np.ndarray, moved: Moved, charge: bool = False) -> None:
    """Advance the queue by one step and write what moved into ``moved``.

    free_s: float64 [2 dimms + channels + 1], seconds that each resource may work in the step. charge: finish every task
    all the same; ``moved.used`` then tells how far beyond its free time each resource worked.
    """
    queued = np.flatnonzero(state.kind != IDLE)
    priority = state.gain.ravel()[queued] / np.maximum(state.left.ravel()[queued], 1.0)
    _run(state, sizes, rates, queued[np.argsort(-priority, kind="stable")], free_s, charge, moved)


def warm() -> None:
    """Compile the kernels of this room, or load them from the cache."""
    from planner.layout.decide import confirmed, decide, take_back
    from planner.layout.state import begin

    sizes = Sizes(np.ones((1, 2)), 1.0, 1, 4.0, 2)
    rates = Rates(1.0, 1.0, 1.0, 1, 1.0, 1.0, False)
    state = begin(np.zeros((1, 2), bool), np.array([[-1, 0]]), sizes)
    cost = np.ones((1, 2, 3))
    fresh = decide(state, sizes, np.ones((1, 2)), cost, np.zeros(1), 0.0)
    confirmed(state, cost, np.zeros(1), fresh)
    take_back(state, sizes, np.zeros(1, bool))
    run_tasks(state, sizes, rates, np.ones(6), empty_moved(sizes, rates))
