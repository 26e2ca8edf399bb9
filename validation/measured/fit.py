"""Fit of coefficients on measured runs: robust, by engine family, held towards the generic values.

For runs i of a family and figures j, with x = ln(figure), r_i(x) = ln(predicted / measured):

    minimise  sum_i w_i rho(r_i(x) / S) + sum_j ((x_j - x0_j) / s_j)^2

rho is the soft-L1 loss, S what runs of one machine scatter by, w_i = n_g^(-1/2) so that a machine with many runs counts
for more than one with few, but not in proportion. The generic coefficients are fitted first on all families, held
towards the catalog; each family's own are then held towards the generic ones. Predictions are evaluated by the engine;
between two evaluations they are taken as linear in x (Gauss-Newton), and the fit ends when they hardly move.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.context import resolve
from planner.evaluate import evaluate
from planner.scenario import Scenario
from planner.serving import serve, time_prefill
from planner.step import time_pass
from validation.held import Vector, held_least_squares
from validation.measured.coefficients import Fittable
from validation.measured.families import stated
from validation.measured.predict import in_unit
from validation.measured.runs import Run

SCATTER = 0.2
"""S: runs of one machine and engine scatter by about this (two engines on one machine: 25 % median)."""
STEP = 0.08
ROUNDS = 3
SERVED = ("ttft_s", "tpot_s", "tokens_per_s_system", "tokens_per_s_end_to_end", "prefill_tokens_per_s")


@dataclass(frozen=True)
class Sample:
    """A run that a fit uses: its scenario, and the group of runs that are held out together."""

    run: Run
    scenario: Scenario
    regime: str
    family: str
    group: str

    @property
    def log_measured(self) -> float:
        assert self.run.tokens_per_s
        return math.log(self.run.tokens_per_s)


def log_rate(sample: Sample, figures: Mapping[str, float]) -> float:
    """ln of the predicted tokens/s of a run, in its own unit, with these figures."""
    scenario = sample.scenario
    if scenario.policy.engine is not None:
        scenario = scenario.model_copy(update={"policy": scenario.policy.model_copy(update={"engine": None})})
    found = evaluate(scenario, {**figures, **stated(sample.family, sample.regime)}, quick=True)
    assert found.prefill is not None
    return math.log(in_unit(sample.run, found.figures(), found.prefill.alone_s, scenario.workload))


class Timed:
    """A run evaluated again and again with other figures: placement and routing stay, only its own phase is timed.

    For derivatives and steps of a fit alone; what is reported comes from :func:`log_rate`.
    """

    def __init__(self, sample: Sample, figures: Mapping[str, float]) -> None:
        self._sample, self._fixed = sample, stated(sample.family, sample.regime)
        policy = sample.scenario.policy.model_copy(update={"engine": None})
        self._scenario = sample.scenario.model_copy(update={"policy": policy})
        self._start = evaluate(self._scenario, {**figures, **self._fixed}, quick=True)

    def log_rate(self, figures: Mapping[str, float]) -> float:
        """ln of the predicted tokens/s with these figures."""
        old, phase = self._start, self._sample.run.phase
        ready, placed, routing, decode, prefill = old.ready, old.placed, old.routing, old.decode, old.prefill
        assert ready and placed and routing and decode and prefill
        ctx = replace(resolve(self._scenario, {**figures, **self._fixed}), chunk_tokens=old.ctx.chunk_tokens)
        if phase != "prefill":
            work = old.policy.decode(ctx, ready, placed, routing)
            decode = time_pass(work, ctx.machine, ctx.accepted_per_pass)
        if phase != "decode":
            prefill = time_prefill(ctx, old.policy, ready, placed, routing)
        s = serve(ctx, ready, decode, prefill)
        rates = {name: getattr(s, name) for name in SERVED}
        return math.log(in_unit(self._sample.run, rates, prefill.alone_s, self._scenario.workload))


@dataclass(frozen=True)
class Linear:
    """Predictions around a point: ln(rate) and its derivative by ln(figure)."""

    paths: tuple[str, ...]
    at: Vector  # [figures], ln
    log_rates: Vector  # [samples]
    jacobian: Vector  # [samples, figures]

    def residuals(self, x: Vector, log_measured: Vector) -> Vector:
        return self.log_rates + self.jacobian @ (x - self.at) - log_measured


_TIMED: dict[str, Timed] = {}
"""Runs that this process has placed, by id and policy; each worker of a fit keeps its own."""


def _timed_row(sample: Sample, figures: dict[str, float], fittable: Sequence[Fittable], slopes: bool) -> list[float]:
    """ln(rate) of a sample, and if asked its derivative by each figure."""
    key = f"{sample.run.id} {sample.scenario.canonical_json()}"
    if key not in _TIMED:
        _TIMED[key] = Timed(sample, figures)
    timed = _TIMED[key]
    found = [timed.log_rate(figures)]
    for f in fittable if slopes else ():
        moved = {**figures, f.path: figures[f.path] * math.exp(-STEP)}
        found.append((found[0] - timed.log_rate(moved)) / STEP if sample.regime in f.regimes else 0.0)
    return found


class Slopes:
    """Evaluates samples and their derivatives, which are computed once: they change little over the length of a fit.

    A fit takes those of its samples where all are known for its figures, else computes them; ``fresh`` computes again.
    With ``workers`` (single processes, so that a sample always meets the one that has placed it) they share the work.
    """

    def __init__(self, workers: Sequence[Executor] = ()) -> None:
        self._workers = workers
        self._rows: dict[tuple[str, tuple[str, ...]], list[float]] = {}

    def linear(
        self,
        samples: Sequence[Sample],
        figures: Mapping[str, float],
        fittable: Sequence[Fittable],
        progress: Callable[[], None],
        fresh: bool = False,
    ) -> Linear:
        """Predictions of all samples at ``figures``, with their derivatives by each fittable figure."""
        paths = tuple(f.path for f in fittable)
        compute = fresh or any((s.run.id, paths) not in self._rows for s in samples)
        work = [(s, dict(figures), fittable, compute) for s in samples]
        if self._workers:
            by_run = [self._workers[zlib.crc32(s.run.id.encode()) % len(self._workers)] for s in samples]
            waiting = [worker.submit(_timed_row, *one) for worker, one in zip(by_run, work, strict=True)]
            answers = (future.result() for future in waiting)
        else:
            answers = (_timed_row(*one) for one in work)
        base = np.empty(len(samples))
        for i, (sample, found) in enumerate(zip(samples, answers, strict=True)):
            base[i] = found[0]
            if compute:
                self._rows[sample.run.id, paths] = found[1:]
            progress()
        slopes = np.array([self._rows[s.run.id, paths] for s in samples]).reshape(len(samples), len(paths))
        return Linear(paths, np.log([figures[p] for p in paths]), base, slopes)


def weights(groups: Sequence[str]) -> Vector:
    """n_g^(-1/2) of each sample's group."""
    _, index, count = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    return np.asarray(1.0 / np.sqrt(count[index]), float)


