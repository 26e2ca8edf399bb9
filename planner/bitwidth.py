"""Which bit-width, 1 to 4, each non-resident expert of a layer gets under an average budget.

Everyone starts at 1 bit; the budget of increments is R = floor(N (average - 1)). Two selectors:

* ``prefix``: the search of arXiv 2512.04476. In the order of importance the first n4 experts get 4 bits, the next n3
  three, the next n2 two, the last n1 one, with n4 + n3 + n2 + n1 = N and 3 n4 + 2 n3 + n2 = R exactly; all (n4, n3)
  are tried and the largest gain kept (the first of equals). O(N^2).
* ``exact``: the multiple-choice knapsack under the same R by dynamic programming: least total loss, any assignment,
  at most R increments. O(N R).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit

from planner.arrays import kernel_input

Method = Literal["prefix", "exact"]
WIDTHS = 4


@dataclass(frozen=True)
class BitChoice:
    """Widths of the N experts of one layer, in the order given."""

    bits: np.ndarray
    """int8 [N], 1..4"""
    counts: tuple[int, int, int, int]
    """(n4, n3, n2, n1)"""
    loss: float
    """sum of the losses at the chosen widths"""
    gain: float
    """loss of all experts at 1 bit, less ``loss``"""


@dataclass(frozen=True)
class LayerBits:
    """Widths of the experts of several layers."""

    bits: np.ndarray
    """int8 [layers, N], in the order of the loss table"""
    counts: np.ndarray
    """int64 [layers, 4], (n4, n3, n2, n1)"""
    loss: np.ndarray
    """float64 [layers]"""
    gain: np.ndarray
    """float64 [layers]"""


def increments(experts: int, average_bits: float) -> int:
    """R = floor(N (average - 1)); raises ValueError outside 1..4 bits. 1e-9 forgives the rounding of the product."""
    if not 1.0 <= average_bits <= float(WIDTHS):
        raise ValueError(f"the average bit-width is {average_bits}; accepted is 1 to 4")
    return min(3 * experts, math.floor(experts * (average_bits - 1.0) + 1e-9))


@njit(nogil=True, cache=True)
def _prefix(losses, budget, bits):  # type: ignore[no-untyped-def]
    """Writes the widths of losses [N, 4], most important first."""
    n = losses.shape[0]
    c = np.zeros((3, n + 1))
    for b in range(3):
        for i in range(n):
            c[b, i + 1] = c[b, i] + (losses[i, 0] - losses[i, b + 1])
    best = -np.inf
    best4, best3, best2 = 0, 0, 0
    for n4 in range(budget // 3 + 1):
        for n3 in range((budget - 3 * n4) // 2 + 1):
            n2 = budget - 3 * n4 - 2 * n3
            if n4 + n3 + n2 > n:
                continue
            gain = c[2, n4] + (c[1, n4 + n3] - c[1, n4]) + (c[0, n4 + n3 + n2] - c[0, n4 + n3])
            if gain > best:
                best, best4, best3, best2 = gain, n4, n3, n2
    for i in range(n):
        if i < best4:
            bits[i] = 4
        elif i < best4 + best3:
            bits[i] = 3
        elif i < best4 + best3 + best2:
            bits[i] = 2
        else:
            bits[i] = 1


@njit(nogil=True, cache=True)
def _exact(losses, budget, bits, least):  # type: ignore[no-untyped-def]
    """Writes the widths of losses [N, 4]. least [N + 1, budget + 4] is scratch: least[i, r + 3] is the least loss of
    the first i experts with at most r increments, and three columns of infinity spare the tests of r - b < 0."""
    n = losses.shape[0]
    for r in range(budget + 4):
        least[0, r] = 0.0
    for i in range(n + 1):
        least[i, 0] = least[i, 1] = least[i, 2] = np.inf
    for i in range(n):
        loss1, loss2, loss3, loss4 = losses[i, 0], losses[i, 1], losses[i, 2], losses[i, 3]
        old, new = least[i], least[i + 1]
        # budgets that leave more than the remaining experts can use are never asked for
        for r in range(max(0, budget - 3 * (n - 1 - i)), budget + 1):
            a = old[r + 3] + loss1
            b = old[r + 2] + loss2
            a = b if b < a else a
            c = old[r + 1] + loss3
            d = old[r] + loss4
            c = d if d < c else c
            new[r + 3] = c if c < a else a
    r = budget
    for i in range(n - 1, -1, -1):
        taken = 0
        while taken < 3 and least[i, r + 3 - taken] + losses[i, taken] != least[i + 1, r + 3]:
            taken += 1
        bits[i] = taken + 1
        r -= taken


@njit(nogil=True, cache=True)
def _layers(losses, order, budget, exact, bits):  # type: ignore[no-untyped-def]
    layers, n, _ = losses.shape
    own = np.empty((n, 4))
    chosen = np.empty(n, np.int8)
    least = np.empty((n + 1 if exact else 1, budget + 4))
    for layer in range(layers):
        for i in range(n):
            for b in range(4):
                own[i, b] = losses[layer, order[layer, i], b]
        if exact:
            _exact(own, budget, chosen, least)
        else:
            _prefix(own, budget, chosen)
        for i in range(n):
            bits[layer, order[layer, i]] = chosen[i]


def select_prefix(losses: np.ndarray, average_bits: float) -> BitChoice:
    """The paper's prefix search. losses: float64 [N, 4] at 1..4 bits, experts by importance, highest first."""
    return _single(losses, average_bits, "prefix")


