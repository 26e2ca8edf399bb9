"""Coefficients by engine from served runs, every architecture held out in turn.

For distinct cases i with residuals ``r_i = ln(predicted / measured)`` of TPOT and TTFT and x = ln(figures)::

    minimise  sum_i w_i (rho(r_i^TPOT / 0.15) + rho(r_i^TTFT / 0.35)) + sum_j ((x_j - x0_j) / s_j)^2

rho is Cauchy's loss: a whole group of runs that went wrong (an engine version without tuned kernels) is left behind
instead of averaged in. ``w_i = n_g^-1 sqrt(mean n)`` gives each pair of architecture and engine the same say. x0 are
the catalog's defaults, s_j half of the log of their published range. The generic figures are fitted on all engines,
then each engine's own ones, held towards them. Predictions are linear in x between two evaluations (Gauss-Newton).
What an architecture is judged with has never seen a run of it: neither the generic fit nor the engine's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.closed_loop import PassTimes, pass_times, play
from planner.evaluate import evaluate
from validation.held import Vector, held_least_squares
from validation.silicon.mapping import SATURATED_S, Case, UnmappableError
from validation.silicon.predict import running

SCALE_TPOT, SCALE_TTFT = 0.15, 0.35
STEP = 0.1
ROUNDS = 2
REQUEST, HOST = "gpu.request_overhead_s", "gpu.kernel_launch_eager_s"


@dataclass(frozen=True)
class Fittable:
    """A figure, where its fit starts, the standard deviation of its log, and its upper limit."""

    path: str
    start: float
    spread: float
    high: float
    own: bool = False  # differs between engines; the others are generic


FITTED: Final[tuple[Fittable, ...]] = (
    # Catalog value; half of ln(high / low) of its published range.
    Fittable("gpu.layer_launch_s", 3e-5, 0.55, 3e-3),
    Fittable("gpu.layer_launch_tp_s", 2.5e-5, 0.7, 2e-3),
    Fittable("gpu.bandwidth_efficiency", 0.74, 0.2, 0.95),
    Fittable("gpu.kv_bandwidth_efficiency", 0.4, 0.5, 0.95),
    Fittable("gpu.compute_efficiency_max", 0.48, 0.33, 0.9),
    Fittable("scaleup.efficiency", 0.75, 0.25, 0.95),
    Fittable("gpu.overlap", 0.6, 0.5, 1.0),
    # No value in the catalog: order of magnitude, and loosely held.
    Fittable("gpu.step_overhead_s", 1e-3, 0.7, 0.1),
    Fittable("gpu.sequence_overhead_s", 1e-5, 0.7, 1e-3),
    Fittable("gpu.kernel_launch_s", 2e-6, 0.7, 1e-4),
    Fittable(HOST, 8e-4 / 13, 0.7, 5e-3, own=True),  # the catalog's eager layer, by its 13 kernels
    Fittable(REQUEST, 0.03, 1.0, 10.0, own=True),
)
PATHS: Final = tuple(f.path for f in FITTED)
START: Final[Mapping[str, float]] = {f.path: f.start for f in FITTED}
_SPREAD, _HIGH = np.array([f.spread for f in FITTED]), np.log([f.high for f in FITTED])
_OWN = np.array([f.own for f in FITTED])


@dataclass(frozen=True)
class Sample:
    """All rows with equal inputs: one observation, at their geometric mean."""

    case: Case
    ttft_s: float
    tpot_s: float
    rows: int

    @property
    def group(self) -> str:
        return f"{self.case.architecture} {self.case.engine}"


def samples(cases: Iterable[Case], saturated_s: float = SATURATED_S) -> tuple[Sample, ...]:
    """Distinct cases with what was measured, saturated rows left out."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        if case.row.ttft_s < saturated_s:
            found.setdefault(case.key, []).append(case)
    return tuple(
        Sample(same[0], _mean([c.row.ttft_s for c in same]), _mean([c.row.tpot_s for c in same]), len(same))
        for same in found.values()
    )


def _mean(values: Sequence[float]) -> float:
    return math.exp(float(np.mean(np.log(values))))


@dataclass(frozen=True)
class Linear:
    """ln(TTFT) and ln(TPOT) of each sample around a point, and their derivatives by ln(figure)."""

    at: Vector  # [figures]
    value: Vector  # [samples, 2]
    jacobian: Vector  # [samples, figures, 2]

    def predicted(self, x: Vector, rows: NDArray[np.intp]) -> Vector:
        moved: Vector = self.value[rows] + np.einsum("rfk,f->rk", self.jacobian[rows], x - self.at)
        return moved


