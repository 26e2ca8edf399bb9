"""Measured runs nearest to a case, by the ratios of their shapes, and whether a plan contradicts one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from planner.accuracy import residuals, spread
from planner.accuracy_case import relevant
from planner.measured_runs import MeasuredRun, measured_runs
from planner.result import Neighbour

MOST = 3
WITHIN = math.log(2.5)
"""Farther than this (root mean square over the quantities) a run says nothing about the case."""

ALIKE = math.log(1.25)
"""A run is very similar where no quantity of its shape differs by more than this."""
BAND = 0.95


def distance(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Root mean square of ln(a / b) over the quantities that both have; infinite without any."""
    shared = [name for name in a if name in b and a[name] > 0 and b[name] > 0]
    if not shared:
        return math.inf
    return math.sqrt(sum(math.log(a[name] / b[name]) ** 2 for name in shared) / len(shared))


def nearest_runs(case: Mapping[str, float], regime: str, most: int = MOST) -> tuple[Neighbour, ...]:
    """The nearest measured runs of the regime, nearest first, one for each machine; those too far are left out."""
    found: dict[str, tuple[float, MeasuredRun]] = {}
    for run in measured_runs():
        if run.regime != regime:
            continue
        far = distance(relevant(case, run.phase), relevant(run.shape, run.phase))
        if far <= WITHIN and (run.group not in found or far < found[run.group][0]):
            found[run.group] = (far, run)
    chosen = sorted(found.values(), key=lambda item: (item[0], item[1].id))[:most]
    return tuple(
        Neighbour(
            id=run.id,
            label=run.label,
            distance=far,
            measured_tokens_per_s=run.measured_tokens_per_s,
            predicted_tokens_per_s=run.predicted_tokens_per_s,
            per=run.per,
            phase=run.phase,
        )
        for far, run in chosen
    )


def apart(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Largest ln of a ratio over all quantities; infinite unless both have the same ones."""
    if a.keys() != b.keys() or not a or min(*a.values(), *b.values()) <= 0:
        return math.inf
    return max(abs(math.log(a[name] / b[name])) for name in a)


def contradictions(
    case: Mapping[str, float], regime: str, engine: str | None, rates: Mapping[tuple[str, str], float]
) -> tuple[str, ...]:
    """A sentence for each phase whose rate is far from that of the most similar measured run.

    ``rates`` maps (phase, unit as in the data) to the plan's own figure, tokens/s. Far is outside the 95 % band of what
    other machines' runs of the kind missed, widened by the factor that the shapes differ by.
    """
    found: dict[str, tuple[tuple[float, bool], str]] = {}
    for run in measured_runs():
        value = rates.get((run.phase, run.per))
        if run.regime != regime or not value:
            continue
        far = apart(relevant(case, run.phase), relevant(run.shape, run.phase))
        rank = far, run.family != engine  # of runs as similar, the one on the plan's own engine
        if far > ALIKE or rank >= found.get(run.phase, ((math.inf, True), ""))[0]:
            continue
        # Another engine than the plan's may differ by as much as engines do.
        family = engine if engine == run.family else None
        others = [r for r in residuals() if r.group != run.group]
        around = spread(regime, run.phase, family, among=others, coverage=BAND)
        if around is None:
            continue
        low, high = value * around.low * math.exp(-far), value * around.high * math.exp(far)
        measured = run.measured_tokens_per_s
        text = ""
        if not low <= measured <= high:
            text = (
                f"This plan says {_plain(value)} {run.per.split(',')[0]} in {run.phase}; a very similar run "
                f"measured {_plain(measured)} ({run.label}, {run.id}), outside the 95 % band ({_plain(low)} to "
                f"{_plain(high)}): check both before relying on it."
            )
        found[run.phase] = (rank, text)
    return tuple(text for _, text in found.values() if text)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