def solve(
    linear: Linear,
    log_measured: Vector,
    weight: Vector,
    fittable: Sequence[Fittable],
    prior: Vector,
    chosen: NDArray[np.bool_] | None = None,
    scatter: float = SCATTER,
) -> Vector:
    """Figures (ln) that minimise the objective on the chosen samples, predictions linear around ``linear.at``."""
    keep = np.ones(len(log_measured), bool) if chosen is None else chosen
    spread = np.array([f.spread for f in fittable])
    low = np.log([max(f.low, 1e-12) for f in fittable])
    high = np.log([f.high for f in fittable])
    root = np.sqrt(weight[keep])
    part = Linear(linear.paths, linear.at, linear.log_rates[keep], linear.jacobian[keep])
    measured = log_measured[keep]

    def residuals(x: Vector) -> Vector:
        z = part.residuals(x, measured) / scatter
        return root * np.sqrt(2.0 * (np.sqrt(1.0 + z**2) - 1.0))  # soft L1, as a square root

    return held_least_squares(residuals, np.clip(linear.at, low + 1e-9, high - 1e-9), prior, spread, low, high)


def fit(
    samples: Sequence[Sample],
    figures: Mapping[str, float],
    fittable: Sequence[Fittable],
    progress: Callable[[], None] = lambda: None,
    rounds: int = ROUNDS,
    weight: Vector | None = None,
    scatter: float = SCATTER,
    slopes: Slopes | None = None,
) -> tuple[dict[str, float], Linear]:
    """Fitted figures, and the predictions linearised where they were found; ``figures`` are prior and start.

    ``weight`` of each sample, that of its group if left out; ``scatter`` of runs around the model, ln; ``slopes`` known
    from a fit of the same samples before.
    """
    slopes = slopes or Slopes()
    prior = np.log([figures[f.path] for f in fittable])
    measured = np.array([s.log_measured for s in samples])
    weight = weights([s.group for s in samples]) if weight is None else weight
    now = dict(figures)
    linear = slopes.linear(samples, now, fittable, progress)
    for number in range(rounds):
        x = solve(linear, measured, weight, fittable, prior, scatter=scatter)
        moved = float(np.abs(x - linear.at).max(initial=0.0))
        now.update(zip(linear.paths, np.exp(x), strict=True))
        # The first step of a fit from afar is the long one: derivatives are taken once more where it ends.
        linear = slopes.linear(samples, now, fittable, progress, fresh=number == 0 and rounds > 2)
        if moved < 0.03:
            break
    return now, linear
