"""The measured runs that accuracy rests on, one record each: what was measured, and what was predicted without it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from planner.accuracy import stored


@dataclass(frozen=True)
class MeasuredRun:
    """One measured run. ``group`` is its machine or experiment, which no coefficient of the prediction has seen."""

    id: str
    label: str
    regime: str
    phase: str
    family: str
    group: str
    measured_tokens_per_s: float
    log_ratio: float
    per: str
    shape: Mapping[str, float]

    @property
    def predicted_tokens_per_s(self) -> float:
        return self.measured_tokens_per_s * math.exp(-self.log_ratio)

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return math.expm1(-self.log_ratio)


@lru_cache(maxsize=1)
def measured_runs() -> tuple[MeasuredRun, ...]:
    """All of them, in the order of the file."""
    names = MeasuredRun.__dataclass_fields__
    return tuple(MeasuredRun(**{name: row[name] for name in names}) for row in stored()["rows"])
