"""Routing of later layers as their gates predict it from an earlier layer's hidden state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.physics import attention
from planner.physics.experts import Counts
from planner.physics.operation import Array, phase_times
from planner.policies.base import Option, Prepared
from planner.step import Pass

ACCURACY = Option(
    "gate_accuracy",
    "float",
    0.96,
    "share of a layer's experts that its gate predicts one layer earlier (HOBBIT, arXiv 2411.01433: 96 %, top-1)",
    low=0.0,
    high=1.0,
)
FARTHER = Option(
    "gate_accuracy_farther",
    "float",
    0.9,
    "the same two or three layers earlier (HOBBIT: about 90 %)",
    low=0.0,
    high=1.0,
)


def predicted(counts: Counts, accuracies: tuple[float, ...], seed: int) -> NDArray[np.int64]:
    """Tokens that the gates predict, int [depth, passes, layers, experts], for layers 1, 2, ... ahead.

    An expert that is hit is foreseen with the given probability; otherwise its tokens are expected at another expert
    of its layer, drawn evenly. Which ones are foreseen follows from the seed.
    """
    experts = counts.shape[2]
    found = np.zeros((len(accuracies), *counts.shape), np.int64)
    hit = np.flatnonzero(counts)
    rng = np.random.default_rng(seed)
    for depth, accuracy in enumerate(accuracies):
        wrong = hit[rng.random(hit.size) >= accuracy] if experts > 1 else hit[:0]
        seen = found[depth].ravel()  # a view: the rows are contiguous
        seen[:] = counts.ravel()
        seen[wrong] = 0
        at = wrong % experts
        other = wrong - at + (at + rng.integers(1, max(experts, 2), wrong.size)) % experts
        seen += np.bincount(other, counts.ravel()[wrong], seen.size).astype(np.int64)
    return found


def windows_s(ctx: Context, ready: Prepared, sequences: int) -> Array:
    """Seconds from the end of each MoE layer's experts to the next one's gate: the attention between, [moe_layers].

    After the last one there is nothing to prefetch for: 0.
    """
    run = Pass(tokens=1.0)
    rows = attention.decode_rows(ctx, sequences)
    attention.add_attention(ctx, run, rows, ready.layout, ready.kv_location, ready.attention_device)
    each = phase_times(run.phases[0]).total.mean(axis=(0, 1))
    until = np.concatenate(([0.0], np.cumsum(each)))
    moe = ctx.moe
    return np.append(until[moe[1:] + 1] - until[moe[:-1] + 1], 0.0)
