"""A person's calibration: a few runs on their machine, held towards the shipped figures, judged on runs left out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from validation.measured.fit import Linear, Sample, fit, log_rate, solve
from validation.measured.reading import Line
from validation.measured.report import UNLIKELY, doubt, row_of
from validation.measured.runs import Run
from validation.measured.ship import samples as samples_of

SCATTER = 0.1
"""Runs of one machine scatter less than machines among each other: same flags 0.5 %, other flags 4 % in the median."""
FOLDS = 5
LEAST = 3
MOST = 2000
MOST_REASONS = 3


@dataclass(frozen=True)
class Own:
    """A calibration of one machine, and what it does to runs that it was not fitted on (median of ``|ln|`` errors)."""

    calibration: Calibration
    rows: int
    before: float
    after: float
    held_out_before: float
    held_out_after: float
    machines: int = 1

    @property
    def mixture(self) -> str:
        """What runs of several machines or engines mean for the calibration; empty for those of one."""
        if self.machines < 2:
            return ""
        return (
            f"The runs are of {self.machines} machines or engines, and one set of figures is fitted to all of them; "
            "a table of one machine's runs says more about that machine."
        )

    @property
    def helps(self) -> bool:
        return self.held_out_after <= self.held_out_before


def from_lines(
    lines: Sequence[Line], name: str, source: str, progress: Callable[[], None] = lambda: None
) -> tuple[Own, tuple[tuple[str, str], ...]]:
    """The calibration of a table of runs, and (id, reason) of each line that it could not use. Raises PlanError."""
    found = samples_of(lines)
    used = {sample.run.id for sample in found}
    why = {line.id: line.problem or _why_not(line) for line in lines if line.run is None or line.run.id not in used}
    try:
        why |= _not_fitted(found)
        usable = [sample for sample in found if sample.run.id not in why]
        unusable = tuple((line.id, why[line.id]) for line in lines if line.id in why)
        if len(usable) < LEAST:
            raise PlanError(_too_few(len(usable), source) + _reasons(unusable))
        return calibrated(usable, name, source, progress), unusable
    except (HardwareError, ModelError, RoutingError) as error:
        raise PlanError(str(error)) from None


def _not_fitted(found: Sequence[Sample]) -> dict[str, str]:
    """Runs that a fit may not see: told twice, they would judge themselves; in another unit, they would bend all."""
    why: dict[str, str] = {}
    first: dict[Run, str] = {}
    for sample in found if len(found) <= MOST else ():
        run = sample.run
        earlier = first.setdefault(replace(run, id=""), run.id)
        if earlier != run.id:
            why[run.id] = f"the same run as {earlier}, with the same rate"
            continue
        assert run.tokens_per_s
        predicted = math.exp(log_rate(sample, {}))
        if not 1 / UNLIKELY < run.tokens_per_s / predicted < UNLIKELY:
            why[run.id] = doubt(run.tokens_per_s, predicted)
    return why


def _too_few(count: int, source: str) -> str:
    runs = "1 run" if count == 1 else f"{count:,} runs"
    return f"{source} has {runs} that can be used; a calibration takes {LEAST} to {MOST:,}."


def _reasons(unusable: Sequence[tuple[str, str]]) -> str:
    """Why runs were not used: each reason once, with the first run that it is of."""
    first = {re.sub(r"^line \d+: ", "", why): ident for ident, why in reversed(unusable)}
    told = [f"{ident}: {why.rstrip('.')}" for why, ident in reversed(first.items())]
    others = len(told) - MOST_REASONS
    more = f"; and {others} more" if others > 0 else ""
    return f" Not used: {'; '.join(told[:MOST_REASONS])}{more}." if told else ""


def _why_not(line: Line) -> str:
    if line.run is not None and not line.run.tokens_per_s:
        return "no tokens_per_s"
    return row_of(line).reason or "marked as not usable"


def calibrated(samples: Sequence[Sample], name: str, source: str, progress: Callable[[], None] = lambda: None) -> Own:
    """Fit a person's runs, held towards the shipped figures of their engine family. Raises PlanError for too few."""
    if not LEAST <= len(samples) <= MOST:
        raise PlanError(_too_few(len(samples), source))
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
    machines = len({(s.scenario.system.model_dump_json(), s.family) for s in samples})
    return Own(record, len(samples), _median(start), _median(fitted_now), _median(start), _median(out), machines)


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
