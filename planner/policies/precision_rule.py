"""HOBBIT's precision rule (arXiv 2411.01433): which experts of a pass are wanted in high or low precision, or skipped.

A token's experts are ordered by gate weight; U of an expert is the sum of the normalised gate weights before it, so the
first has U = 0:

    U <= T1  high precision        T1 < U <= T2  low precision        U > T2  skipped

The rule is applied to a sample of real or drawn gate weights (:attr:`planner.routing.RoutingState.gate_weights`). A
pass of one token gives its k experts the classes of one token of the sample, in an order drawn at random: given which
experts were chosen, the order among them hardly depends on popularity (Plackett-Luce). In a pass of more tokens an
expert is wanted as well as any of its tokens wants it, tokens taken as independent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.errors import PlanError
from planner.routing.counter_rng import child, uniform

UNWANTED, LOW, HIGH, SKIPPED = 0, 1, 2, 3
KEY = np.uint64(0x686F62626974)


def token_classes(gate_weights: NDArray[np.float32], t1: float, t2: float) -> NDArray[np.uint8]:
    """Class of each expert of each token, uint8 [tokens, k], in the order of gate weight, largest first."""
    if gate_weights.size == 0:
        raise PlanError("this routing has no router scores, which HOBBIT's precision rule needs.")
    weights = np.asarray(gate_weights, float)
    before = np.cumsum(weights, axis=1) - weights
    before[:, 0] = 0.0
    return np.where(before <= t1, HIGH, np.where(before <= t2, LOW, SKIPPED)).astype(np.uint8)


def pass_classes(counts: NDArray[np.int32], classes: NDArray[np.uint8], tokens: int, seed: int) -> NDArray[np.uint8]:
    """Class of every expert of every pass, uint8 [passes, layers, experts]; 0 where it has no token.

    counts: tokens of each expert in passes of ``tokens`` tokens. classes: [sampled tokens, k].
    """
    key = child(KEY, seed)
    drawn = uniform(child(child(key, 0), np.arange(counts.size))).reshape(counts.shape)
    hit = counts > 0
    if tokens == 1:
        rows = uniform(child(child(key, 1), np.arange(counts.shape[0] * counts.shape[1])))
        row = (rows * len(classes)).astype(np.int64).reshape(counts.shape[:2])
        rank = np.argsort(np.argsort(np.where(hit, drawn, 2.0), axis=2, kind="stable"), axis=2, kind="stable")
        rank = np.minimum(rank, classes.shape[1] - 1)
        found = classes[row[..., None], rank]
    else:
        no_high = float((classes != HIGH).mean()) ** counts
        all_skipped = float((classes == SKIPPED).mean()) ** counts
        found = np.where(drawn < 1.0 - no_high, HIGH, np.where(drawn < 1.0 - all_skipped, LOW, SKIPPED))
    return np.where(hit, found, UNWANTED).astype(np.uint8)