def select_exact(losses: np.ndarray, average_bits: float) -> BitChoice:
    """The optimum of the same budget. losses: float64 [N, 4] at 1..4 bits, any order; ties take the fewer bits."""
    return _single(losses, average_bits, "exact")


def _single(losses: np.ndarray, average_bits: float, method: Method) -> BitChoice:
    losses = np.asarray(losses, np.float64)
    if losses.ndim != 2:
        raise ValueError(f"losses have shape {losses.shape}; accepted is [experts, 4]")
    return _choice(losses, select_layers(losses[None], None, average_bits, method).bits[0])


def _choice(losses: np.ndarray, bits: np.ndarray) -> BitChoice:
    loss = float(losses[np.arange(bits.size), bits - 1].sum())
    n1, n2, n3, n4 = (int((bits == b).sum()) for b in (1, 2, 3, 4))
    return BitChoice(bits=bits, counts=(n4, n3, n2, n1), loss=loss, gain=float(losses[:, 0].sum()) - loss)


def select_layers(
    losses: np.ndarray, order: np.ndarray | None, average_bits: float, method: Method = "exact"
) -> LayerBits:
    """Widths of every layer, each under its own budget.

    losses: float64 [layers, N, 4], finite. order: int [layers, N], each row the experts by importance, highest
    first (None: as they stand); ``exact`` uses it for ties only. Raises ValueError with a sentence.
    """
    losses = kernel_input(losses, np.float64)
    if losses.ndim != 3 or losses.shape[2] != WIDTHS:
        raise ValueError(f"losses have shape {losses.shape}; accepted is [layers, experts, 4]")
    if not np.isfinite(losses).all():
        raise ValueError("a loss is not a finite number; each expert needs one loss for each of 1, 2, 3 and 4 bits")
    if method not in ("prefix", "exact"):
        raise ValueError(f"method is '{method}'; accepted are prefix and exact")
    layers, n, _ = losses.shape
    budget = increments(n, average_bits)
    if order is None:
        order = np.broadcast_to(np.arange(n), (layers, n))
    if order.shape != (layers, n) or not np.array_equal(np.sort(order, axis=1), np.tile(np.arange(n), (layers, 1))):
        raise ValueError(f"order must be a permutation of {n} experts in each of {layers} layers")
    bits = np.ones((layers, n), np.int8)
    if n:
        _layers(losses, kernel_input(order, np.int64), budget, method == "exact", bits)
    loss = np.take_along_axis(losses, (bits - 1)[:, :, None].astype(np.int64), axis=2)[:, :, 0].sum(axis=1)
    counts = np.stack([(bits == b).sum(axis=1) for b in (4, 3, 2, 1)], axis=1).astype(np.int64)
    return LayerBits(bits=bits, counts=counts, loss=loss, gain=losses[:, :, 0].sum(axis=1) - loss)


def feasible_tuples(experts: int, budget: int) -> np.ndarray:
    """All (n4, n3, n2, n1) that the prefix search may choose from, in its order of trial: int64 [tuples, 4]."""
    n4, n3 = np.meshgrid(np.arange(budget // 3 + 1), np.arange(budget // 2 + 1), indexing="ij")
    n2 = budget - 3 * n4 - 2 * n3
    n1 = experts - n4 - n3 - n2
    return np.stack([n4, n3, n2, n1], axis=-1)[(n2 >= 0) & (n1 >= 0)]


def prefix_reference(losses: np.ndarray, average_bits: float) -> BitChoice:
    """NumPy twin of :func:`select_prefix`."""
    losses = np.asarray(losses, np.float64)
    n = losses.shape[0]
    c = np.zeros((3, n + 1))
    np.cumsum(losses[:, :1].T - losses[:, 1:].T, axis=1, out=c[:, 1:])
    tuples = feasible_tuples(n, increments(n, average_bits))
    n4, n3, n2, _ = tuples.T
    gain = c[2, n4] + (c[1, n4 + n3] - c[1, n4]) + (c[0, n4 + n3 + n2] - c[0, n4 + n3])
    return _choice(losses, np.repeat(np.array([4, 3, 2, 1], np.int8), tuples[np.argmax(gain)]))


def exact_reference(losses: np.ndarray, average_bits: float) -> BitChoice:
    """NumPy twin of :func:`select_exact`."""
    losses = np.asarray(losses, np.float64)
    n = losses.shape[0]
    budget = increments(n, average_bits)
    least = np.zeros(budget + 1)
    choice = np.zeros((n, budget + 1), np.int8)
    for i in range(n):
        values = np.full((WIDTHS, budget + 1), np.inf)
        for b in range(min(WIDTHS - 1, budget) + 1):
            values[b, b:] = least[: budget + 1 - b] + losses[i, b]
        choice[i] = np.argmin(values, axis=0)
        least = values.min(axis=0)
    bits = np.ones(n, np.int8)
    left = budget
    for i in range(n - 1, -1, -1):
        bits[i] = choice[i, left] + 1
        left -= int(choice[i, left])
    return _choice(losses, bits)


def warm() -> None:
    """Compile (or load from the cache) both selectors."""
    for method in ("prefix", "exact"):
        select_layers(np.ones((1, 2, WIDTHS)), None, 2.0, method)  # type: ignore[arg-type]
