"""FreeToken's decode over ordered steps: one LRU cache of all layers, misses divided between the link and the CPU.

Of ``m`` misses of a layer, q* are sent to the GPU and enter the cache, the others are computed on the CPU:
``q* = argmin over q of max(q t_link, (m - q) t_cpu)``, both times measured while the two run together (FreeToken,
arXiv 2608.16157, and its source). The compiled kernel and its plain twin take the same decisions.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import product

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planner.arrays import kernel_input
from planner.split import CPU, HIT, STREAM


@njit(cache=True, nogil=True)
def best_share(misses: int, link_s: float, cpu_s: float) -> int:
    """Misses to send over the link so that link and CPU finish together; ties to fewer transfers.

    The larger of a rising and a falling line is least beside their crossing, ``m t_cpu / (t_link + t_cpu)``.
    """
    crossing = misses if cpu_s == np.inf else int(misses * cpu_s / (link_s + cpu_s))
    best, least = 0, np.inf
    for q in range(max(crossing - 1, 0), min(crossing + 2, misses) + 1):
        on_cpu = 0.0 if q == misses else (misses - q) * cpu_s
        longest = max(q * link_s, on_cpu)
        if longest < least:
            best, least = q, longest
    return best


@njit(cache=True, nogil=True)
def _unlink(before, after, key):  # type: ignore[no-untyped-def]
    before[after[key]] = before[key]
    after[before[key]] = after[key]


@njit(cache=True, nogil=True)
def _push(before, after, key):  # type: ignore[no-untyped-def]
    end = before.shape[0] - 1  # the last entry is the head of a ring: after[end] oldest, before[end] newest
    newest = before[end]
    after[newest] = key
    before[key] = newest
    after[key] = end
    before[end] = key


@njit(cache=True, nogil=True)
def _replay(tokens, start, slots, link_s, cpu_s, place):  # type: ignore[no-untyped-def]
    steps, layers, experts = tokens.shape
    ring = layers * experts
    before, after = np.full(ring + 1, -1, np.int64), np.full(ring + 1, -1, np.int64)
    before[ring] = after[ring] = ring
    held = np.zeros(ring, np.bool_)
    count = 0
    for key in start:
        if count < slots:
            _push(before, after, key)
            held[key] = True
            count += 1
    missed = np.empty(experts, np.int64)
    for s in range(steps):
        for layer in range(layers):
            m = 0
            for e in range(experts):
                n = tokens[s, layer, e]
                key = layer * experts + e
                if n == 0:
                    continue
                if held[key]:
                    place[s, layer, e] = HIT
                    _unlink(before, after, key)
                    _push(before, after, key)
                    continue
                at = m
                while at > 0 and tokens[s, layer, missed[at - 1]] < n:
                    missed[at] = missed[at - 1]
                    at -= 1
                missed[at] = e
                m += 1
            q = best_share(m, link_s, cpu_s)
            for i in range(m):
                e = missed[i]
                if i >= q:
                    place[s, layer, e] = CPU
                    continue
                place[s, layer, e] = STREAM
                if slots == 0:
                    continue
                if count == slots:
                    oldest = after[ring]
                    _unlink(before, after, oldest)
                    held[oldest] = False
                    count -= 1
                key = layer * experts + e
                _push(before, after, key)
                held[key] = True
                count += 1


def replay_reference(tokens: np.ndarray, start: np.ndarray, slots: int, link_s: float, cpu_s: float) -> np.ndarray:
    """Plain twin of :func:`replay`."""
    place = np.zeros(tokens.shape, np.int8)
    held: OrderedDict[tuple[int, int], None] = OrderedDict()
    for key in start[:slots]:
        held[divmod(int(key), tokens.shape[2])] = None
    for s, layer in product(range(tokens.shape[0]), range(tokens.shape[1])):
        row = tokens[s, layer]
        missed: list[int] = []
        for e in np.flatnonzero(row).tolist():
            if (layer, e) in held:
                held.move_to_end((layer, e))
                place[s, layer, e] = HIT
            else:
                missed.append(e)
        missed.sort(key=lambda e: -row[e])
        spans = [max(q * link_s, (len(missed) - q) * cpu_s if q < len(missed) else 0.0) for q in range(len(missed) + 1)]
        q = int(np.argmin(spans))
        for i, e in enumerate(missed):
            place[s, layer, e] = STREAM if i < q else CPU
            if i < q and slots:
                if len(held) == slots:
                    held.popitem(last=False)
                held[(layer, e)] = None
    return place


def replay(tokens: np.ndarray, start: np.ndarray, slots: int, link_s: float, cpu_s: float) -> NDArray[np.int8]:
    """Places int8 [steps, layers, experts] (codes of :mod:`planner.split`) of ``tokens`` of the same shape.

    start: keys ``layer * experts + expert`` in the cache at the start, oldest first. slots: of all layers together.
    link_s, cpu_s: seconds of one expert on either way while both run (cpu_s inf: everything is sent). Experts that are
    sent are the most loaded misses; ties go to the lower index.
    """
    place = np.zeros(tokens.shape, np.int8)
    _replay(
        kernel_input(tokens, np.int64), kernel_input(start, np.int64), int(slots), float(link_s), float(cpu_s), place
    )
    return place


def warm() -> None:
    """Compile the kernel, or load it from the cache."""
    replay(np.ones((1, 1, 2), np.int64), np.zeros(1, np.int64), 1, 1.0, 1.0)
