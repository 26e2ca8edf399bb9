"""Errors of predictions: of one quantity over rows, by group, and the noise of the measurements themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from planner.accuracy import missed
from validation.silicon.mapping import SATURATED_S, Case
from validation.silicon.predict import Prediction


@dataclass(frozen=True)
class Scored:
    """A row's case with a prediction of it."""

    case: Case
    predicted: Prediction

    @property
    def tpot_error(self) -> float:
        """predicted / measured - 1"""
        return self.predicted.tpot_s / self.case.row.tpot_s - 1.0

    @property
    def step_error(self) -> float:
        """The same for the decode step alone."""
        return self.predicted.step_s / self.case.row.tpot_s - 1.0

    @property
    def prompt_error(self) -> float:
        """The same of TTFT for one prompt that comes while the others decode."""
        return self.predicted.prompt_s / self.case.row.ttft_s - 1.0

    @property
    def ttft_error(self) -> float:
        return self.predicted.ttft_s / self.case.row.ttft_s - 1.0

    @property
    def saturated(self) -> bool:
        return self.case.row.ttft_s >= SATURATED_S


@dataclass(frozen=True)
class Errors:
    rows: int
    median: float
    p75: float
    p90: float
    signed: float
    """Median of predicted / measured - 1."""


def errors(values: Iterable[float]) -> Errors | None:
    """Quantiles of the absolute errors; None of nothing."""
    found = np.array(list(values))
    if not found.size:
        return None
    off = missed(found.tolist())
    return Errors(int(found.size), off.median, off.p75, off.p90, float(np.median(found)))


def by(rows: Sequence[Scored], key: Callable[[Scored], str]) -> dict[str, list[Scored]]:
    """Unsaturated rows by a name, names in order."""
    found: dict[str, list[Scored]] = {}
    for row in rows:
        if not row.saturated:
            found.setdefault(key(row), []).append(row)
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Noise:
    """Rows with equal inputs: how far they lie from each other, as |a / b - 1| of neighbours in size."""

    pairs: int
    identical: int
    tpot_median: float
    tpot_p90: float
    ttft_median: float
    ttft_p90: float


def noise(cases: Iterable[Case]) -> Noise | None:
    """Scatter of repeated runs; pairs that are equal to four digits are the same run imported twice and left out."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        if case.row.ttft_s < SATURATED_S:
            groups.setdefault(case.key, []).append(case)
    tpot, ttft, identical = [], [], 0
    for same in groups.values():
        for one, other in pairwise(same):
            a, b = abs(other.row.tpot_s / one.row.tpot_s - 1.0), abs(other.row.ttft_s / one.row.ttft_s - 1.0)
            if a < 1e-4 and b < 1e-4:
                identical += 1
                continue
            tpot.append(a)
            ttft.append(b)
    if not tpot:
        return None
    of_tpot, of_ttft = missed(tpot), missed(ttft)
    return Noise(len(tpot), identical, of_tpot.median, of_tpot.p90, of_ttft.median, of_ttft.p90)
