"""Flip points: the value of an assumption at which another of the given options becomes the one to recommend.

Each assumption is set in all options at once and looked at on a grid over its bounds on both sides of today's value, so
that a flip and its reversal are both seen; the first change on each side is then halved to 0.01 %. Where the options
have different values of a figure (two GPUs, say), all are scaled by one factor. Every value is a plan of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from planner.errors import PlanError
from planner.result import Record
from planner.scenario import Scenario
from planner.sensitivities import scan
from planner.sensitivities.flip_search import Bracket, Search, Side, Varied
from planner.sensitivities.inputs import Inputs, whole_path
from planner.sweep.executors.base import Cancelled, Executor
from planner.sweep.metrics import Metric, metric
from planner.words.formats import uncapital

OBJECTIVE = "usd_per_million_output_tokens"
MOST_OPTIONS = 8


class Flip(Record):
    """One assumption on one side of today's value: where the recommended option changes, or that it does not."""

    path: str
    label: str
    unit: str
    relative: bool = False
    today: float
    side: Literal["above", "below"] | None = None
    at: float | None = None
    same_until: float | None = None
    option: int | None = None
    option_name: str = ""
    searched: tuple[float, float]
    sentence: str


class FlipReport(Record):
    """What is recommended today, the flips by how near they are, and the assumptions within whose bounds none is."""

    objective: str
    names: tuple[str, ...]
    recommended: int | None
    sentence: str
    flips: tuple[Flip, ...]
    steady: tuple[Flip, ...]


def flip_points(
    options: Sequence[Scenario],
    objective: str = OBJECTIVE,
    paths: Iterable[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    executor: Executor | None = None,
    cancelled: Cancelled = lambda: False,
) -> FlipReport:
    """Flip points between 2 to 8 options on a metric of :data:`planner.sweep.METRICS`.

    Recommended is the option that is best on the objective among those that fit and meet the targets of their scenario.
    ``paths``: assumptions, by default those of all options (see :func:`planner.sensitivities.inputs`).
    Raises PlanError.
    """
    if not 2 <= len(options) <= MOST_OPTIONS:
        raise PlanError(f"{len(options)} options are given; flip points lie between 2 to {MOST_OPTIONS} of them.")
    one = metric(objective)
    called = tuple(names) if names is not None else tuple(f"option {place + 1}" for place in range(len(options)))
    known = [Inputs(option) for option in options]
    search = Search(known, one, executor, cancelled)
    outcomes = search.planned(options)
    today = search.best(outcomes, None)
    varied = [_varied(known, path) for path in _paths(known, paths)]
    narrow = search.halved(search.brackets(search.moving(_sides(varied), outcomes), today), today)
    flips = [_flip(bracket, called, today) for bracket in narrow]
    flipped = {bracket.varied.given.path for bracket in narrow}
    steady = [_steady(one_) for one_ in varied if one_.given.path not in flipped]
    return FlipReport(
        objective=objective,
        names=called,
        recommended=today,
        sentence=_sentence(one, called, today, flips),
        flips=tuple(sorted(flips, key=_distance)),
        steady=tuple(steady),
    )


def _paths(known: Sequence[Inputs], paths: Iterable[str] | None) -> list[str]:
    if paths is not None:
        asked = list(paths)
        holders = [one for one in known if all(one.get(whole_path(path)) is not None for path in asked)]
        return [one.path for one in (holders or known)[0].chosen(asked)]
    return list(dict.fromkeys(one.path for option in known for one in option.chosen()))


def _varied(known: Sequence[Inputs], path: str) -> Varied:
    own = tuple(one.used(path) for one in known)
    given = next(found for one in known if (found := one.get(path)) is not None)
    values = {value for value in own if value is not None}
    if len(values) <= 1:
        return Varied(replace(given, value=next(iter(values), given.value)), own, relative=False)
    most, least = max(values), min(values)
    # As a factor: bounds such that every option's own value stays within the field's.
    low = given.low / least if least > 0 and given.low > 0 else 0.0
    high = given.high / most if most > 0 else given.high
    return Varied(replace(given, value=1.0, whole=False, low=low, high=max(high, 1.0)), own, relative=True)


def _sides(varied: Iterable[Varied]) -> list[Side]:
    ends = ((one, scan.side(one.given, end)) for one in varied for end in scan.limits(one.given))
    return [Side(one, values) for one, values in ends if values]


def _flip(bracket: Bracket, names: Sequence[str], today: int | None) -> Flip:
    varied, given = bracket.varied, bracket.varied.given
    side: Literal["above", "below"] = "above" if bracket.other > given.value else "below"
    other = "none of the options" if bracket.option is None else names[bracket.option]
    return Flip(
        path=given.path, label=given.label, unit=given.unit, relative=varied.relative, today=given.value, side=side,
        at=bracket.other, same_until=bracket.same, option=bracket.option, option_name=other,
        searched=scan.limits(given),
        sentence=f"{given.label} {side} {varied.shown(bracket.other)}: {other}",
    )  # fmt: skip


def _steady(varied: Varied) -> Flip:
    given = varied.given
    low, high = scan.limits(given)
    return Flip(
        path=given.path, label=given.label, unit=given.unit, relative=varied.relative, today=given.value,
        searched=(low, high),
        sentence=f"{given.label}: none within bounds ({varied.shown(low)} to {varied.shown(high)})",
    )  # fmt: skip


def _distance(flip: Flip) -> float:
    """How far today's value is from the flip: the ratio of both, or the step where there is none."""
    at = flip.at or 0.0
    if at > 0 and flip.today > 0:
        return max(at / flip.today, flip.today / at)
    return 1.0 + abs(at - flip.today)


def _sentence(one: Metric, names: Sequence[str], today: int | None, flips: Sequence[Flip]) -> str:
    if today is None:
        return "None of the options fits and meets its targets, so there is none to recommend today."
    text = f"On {one.name}, {names[today]} is the option to take today"
    if not flips:
        return f"{text}; no assumption changes that within its bounds."
    nearest = min(flips, key=_distance)
    return f"{text}; what changes that first is {uncapital(nearest.sentence)}."
