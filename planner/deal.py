"""Deals experts out to equal bins (GPUs of an expert-parallel group, DIMMs) so that loads come out even."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(cache=True, nogil=True)
def deal_kernel(load: np.ndarray, order: np.ndarray, bins: int, room: int, home: np.ndarray) -> None:
    """Compiled inner loop of :func:`deal`; ``home`` [layers, experts] is written, -1 = not dealt."""
    layers, slots = order.shape
    for layer in range(layers):
        total = np.zeros(bins)
        held = np.zeros(bins, np.int64)
        for position in range(slots):
            expert = order[layer, position]
            if load[layer, expert] < 0.0:
                continue
            best = -1
            for candidate in range(bins):
                if held[candidate] < room and (best < 0 or total[candidate] < total[best]):
                    best = candidate
            home[layer, expert] = best
            total[best] += load[layer, expert]
            held[best] += 1


def deal_numpy(
    load: NDArray[np.float64], order: NDArray[np.int64], bins: int, room: int, home: NDArray[np.int16]
) -> None:
    """Plain twin of :func:`deal_kernel`."""
    for layer in range(load.shape[0]):
        total, held = np.zeros(bins), np.zeros(bins, np.int64)
        for expert in order[layer]:
            if load[layer, expert] < 0.0:
                continue
            best = int(np.argmin(np.where(held < room, total, np.inf)))
            home[layer, expert] = best
            total[best] += load[layer, expert]
            held[best] += 1


def deal(load: NDArray[np.float64], bins: int, *, compiled: bool = True) -> NDArray[np.int16]:
    """Home bin of each expert, int16 [layers, experts]: heaviest first, each to the least loaded bin with room.

    ``load`` [layers, experts], any unit; a negative load leaves the expert out (-1). Every bin gets at most
    ceil(dealt / bins) experts of a layer, so that memory comes out even too (longest processing time first; the
    packing of EPLB without replicas, DeepSeek 2025). Ties go to the lower bin.
    """
    values = np.ascontiguousarray(load, float)
    order = np.argsort(-values, axis=1, kind="stable")
    dealt = int((values >= 0).sum(axis=1).max(initial=0))
    room = max(1, -(-dealt // bins))
    home = np.full(values.shape, -1, np.int16)
    (deal_kernel if compiled else deal_numpy)(values, order, bins, room, home)
    return home


def warm() -> None:
    """Compile the kernel, or load it from the cache."""
    deal(np.ones((1, 2)), 2)
