"""A person's calibration: a few runs on their machine, held towards the shipped figures, judged on runs left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from hardware import HardwareError
from models import ModelError
from planner import ENGINE_VERSION
from planner.calibration import GENERIC, Calibration, Coefficient, calibrated_figures, engines
from planner.context import machine_parts
from planner.errors import PlanError
from planner.routing import RoutingError
from validation.measured.coefficients import Fittable, of_regimes, starts
from validation.measured.fit import Linear, Sample, fit, solve
from validation.measured.reading import Line
from validation.measured.report import row_of
from validation.measured.ship import samples as samples_of

SCATTER = 0.1
"""Runs of one machine scatter less than machines among each other: same flags 0.5 %, other flags 4 % in the median."""
FOLDS = 5
LEAST = 3
MOST = 2000


@dataclass(frozen=True)
class Own:
    """A calibration of one machine, and what it does to runs that it was not fitted on (median of ``|ln|`` errors)."""

    calibration: Calibration
    rows: int
    before: float
    after: float
    held_out_before: float
    held_out_after: float

    @property
    def helps(self) -> bool:
        return self.held_out_after <= self.held_out_before


def from_lines(
    lines: Sequence[Line], name: str, source: str, progress: Callable[[], None] = lambda: None
) -> tuple[Own, tuple[tuple[str, str], ...]]:
    """The calibration of a table of runs, and (id, reason) of each line that it could not use. Raises PlanError."""
    usable = samples_of(lines)
    used = {sample.run.id for sample in usable}
    unusable = tuple(
        (line.id, line.problem or _why_not(line)) for line in lines if line.run is None or line.run.id not in used
    )
    try:
        return calibrated(usable, name, source, progress), unusable
    except (HardwareError, ModelError, RoutingError) as error:
        raise PlanError(str(error)) from None


def _why_not(line: Line) -> str:
    if line.run is not None and not line.run.tokens_per_s:
        return "no tokens_per_s"
    return row_of(line).reason or "marked as not usable"


def calibrated(samples: Sequence[Sample], name: str, source: str, progress: Callable[[], None] = lambda: None) -> Own:
    """Fit a person's runs, held towards the shipped figures of their engine family. Raises PlanError for too few."""
    if not LEAST <= len(samples) <= MOST:
        raise PlanError(
            f"{source} has {len(samples):,} runs that can be predicted; a calibration takes {LEAST} to {MOST:,}."
        )
    figures, fittable = shipped_figures(samples)
    one = np.ones(len(samples))
    found, linear = fit(samples, figures, fittable, progress, rounds=2, weight=one, scatter=SCATTER)
    logs = np.array([s.log_measured for s in samples])
    prior = np.log([figures[f.path] for f in fittable])
    start = linear.log_rates + linear.jacobian @ (prior - linear.at) - logs
    out = _held_out(linear, logs, fittable, prior)
    coefficients = {
        f.path: _coefficient(found[f.path], f, len(samples), len({s.group for s in samples}))
        for f in fittable
        if abs(np.log(found[f.path] / figures[f.path])) > 1e-3
    }
    families = {GENERIC: coefficients}
    families.update({s.family: coefficients for s in samples if s.family in engines()})
    record = Calibration(
        name=name,
        engine_version=ENGINE_VERSION,
        fitted_on=f"{len(samples)} runs from {source}, held towards the shipped calibration",
        date=date.today().isoformat(),
        families=families,
        residuals=[
            {"fold": "all", "rows": len(samples), "median": _median(out), "median_before": _median(start)},
        ],
    )
    fitted_now = linear.log_rates - logs
    return Own(record, len(samples), _median(start), _median(fitted_now), _median(start), _median(out))


def shipped_figures(samples: Sequence[Sample]) -> tuple[dict[str, float], tuple[Fittable, ...]]:
    """Figures that the runs' scenarios have now, and those of them that the runs can tell something about."""
    regimes = {s.regime for s in samples}
    system = machine_parts(samples[0].scenario)
    family = samples[0].family
    shipped = calibrated_figures(None, family if family in engines() else None)
    values = starts({f.path: system.get(f.path) for f in of_regimes(regimes)})
    values.update({path: figure.value for path, figure in shipped.items() if figure.value and path in values})
    # A copy limit that neither the shipped calibration nor the engine has is not made up from a few runs.
    fittable = tuple(f for f in of_regimes(regimes) if f.path in values and (f.home or f.path in shipped))
    return {f.path: values[f.path] for f in fittable}, fittable


def _held_out(
    linear: Linear, logs: NDArray[np.float64], fittable: Sequence[Fittable], prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Residuals of each run, fitted without its fold; runs are dealt out in turn."""
    count = len(logs)
    folds = min(FOLDS, count)
    found = np.empty(count)
    for fold in range(folds):
        left_out = np.arange(count) % folds == fold
        x = solve(linear, logs, np.ones(count), fittable, prior, ~left_out, scatter=SCATTER)
        found[left_out] = linear.residuals(x, logs)[left_out]
    return found


def _coefficient(value: float, f: Fittable, rows: int, groups: int) -> Coefficient:
    wide = float(np.exp(0.25 * f.spread))
    return Coefficient(
        value=float(f"{value:.4g}"),
        low=float(f"{max(value / wide, f.low):.4g}"),
        high=float(f"{min(value * wide, f.high):.4g}"),
        rows=rows,
        groups=groups,
    )


def _median(residuals: NDArray[np.float64]) -> float:
    return round(float(np.median(np.abs(residuals))), 4)
