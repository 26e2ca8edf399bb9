"""A cache of experts in HBM, simulated pass by pass: which of the experts that a pass wants are there already.

The rule. Passes follow each other, and in each the layers do. In layer l of a pass a set S of experts is wanted (every
expert that has a token). All of S are looked up first: those found are hits, whatever order they are computed in. Then
S has been used, and the cache keeps the best ``slots`` of what it held and S together: S itself first, then the higher
score, then the lower layer and expert. So an expert never drives out another one of its own layer and pass, and where
S alone is larger than the cache, the best of S stay and the others were only passed through.

The score is a weighted sum of four terms, as HOBBIT (arXiv 2411.01433) names them, each at most 1:

    recency    last use / passes so far            (weights 1, 0, 0, 0: LRU)
    frequency  uses / passes so far                (weights 0, 1, 0, 0: LFU)
    high       uses in high precision / passes so far
    near       1 - (layers until its layer's next turn) / layers

The order does not depend on the number of slots, so a larger cache always holds what a smaller one holds (Mattson et
al., 1970): more slots never mean more misses. For LRU in each layer by itself, :func:`stack_positions` therefore gives
the hits of every size in one sweep.

Experts of one pool compete for its slots: one pool for each layer, or one for all. The twins are in
:mod:`planner.cache_reference`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from planner.arrays import kernel_input

LRU = (1.0, 0.0, 0.0, 0.0)
LFU = (0.0, 1.0, 0.0, 0.0)
FEW = 8
"""Up to this many victims are searched for one by one; for more, the value of the last one is selected first."""


@dataclass(frozen=True)
class CacheRun:
    """What a simulation found."""

    present: np.ndarray
    """bool [passes, layers, experts]: in the cache when its layer looked"""
    content: np.ndarray
    """bool [layers, experts]: in the cache at the end"""


def simulate(
    wanted: np.ndarray,
    slots: ArrayLike,
    *,
    weights: tuple[float, float, float, float] = LRU,
    start: np.ndarray | None = None,
    compiled: bool = True,
) -> CacheRun:
    """Simulate a cache on ordered passes.

    wanted: [passes, layers, experts], 0 = not wanted, 1 = wanted, 2 = wanted in high precision. slots: one number, a
    cache shared by all layers; or [layers], a cache for each. weights: of recency, frequency, high and near. start:
    load [layers, experts] whose largest shares of a layer fill the cache at the beginning, the larger the more recent;
    without it the cache starts empty. ``compiled`` False runs the plain twin.
    """
    from planner.cache_reference import simulate_reference

    _, layers, experts = wanted.shape
    room = np.atleast_1d(np.asarray(slots, np.int64))
    pool = np.arange(layers) if np.ndim(slots) else np.zeros(layers, np.int64)
    content, last = starting(start, pool, room, layers, experts)
    present = np.zeros(wanted.shape, np.uint8)
    run = _simulate if compiled else simulate_reference
    run(kernel_input(wanted, np.uint8), pool.astype(np.int64), room, np.array(weights, float), content, last, present)
    return CacheRun(present.astype(bool), content.astype(bool))


def starting(
    start: np.ndarray | None, pool: np.ndarray, room: np.ndarray, layers: int, experts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Content uint8 and last use float64, [layers, experts], before the first pass: the later the larger its share."""
    content = np.zeros((layers, experts), np.uint8)
    last = np.full((layers, experts), -1.0)
    if start is None:
        return content, last
    share = np.asarray(start, float) / np.maximum(np.sum(start, axis=1, keepdims=True), 1e-300)
    for p in range(room.size):
        mine = np.flatnonzero(pool == p)
        order = np.argsort(-share[mine].ravel(), kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        rank = rank.reshape(mine.size, experts)
        content[mine] = rank < room[p]
        last[mine] = -rank / rank.size
    return content, last


@njit(nogil=True, cache=True)
def drop_worst(value, place, found, over, content):  # type: ignore[no-untyped-def]
    """Clear the ``over`` lowest of ``found`` candidates in ``content``; of equal ones those that come first."""
    experts = content.shape[1]
    if over <= FEW:
        for _ in range(over):
            worst = -1
            for c in range(found):
                if place[c] >= 0 and (worst < 0 or value[c] < value[worst]):
                    worst = c
            content[place[worst] // experts, place[worst] % experts] = 0
            place[worst] = -1
    else:
        limit = np.partition(value[:found], over - 1)[over - 1]
        gone = 0
        for c in range(found):
            if value[c] < limit:
                content[place[c] // experts, place[c] % experts] = 0
                gone += 1
        for c in range(found):
            if gone < over and value[c] == limit:
                content[place[c] // experts, place[c] % experts] = 0
                gone += 1


@njit(nogil=True, cache=True)
def _simulate(wanted, pool, room, weights, content, last, present):  # type: ignore[no-untyped-def]
    passes, layers, experts = wanted.shape
    uses = np.zeros((layers, experts))
    high = np.zeros((layers, experts))
    held = np.zeros(room.shape[0], np.int64)
    for i in range(layers):
        for e in range(experts):
            held[pool[i]] += content[i, e]
    value = np.empty(layers * experts)
    place = np.empty(layers * experts, np.int64)
    recent, often, precise, near = weights[0], weights[1], weights[2], weights[3]
    for t in range(passes):
        now = t + 1.0
        for layer in range(layers):
            p = pool[layer]
            count = 0
            missing = 0
            for e in range(experts):
                present[t, layer, e] = content[layer, e]
                if wanted[t, layer, e] > 0:
                    count += 1
                    missing += 1 - content[layer, e]
                    last[layer, e] = t + (layer + 1.0) / layers
                    uses[layer, e] += 1.0
                    if wanted[t, layer, e] > 1:
                        high[layer, e] += 1.0
            if missing == 0:
                continue
            over = held[p] + missing - room[p]
            if over > 0:
                # Candidates in reverse order, so that of equal ones the later is met first and goes first. Where S
                # alone is too much, its own members are candidates once all the others have gone.
                found = 0
                whole = count > room[p]
                for i in range(layers - 1, -1, -1):
                    if pool[i] != p:
                        continue
                    turn = ((i - layer - 1) % layers + 1.0) / layers
                    for e in range(experts - 1, -1, -1):
                        mine = i == layer and wanted[t, i, e] > 0
                        if (mine and whole) or (not mine and not whole and content[i, e] == 1):
                            value[found] = (
                                recent * (last[i, e] / now)
                                + often * (uses[i, e] / now)
                                + precise * (high[i, e] / now)
                                + near * (1.0 - turn)
                            )
                            place[found] = i * experts + e
                            found += 1
                        if not mine and whole and content[i, e] == 1:
                            content[i, e] = 0
                            held[p] -= 1
                if whole:
                    for e in range(experts):
                        if wanted[t, layer, e] > 0 and content[layer, e] == 1:
                            held[p] -= 1
                        if wanted[t, layer, e] > 0:
                            content[layer, e] = 1
                    held[p] += count
                    over = held[p] - room[p]
                drop_worst(value, place, found, over, content)
                held[p] -= over
                if whole:
                    continue
            for e in range(experts):
                if wanted[t, layer, e] > 0 and content[layer, e] == 0:
                    content[layer, e] = 1
                    held[p] += 1


def stack_positions(
    wanted: np.ndarray, start: np.ndarray | None = None, first: int = 0, *, compiled: bool = True
) -> np.ndarray:
    """Hits of an LRU cache of every size, one cache for each layer: int64 [layers, experts].

    Entry [l, s] counts the wanted experts of layer l, from pass ``first`` on, that lie at position s of the LRU stack
    when they are looked up: a cache of c slots finds those with s < c. ``start`` as in :func:`simulate`; without it the
    stack starts in the order of the experts.
    """
    from planner.cache_reference import stack_positions_reference

    _, layers, experts = wanted.shape
    load = np.zeros((layers, experts)) if start is None else np.asarray(start, float)
    stack = np.argsort(-load, axis=1, kind="stable")
    positions = np.zeros((layers, experts), np.int64)
    run = _stack_positions if compiled else stack_positions_reference
    run(kernel_input(wanted, np.uint8), kernel_input(stack, np.int64), first, positions)
    return positions


@njit(nogil=True, cache=True)
def _stack_positions(wanted, stack, first, positions):  # type: ignore[no-untyped-def]
    passes, layers, experts = wanted.shape
    following = np.empty(experts, np.int64)
    for layer in range(layers):
        for t in range(passes):
            kept = 0
            for e in range(experts):
                if wanted[t, layer, e] > 0:
                    following[kept] = e
                    kept += 1
            if kept == 0:
                continue
            for s in range(experts):
                e = stack[layer, s]
                if wanted[t, layer, e] > 0:
                    if t >= first:
                        positions[layer, s] += 1
                else:
                    following[kept] = e
                    kept += 1
            stack[layer] = following


def warm() -> None:
    """Compile the kernels, or load them from the cache."""
    one = np.ones((1, 1, 2), np.uint8)
    simulate(one, [1])
    stack_positions(one)
