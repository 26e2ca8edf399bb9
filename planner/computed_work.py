"""What the timed passes of a policy compute of what the router chose: all of it, less of it, or something else.

A policy that skips experts or exchanges them for others changes what the model puts out. Such a plan is labelled, and
its lower bound counts the work that it does, so that it stays a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.evaluate import Evaluation
from planner.physics.experts import Counts


@dataclass(frozen=True)
class ComputedWork:
    """Token-expert pairs of the timed passes."""

    counts: Counts
    """[passes, layers, experts]: tokens per expert that are computed"""
    share: float
    """pairs computed / pairs routed"""
    exchanged: float
    """share of the routed pairs that other experts compute instead"""

    @property
    def as_routed(self) -> bool:
        return self.share == 1.0 and self.exchanged == 0.0

    @property
    def sentence(self) -> str:
        """What is computed instead of what was routed; empty where nothing differs."""
        parts = []
        if self.share < 1.0:
            parts.append(f"{1.0 - self.share:.1%} of the token-expert pairs that the router chose are skipped")
        if self.exchanged > 0.0:
            parts.append(f"{self.exchanged:.1%} are computed by other experts than the router chose")
        return f"{' and '.join(parts)}: the model's output changes." if parts else ""


def computed_work(found: Evaluation) -> ComputedWork:
    """Work of the timed decode passes of a plan that was placed, beside what was routed to them."""
    assert found.ready is not None and found.placed is not None and found.routing is not None
    counts = found.policy.computed_counts(found.ctx, found.ready, found.placed, found.routing)
    routed = found.routing.counts[found.routing.counts.shape[0] - counts.shape[0] :]
    total = max(float(routed.sum()), 1.0)
    # Pairs at experts that get more than was routed to them came from others.
    more = float(np.maximum(counts.astype(np.int64) - routed, 0).sum())
    return ComputedWork(counts, float(counts.sum()) / total, more / total)
