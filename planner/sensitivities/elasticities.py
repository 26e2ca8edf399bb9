"""Elasticities: what one per cent more of an input gives, by a central difference of logarithms through the planner.

e = (ln f(v (1 + h)) - ln f(v / (1 + h))) / (2 ln(1 + h)) at h = 1 %; whole numbers move by the larger of 1 and 1 %.
At a bound of the input the difference is one-sided. Local: a kink further away does not show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from planner.errors import PlanError
from planner.result import Record
from planner.scenario import Scenario
from planner.sensitivities.inputs import Input, Inputs
from planner.sweep.executors.base import Cancelled, Executor
from planner.sweep.metrics import metric
from planner.sweep.run import run_many
from planner.words.formats import significant, uncapital

STEP = 0.01
NONE = 1e-4  # below this nothing is said to move


class Elasticity(Record):
    """One input: per cent of change of the figure for one per cent more of it, around the value that it has."""

    path: str
    label: str
    unit: str
    value: float
    low: float
    high: float
    elasticity: float
    sentence: str


class Elasticities(Record):
    """All inputs that move the figure, the strongest first; ``still`` are the paths of those that do not."""

    key: str
    name: str
    value: float
    rows: tuple[Elasticity, ...]
    still: tuple[str, ...]


def elasticities(
    scenario: Scenario,
    key: str = "tokens_per_s_system",
    paths: Iterable[str] | None = None,
    *,
    executor: Executor | None = None,
    cancelled: Cancelled = lambda: False,
) -> Elasticities:
    """Elasticities of one figure (:data:`planner.sweep.METRICS`) to the scenario's inputs, or to these paths.

    Raises PlanError for a figure or a path that is not known, and for a scenario that does not fit.
    """
    one = metric(key)
    known = Inputs(scenario)
    chosen = [given for given in known.chosen(paths) if given.value > 0]
    ends = [_ends(given) for given in chosen]
    asked = [scenario]
    for given, pair in zip(chosen, ends, strict=True):
        asked += [known.changed(given.path, value) for value in pair]
    outcomes = run_many(asked, executor, cancelled)
    base = outcomes[0].figure(key)
    if base is None or base <= 0:
        why = outcomes[0].reason or f"It has no {one.name}."
        raise PlanError(f"This scenario has no {one.name} to vary: {why}")
    rows, still = [], []
    for place, (given, (low, high)) in enumerate(zip(chosen, ends, strict=True)):
        at_low, at_high = outcomes[1 + 2 * place].figure(key), outcomes[2 + 2 * place].figure(key)
        if not at_low or not at_high or high <= low or at_low < 0 or at_high < 0:
            continue
        slope = math.log(at_high / at_low) / math.log(high / low)
        if abs(slope) < NONE:
            still.append(given.path)
            continue
        rows.append(
            Elasticity(
                path=given.path, label=given.label, unit=given.unit, value=given.value, low=low, high=high,
                elasticity=slope, sentence=_sentence(given, slope, one.name),
            )
        )  # fmt: skip
    rows.sort(key=lambda row: -abs(row.elasticity))
    return Elasticities(key=key, name=one.name, value=base, rows=tuple(rows), still=tuple(still))


def _ends(given: Input) -> tuple[float, float]:
    if given.whole:
        step = max(1, round(STEP * given.value))
        return max(given.low, given.value - step, 1), min(given.high, given.value + step)
    return max(given.low, given.value / (1 + STEP)), min(given.high, given.value * (1 + STEP))


def _sentence(given: Input, slope: float, name: str) -> str:
    return f"1 % more {uncapital(given.label)}: {significant(abs(slope), 2)} % {'more' if slope > 0 else 'less'} {name}"
