"""Coverage of the intervals, measured: each machine judged by intervals that were made without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.accuracy import Residual, spread


@dataclass(frozen=True)
class Coverage:
    """Share of held-out runs inside their 80 % interval, and its standard error over machines.

    ``share`` counts each machine once, as the intervals do: it is what the next machine can expect. ``of_runs`` counts
    each run once.
    """

    rows: int
    groups: int
    share: float
    error: float
    of_runs: float


def inside(row: Residual, rows: Sequence[Residual]) -> bool | None:
    """Whether a run lies in the interval made of the runs of all other machines; None where there is none."""
    others = [other for other in rows if other.group != row.group]
    found = spread(row.regime, row.phase, row.family, among=others)
    if found is None:
        return None
    return math.log(found.low) <= row.log_ratio <= math.log(found.high)


def coverage(rows: Sequence[Residual]) -> Coverage:
    """Over all runs; the error is binomial over machines, since the runs of one stand or fall together."""
    by_group: dict[str, list[bool]] = {}
    for row in rows:
        found = inside(row, rows)
        if found is not None:
            by_group.setdefault(row.group, []).append(found)
    shares = np.array([np.mean(values) for values in by_group.values()])
    total = [value for values in by_group.values() for value in values]
    mean = float(np.mean(shares))
    error = math.sqrt(max(mean * (1 - mean), 1e-12) / len(shares))
    return Coverage(len(total), len(shares), mean, error, float(np.mean(total)))