def linearised_one(sample: Sample, x: Vector) -> tuple[Vector, Vector]:
    """Value [2] and derivative [figures, 2] of one sample at x."""
    figures = dict(zip(PATHS, np.exp(x).tolist(), strict=True))
    scenario, clients, slots = running(sample.case.scenario, sample.case.clients)
    if scenario.policy.engine is not None:
        scenario = scenario.model_copy(update={"policy": scenario.policy.model_copy(update={"engine": None})})
    clients = replace(clients, slots=slots)

    def passes(changed: Mapping[str, float]) -> PassTimes:
        found = evaluate(scenario, changed, quick=True)
        if found.serving is None:
            raise UnmappableError("; ".join(found.reasons))
        return pass_times(found)

    def log(times: PassTimes) -> Vector:
        served = play(times, clients)
        return np.log([served.ttft_s, max(served.tpot_s, 1e-9)])

    times = passes(figures)
    value = log(times)
    slopes = np.zeros((len(PATHS), 2))
    for j, path in enumerate(PATHS):
        less = math.exp(-STEP)
        if path == REQUEST:
            changed = replace(times, request_s=times.request_s * less)
        elif path == HOST:
            changed = replace(times, prefill_least_s=times.prefill_least_s * less)
        else:
            changed = passes({**figures, path: figures[path] * less})
        slopes[j] = (value - log(changed)) / STEP
    return value, slopes


def solve(
    linear: Linear,
    known: Sequence[Sample],
    rows: NDArray[np.intp],
    prior: Vector,
    free: NDArray[np.bool_] | None = None,
) -> Vector:
    """Figures (ln) that minimise the objective on some samples."""
    if not len(rows):
        return prior
    measured = np.log([[known[i].ttft_s, known[i].tpot_s] for i in rows])
    _, index, count = np.unique([known[i].group for i in rows], return_inverse=True, return_counts=True)
    weight = np.sqrt(np.sqrt(count.mean()) / count[index])
    spread = _SPREAD if free is None else np.where(free, _SPREAD, 1e-4)

    def residuals(x: Vector) -> Vector:
        r = linear.predicted(x, rows) - measured
        return np.concatenate(
            [
                weight * np.sqrt(np.log1p((r[:, 1] / SCALE_TPOT) ** 2)),
                weight * np.sqrt(np.log1p((r[:, 0] / SCALE_TTFT) ** 2)),
            ]
        )

    start = np.minimum(prior, _HIGH - 1e-6)
    return held_least_squares(residuals, start, prior, spread, np.full_like(_HIGH, -np.inf), _HIGH)


@dataclass(frozen=True)
class Fitted:
    """Figures by engine, generic ones under an empty name, and by what was left out ("" = nothing)."""

    figures: Mapping[tuple[str, str], Mapping[str, float]]  # (held out, engine) -> path -> value

    def of(self, held_out: str, engine: str) -> Mapping[str, float]:
        return self.figures.get((held_out, engine), self.figures[held_out, ""])


def fit(
    known: Sequence[Sample],
    linearise: Callable[[Sequence[Sample], Vector], Linear],
    rounds: int = ROUNDS,
) -> Fitted:
    """Fit all, and all but each architecture. ``linearise`` evaluates the samples at a point (in processes, or not)."""
    prior = np.log([f.start for f in FITTED])
    everyone = np.arange(len(known))
    x = prior
    linear = linearise(known, x)
    for _ in range(rounds - 1):
        x = solve(linear, known, everyone, prior)
        linear = linearise(known, x)
    found: dict[tuple[str, str], Mapping[str, float]] = {}
    architectures, engines = [s.case.architecture for s in known], [s.case.engine for s in known]
    for left in ("", *sorted(set(architectures))):
        inside = np.array([a != left for a in architectures])
        generic = solve(linear, known, everyone[inside], prior)
        found[left, ""] = _named(generic)
        for engine in sorted(set(engines)):
            rows = everyone[inside & np.array([e == engine for e in engines])]
            found[left, engine] = _named(solve(linear, known, rows, generic, _OWN))
    return Fitted(found)


def _named(x: Vector) -> dict[str, float]:
    return {path: float(f"{value:.4g}") for path, value in zip(PATHS, np.exp(x).tolist(), strict=True)}


def stacked(pairs: Sequence[tuple[Vector, Vector]], x: Vector) -> Linear:
    return Linear(x, np.array([v for v, _ in pairs]), np.array([j for _, j in pairs]))
