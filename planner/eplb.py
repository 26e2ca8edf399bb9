"""EPLB (DeepSeek, 2025): an expert-parallel group with more slots than experts, so that its GPUs are even.

Each further slot goes to the expert with the most load per copy; then copies are packed onto GPUs, heaviest first, each
to the least loaded GPU with a free slot (:func:`planner.deal.deal`). A token that chose an expert goes to one of its
copies, evenly. This is EPLB's global policy; its hierarchical one, for groups of experts bound to nodes, is not here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.deal import deal


@dataclass(frozen=True)
class Slots:
    """Which expert each slot of a layer holds, and on which GPU; all int64 [layers, slots]."""

    expert: NDArray[np.int64]
    copy: NDArray[np.int64]  # number of this copy among those of its expert, from 0
    copies: NDArray[np.int64]  # copies of its expert
    rank: NDArray[np.int64]  # UNUSED: no tokens go there


UNUSED = -1


def replicate(load: NDArray[np.float64], redundant: int) -> NDArray[np.int64]:
    """Copies of each expert, int64 [layers, experts]: ``redundant`` more than experts in each layer.

    Ties go to the lower index.
    """
    copies = np.ones(load.shape, np.int64)
    rows = np.arange(load.shape[0])
    for _ in range(redundant):
        copies[rows, (load / copies).argmax(axis=1)] += 1
    return copies


def balanced(load: NDArray[np.float64], ranks: int, redundant: int = 0) -> Slots:
    """Slots of an even group by learnt ``load`` [layers, experts]; every GPU holds at most ceil(slots / ranks).

    A layer that its copies would not make more even by this load leaves them unused (the greedy packing can fail so).
    """
    copies = replicate(load, redundant)
    expert = np.stack([np.repeat(np.arange(load.shape[1]), row) for row in copies])
    number = np.take_along_axis(copies, expert, axis=1)
    first = np.cumsum(copies, axis=1) - copies
    copy = np.arange(expert.shape[1])[None] - np.take_along_axis(first, expert, axis=1)
    rank = deal(np.take_along_axis(load, expert, axis=1) / number, ranks).astype(np.int64)
    slots = Slots(expert, copy, number, rank)
    if not redundant:
        return slots
    plain = deal(load, ranks).astype(np.int64)
    single = Slots(
        expert, copy, np.ones_like(number), np.where(copy == 0, np.take_along_axis(plain, expert, 1), UNUSED)
    )
    worse = (_heaviest(load, slots, ranks) > _heaviest(load, single, ranks))[:, None]
    return Slots(expert, copy, np.where(worse, 1, number), np.where(worse, single.rank, rank))


def _heaviest(load: NDArray[np.float64], slots: Slots, ranks: int) -> NDArray[np.float64]:
    each = np.take_along_axis(load, slots.expert, axis=1) / slots.copies
    return np.asarray(per_rank(each[None], slots, ranks)[:, 0].max(axis=0))


def in_order(layers: int, experts: int, ranks: int) -> Slots:
    """One slot for each expert, as many neighbours on each GPU: no balancing at all."""
    expert = np.broadcast_to(np.arange(experts), (layers, experts)).copy()
    return Slots(expert, np.zeros_like(expert), np.ones_like(expert), expert // -(-experts // ranks))


def tokens_of(counts: NDArray[np.int32], slots: Slots) -> NDArray[np.int32]:
    """Tokens of each slot, int32 [passes, layers, slots]: those of its expert, evenly over its copies, whole tokens."""
    whole = np.take_along_axis(counts, np.broadcast_to(slots.expert, (counts.shape[0], *slots.expert.shape)), axis=2)
    shared = (whole + slots.copies - 1 - slots.copy) // slots.copies
    return np.where(slots.rank == UNUSED, 0, shared).astype(np.int32)


def per_rank(values: NDArray[np.float64], slots: Slots, ranks: int) -> NDArray[np.float64]:
    """Sum of ``values`` [passes, layers, slots] by GPU, [ranks, passes, layers]."""
    return np.stack([np.where(slots.rank == r, values, 0.0).sum(axis=2) for r in range(ranks)])


def imbalance(counts: NDArray[np.int32], slots: Slots, ranks: int) -> NDArray[np.float64]:
    """(max - mean) / mean of the tokens per GPU, [passes, layers]; 0 = even (TensorRT-LLM's imbalance ratio)."""
    tokens = per_rank(tokens_of(counts, slots).astype(float), slots, ranks)
    return np.asarray(tokens.max(axis=0) / tokens.mean(axis=0) - 1.0)
