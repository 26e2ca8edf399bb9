"""How far predictions were from measurements that no coefficient was fitted on: intervals by grouped conformal.

``data/accuracy.json`` holds, for each measured run, ln(measured / predicted) its whole machine left out of the fit.
An interval for a new case takes the runs nearest in kind: same regime, phase and engine family; if these come from
fewer than :data:`LEAST_GROUPS` machines, of all families; then of all phases; then of all regimes. Every machine counts
once however many runs it has, and one more machine is assumed that was as far off as can be on either side
(conformal prediction over groups: Dunn, Wasserman and Ramdas, arXiv 2112.01483), so that the next machine lies inside
with at least the stated probability if it is of the same kind as those measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

DATA = Path(__file__).parent / "data" / "accuracy.json"
COVERAGE = 0.8
LEAST_GROUPS = 5
OUTSIDE = 1.5
"""An interval is wider by this, in ln, outside the range of what was measured."""
Level = Literal["family", "phase", "regime", "all"]


@dataclass(frozen=True)
class Residual:
    """One measured run: what kind it is, and ln(measured / predicted) with its group held out."""

    id: str
    regime: str
    phase: str
    family: str
    group: str
    log_ratio: float
    quality: str = ""  # of the source: A stated hardware, B one inferred item, C a key quantity assumed


@dataclass(frozen=True)
class Missed:
    """How far predictions were off: quantiles of the absolute errors, predicted / measured - 1."""

    median: float
    p75: float
    p90: float


def missed(errors: Sequence[float]) -> Missed:
    """Quantiles of at least one error, signs left aside."""
    size = np.abs(np.asarray(errors, float))
    return Missed(*(float(np.quantile(size, share)) for share in (0.5, 0.75, 0.9)))


@dataclass(frozen=True)
class Spread:
    """Factors that a prediction is multiplied by for the ends of its interval, and what they rest on."""

    low: float
    high: float
    level: Level
    rows: int
    groups: int
    median_error: float

    @property
    def sentence(self) -> str:
        kind = {
            "family": "runs of this kind and engine family",
            "phase": "runs of this kind, engines pooled",
            "regime": "runs of this regime, phases pooled",
            "all": "all measured runs",
        }[self.level]
        return f"{self.rows} {kind} on {self.groups} machines, each predicted without its own machine"


@lru_cache(maxsize=1)
def stored() -> Mapping[str, Any]:
    """The file, read once: ``rows`` (one for each measured run) and ``shapes``."""
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=1)
def residuals() -> tuple[Residual, ...]:
    """Held-out residuals of the shipped calibration."""
    names = Residual.__dataclass_fields__
    return tuple(Residual(**{name: row[name] for name in names}) for row in stored()["rows"])


def spread(
    regime: str,
    phase: str,
    family: str | None,
    *,
    outside: bool = False,
    among: Sequence[Residual] | None = None,
    coverage: float = COVERAGE,
) -> Spread | None:
    """The interval's factors for a case of this kind; None where nothing of the kind was measured at all."""
    rows = residuals() if among is None else among
    levels: tuple[tuple[Level, list[Residual]], ...] = (
        ("family", [r for r in rows if (r.regime, r.phase, r.family) == (regime, phase, family)]),
        ("phase", [r for r in rows if (r.regime, r.phase) == (regime, phase)]),
        ("regime", [r for r in rows if r.regime == regime]),
        ("all", list(rows)),
    )
    for level, chosen in levels:
        groups = {r.group for r in chosen}
        if len(groups) >= LEAST_GROUPS:
            low, high = ends(chosen, coverage)
            wider = OUTSIDE if outside else 1.0
            error = missed([math.expm1(-r.log_ratio) for r in chosen]).median
            return Spread(math.exp(wider * low), math.exp(wider * high), level, len(chosen), len(groups), error)
    return None


def ends(rows: Sequence[Residual], coverage: float = COVERAGE) -> tuple[float, float]:
    """Lower and upper end of ln(measured / predicted), each group with weight one and one group beyond both ends."""
    names = [r.group for r in rows]
    counts = {name: names.count(name) for name in set(names)}
    values = np.array([r.log_ratio for r in rows])
    weight = np.array([1.0 / counts[name] for name in names])
    order = np.argsort(values, kind="stable")
    values, cumulative = values[order], np.cumsum(weight[order])
    groups = len(counts)
    tail = (1.0 - coverage) / 2.0 * (groups + 1) - 0.5  # half of the further group lies below, half above
    low = values[min(int(np.searchsorted(cumulative, max(tail, 0.0), side="right")), len(values) - 1)]
    high = values[min(int(np.searchsorted(cumulative, groups - max(tail, 0.0) - 1e-12)), len(values) - 1)]
    return min(float(low), 0.0), max(float(high), 0.0)
