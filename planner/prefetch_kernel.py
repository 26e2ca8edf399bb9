"""An expert cache with prefetching by predicted activation, simulated layer by layer (MoE-Infinity, arXiv 2401.14361).

The predicted activation of expert e of layer i is the mean of two shares of that layer's tokens: of the request's own
tokens so far (its expert activation matrix, prefill included) and of a prior (other requests). Before the router of
layer l has spoken, the experts of the layers still to come are prefetched in the order of

    predicted activation x (1 - (i - l) / layers),   i = l .. layers - 1,

as many as the link can start while it would be idle: a transfer that has begun is finished, so there is at least one if
the link is idle at all. A prefetched expert takes the place of the cached one of lowest priority, if that is lower.
Then the layer looks; what is missing is fetched on demand and, as in :mod:`planner.cache_kernel`, the cache keeps the
best of what it held and what was used: the used ones first, then the higher priority, where a layer that has just run
is the farthest away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from planner.arrays import kernel_input
from planner.cache_kernel import drop_worst, starting


@dataclass(frozen=True)
class PrefetchRun:
    """What a simulation found."""

    present: np.ndarray
    """bool [passes, layers, experts]: in the cache when its layer looked"""
    fetched: np.ndarray
    """int64 [passes, layers]: experts whose prefetch began before the layer looked"""
    content: np.ndarray
    """bool [layers, experts]: in the cache at the end"""


def simulate_prefetch(
    counts: np.ndarray,
    slots: int,
    prior: np.ndarray,
    own: np.ndarray,
    idle: np.ndarray,
    *,
    compiled: bool = True,
) -> PrefetchRun:
    """Simulate a cache of ``slots`` experts shared by all layers on ordered passes.

    counts: [passes, layers, experts], tokens of each expert. prior, own: [layers, experts], any unit; own are the
    request's tokens before the first pass, which also say what the cache holds at the beginning. idle: [layers],
    transfers that the link has time for before a layer's router speaks (0: no prefetching).
    """
    passes, layers, experts = counts.shape
    content, _ = starting(own, np.zeros(layers, np.int64), np.array([slots]), layers, experts)
    present = np.zeros(counts.shape, np.uint8)
    fetched = np.zeros((passes, layers), np.int64)
    shares = np.asarray(prior, float) / np.maximum(np.sum(prior, axis=1, keepdims=True), 1e-300)
    begun = np.array([math.ceil(x - 1e-9) for x in idle], np.int64)
    run = _prefetch if compiled else prefetch_reference
    run(
        kernel_input(counts, np.int32), slots, kernel_input(shares, float), np.array(own, float), begun, content,
        present, fetched,
    )  # fmt: skip
    return PrefetchRun(present.astype(bool), fetched, content.astype(bool))


@njit(nogil=True, cache=True)
def _prefetch(counts, slots, prior, own, begun, content, present, fetched):  # type: ignore[no-untyped-def]
    passes, layers, experts = counts.shape
    predicted = np.empty((layers, experts))
    most, least = np.empty(layers), np.empty(layers)
    value = np.empty(layers * experts)
    place = np.empty(layers * experts, np.int64)
    held = 0
    for i in range(layers):
        total = max(own[i].sum(), 1e-300)
        for e in range(experts):
            held += content[i, e]
            predicted[i, e] = 0.5 * (own[i, e] / total + prior[i, e])
        # Bounds of a row, so that rows that cannot hold the best or the worst are passed over.
        most[i], least[i] = predicted[i].max(), predicted[i].min()
    for t in range(passes):
        for layer in range(layers):
            for _ in range(begun[layer]):
                best = -1
                highest = 0.0
                worst = -1
                lowest = np.inf
                for i in range(layers):
                    ahead = 1.0 - ((i - layer) % layers) / layers
                    if i >= layer and most[i] * ahead > highest:
                        for e in range(experts):
                            if content[i, e] == 0 and predicted[i, e] * ahead > highest:
                                highest = predicted[i, e] * ahead
                                best = i * experts + e
                    if least[i] * ahead <= lowest:
                        for e in range(experts):
                            if content[i, e] == 1 and predicted[i, e] * ahead <= lowest:
                                lowest = predicted[i, e] * ahead
                                worst = i * experts + e
                if best < 0 or slots == 0 or (held >= slots and highest <= lowest):
                    break
                if held >= slots:
                    content[worst // experts, worst % experts] = 0
                    held -= 1
                content[best // experts, best % experts] = 1
                held += 1
                fetched[t, layer] += 1
            count = 0
            missing = 0
            for e in range(experts):
                present[t, layer, e] = content[layer, e]
                if counts[t, layer, e] > 0:
                    count += 1
                    missing += 1 - content[layer, e]
            over = held + missing - slots
            if missing > 0:
                if over > 0:
                    found = 0
                    whole = count > slots
                    for i in range(layers - 1, -1, -1):
                        ahead = 1.0 - ((i - layer - 1) % layers + 1.0) / layers
                        for e in range(experts - 1, -1, -1):
                            mine = i == layer and counts[t, i, e] > 0
                            if mine and whole:
                                value[found] = predicted[i, e]
                                place[found] = i * experts + e
                                found += 1
                            elif not mine and content[i, e] == 1:
                                if whole:
                                    content[i, e] = 0
                                else:
                                    value[found] = predicted[i, e] * ahead
                                    place[found] = i * experts + e
                                    found += 1
                for e in range(experts):
                    if counts[t, layer, e] > 0:
                        content[layer, e] = 1
                if over > 0:
                    drop_worst(value, place, found, count - slots if whole else over, content)
                held = min(held + missing, slots)
            total = 0.0
            for e in range(experts):
                own[layer, e] += counts[t, layer, e]
                total += own[layer, e]
            for e in range(experts):
                predicted[layer, e] = 0.5 * (own[layer, e] / max(total, 1e-300) + prior[layer, e])
            most[layer], least[layer] = predicted[layer].max(), predicted[layer].min()


def prefetch_reference(
    counts: np.ndarray,
    slots: int,
    prior: np.ndarray,
    own: np.ndarray,
    begun: np.ndarray,
    content: np.ndarray,
    present: np.ndarray,
    fetched: np.ndarray,
) -> None:
    """Plain twin of the kernel."""
    passes, layers, experts = counts.shape
    layer_of = np.repeat(np.arange(layers), experts).reshape(layers, experts)

    def prediction() -> np.ndarray:
        return 0.5 * (own / np.maximum(own.sum(axis=1, keepdims=True), 1e-300) + prior)

    for t in range(passes):
        for layer in range(layers):
            for _ in range(begun[layer]):
                priority = prediction() * (1.0 - ((layer_of - layer) % layers) / layers)
                wishes = np.where((content == 0) & (layer_of >= layer), priority, 0.0)
                best = int(wishes.argmax())
                full = content.sum() >= slots
                kept = np.where(content == 1, priority, np.inf)
                if slots == 0 or wishes.max() <= 0.0 or (full and wishes.max() <= kept.min()):
                    break
                if full:
                    content.ravel()[int(np.flatnonzero(kept.ravel() == kept.min())[-1])] = 0
                content.ravel()[best] = 1
                fetched[t, layer] += 1
            present[t, layer] = content[layer]
            asked = counts[t, layer] > 0
            if (asked & (content[layer] == 0)).any():
                ahead = 1.0 - ((layer_of - layer - 1) % layers + 1.0) / layers
                pinned = np.zeros((layers, experts), bool)
                pinned[layer] = asked
                score = prediction() * np.where(pinned, 1.0, ahead)
                candidates = np.flatnonzero((pinned | (content == 1)).ravel())
                order = np.lexsort((candidates, -score.ravel()[candidates], ~pinned.ravel()[candidates]))
                content[:] = 0
                content.ravel()[candidates[order[:slots]]] = 1
            own[layer] += counts[t, layer]


def warm() -> None:
    """Compile the kernel, or load it from the cache."""
    simulate_prefetch(np.ones((1, 1, 2), np.int32), 1, np.ones((1, 2)), np.ones((1, 2)), np.ones(1))
