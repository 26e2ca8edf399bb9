"""The one type in which the load of the experts reaches the rest of the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


class RoutingError(ValueError):
    """A routing choice that cannot be served; the message is a sentence for a person."""


@dataclass(frozen=True)
class RoutingState:
    """Load of every expert: what a placement may learn from, and the passes that it is timed on.

    All arrays are read-only. MoE layers only, logical (routed) experts only.
    """

    counts: np.ndarray
    """int32 [steps, layers, experts]: tokens per expert in each sampled decode pass of ``tokens_per_pass`` tokens"""
    profile: np.ndarray
    """float64 [layers, experts]: selections in an offline calibration run on other, earlier requests of the domain"""
    context: np.ndarray
    """float64 [layers, experts]: selections in the prefill of the very sequences that decode"""
    context_scores: np.ndarray
    """float64 [layers, experts]: router scores summed over that prefill, each token's k scores normalised to sum 1"""
    prefill_counts: np.ndarray
    """int32 [passes, layers, experts]: tokens per expert in prefill passes of ``prefill_tokens`` tokens"""
    tokens_per_pass: int
    prefill_tokens: int
    learned_on: str
    """which tokens a placement is learnt on and which it is timed on, in words"""
    warnings: tuple[str, ...] = ()
    gate_weights: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.float32))
    """float32 [tokens, top_k]: router scores of a sample of decode tokens over all layers, each token's k scores
    normalised to sum 1 and sorted, largest first; recorded ones from a trace, drawn ones from the generator"""

    def __post_init__(self) -> None:
        for array in self.arrays():
            array.flags.writeable = False

    def arrays(self) -> tuple[np.ndarray, ...]:
        return (
            self.counts, self.profile, self.context, self.context_scores, self.prefill_counts, self.gate_weights,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays())


def scale_counts(counts: np.ndarray, sampled_tokens: int, tokens: int) -> np.ndarray:
    """Counts of a pass of ``tokens`` tokens from a sample of it, rounded so that each row keeps its exact sum.

    counts: int [..., experts], each row summing to sampled_tokens x k. The largest remainders are rounded up (ties:
    the lower index first), so a row sums to tokens x k and no expert gets more than ``tokens``.
    """
    if sampled_tokens == tokens:
        return counts.astype(np.int32)
    whole, rest = np.divmod(counts.astype(np.int64) * tokens, sampled_tokens)
    missing = (rest.sum(axis=-1) // sampled_tokens)[..., None]
    order = np.argsort(-rest, axis=-1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(counts.shape[-1]), order.shape).copy(), axis=-1)
    return (whole + (rank < missing)).astype(np.int32)
