"""The one type in which the load of the experts reaches the rest of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Draw = np.ndarray | Callable[[], np.ndarray]
"""An array, or what draws it when somebody first reads it."""


class RoutingError(ValueError):
    """A routing choice that cannot be served; the message is a sentence for a person."""


class RoutingState:
    """Load of every expert: what a placement may learn from, and the passes that it is timed on.

    All arrays are read-only. MoE layers only, logical (routed) experts only. A stream that is given as a function is
    drawn at its first reading; the same stream always holds the same numbers.
    """

    STREAMS = ("counts", "profile", "context", "context_scores", "prefill_counts", "gate_weights")

    def __init__(
        self,
        *,
        shape: tuple[int, int],
        counts: Draw,
        profile: Draw,
        context: Draw,
        context_scores: Draw,
        prefill_counts: Draw,
        tokens_per_pass: int,
        prefill_tokens: int,
        learned_on: str,
        warnings: tuple[str, ...] = (),
        gate_weights: Draw | None = None,
    ) -> None:
        self.shape = shape
        """MoE layers, experts: known without drawing"""
        self.tokens_per_pass = tokens_per_pass
        self.prefill_tokens = prefill_tokens
        self.learned_on = learned_on
        """which tokens a placement is learnt on and which it is timed on, in words"""
        self.warnings = warnings
        self._draws: dict[str, Draw] = {
            "counts": counts,
            "profile": profile,
            "context": context,
            "context_scores": context_scores,
            "prefill_counts": prefill_counts,
            "gate_weights": np.empty((0, 0), np.float32) if gate_weights is None else gate_weights,
        }
        self._read: dict[str, np.ndarray] = {}

    def _stream(self, name: str) -> np.ndarray:
        found = self._read.get(name)
        if found is None:
            draw = self._draws[name]
            found = draw if isinstance(draw, np.ndarray) else draw()
            found.flags.writeable = False
            found = self._read.setdefault(name, found)  # two threads may draw; they draw the same
        return found

    @property
    def counts(self) -> np.ndarray:
        """int32 [steps, layers, experts]: tokens per expert in each sampled decode pass of ``tokens_per_pass``."""
        return self._stream("counts")

    @property
    def profile(self) -> np.ndarray:
        """float64 [layers, experts]: selections in a calibration run on other, earlier requests of the domain."""
        return self._stream("profile")

    @property
    def context(self) -> np.ndarray:
        """float64 [layers, experts]: selections in the prefill of the very sequences that decode."""
        return self._stream("context")

    @property
    def context_scores(self) -> np.ndarray:
        """float64 [layers, experts]: router scores summed over that prefill, each token's k scores adding up to 1."""
        return self._stream("context_scores")

    @property
    def prefill_counts(self) -> np.ndarray:
        """int32 [passes, layers, experts]: tokens per expert in prefill passes of ``prefill_tokens`` tokens."""
        return self._stream("prefill_counts")

    @property
    def gate_weights(self) -> np.ndarray:
        """float32 [tokens, top_k]: router scores of a sample of decode tokens over all layers, each token's k scores
        normalised to sum 1 and sorted, largest first; recorded ones from a trace, drawn ones from the generator."""
        return self._stream("gate_weights")

    def replaced(self, **changes: Any) -> RoutingState:
        """The same state with other streams or facts; what is not named stays undrawn if it was."""
        kept: dict[str, Any] = {**self._draws, **self._read}
        for name in ("shape", "tokens_per_pass", "prefill_tokens", "learned_on", "warnings"):
            kept[name] = getattr(self, name)
        return RoutingState(**{**kept, **changes})

    def arrays(self) -> tuple[np.ndarray, ...]:
        """All streams, drawn now where they were not."""
        return tuple(self._stream(name) for name in self.STREAMS)


def scale_counts(counts: np.ndarray, sampled_tokens: int, tokens: int) -> np.ndarray:
    """Counts of a pass of ``tokens`` tokens from a sample of it, rounded so that each row keeps its exact sum.

    counts: int [..., experts], each row summing to sampled_tokens x k. The largest remainders are rounded up (ties:
    the lower index first), so a row sums to tokens x k and no expert gets more than ``tokens``.
    """
    if sampled_tokens == tokens:
        return counts.astype(np.int32, copy=False)
    whole, rest = np.divmod(counts.astype(np.int64) * tokens, sampled_tokens)
    missing = (rest.sum(axis=-1) // sampled_tokens)[..., None]
    order = np.argsort(-rest, axis=-1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(counts.shape[-1]), order.shape).copy(), axis=-1)
    return (whole + (rank < missing)).astype(np.int32)
