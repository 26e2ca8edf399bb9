"""Flip points: the value of an assumption at which another of the given options becomes the one to recommend.

Each assumption is set in all options at once and looked at on a grid over its bounds on both sides of today's value, so
that a flip and its reversal are both seen; the first change on each side is then halved to 0.01 %. Where the options
have different values of a figure (two GPUs, say), all are scaled by one factor. Every value is a plan of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from planner.errors import PlanError
from planner.fields import ScenarioError
from planner.result import Record
from planner.scenario import Scenario
from planner.sensitivities import scan
from planner.sensitivities.inputs import Input, Inputs, whole_path
from planner.sweep.executors.base import Cancelled, Executor
from planner.sweep.metrics import Metric, metric
from planner.sweep.outcome import Outcome
from planner.sweep.run import run_many
from planner.words.formats import trimmed, uncapital

OBJECTIVE = "usd_per_million_output_tokens"
MOST_OPTIONS = 8
SAME = 1e-9
FACTOR = "times"
NEAR = 0.25  # share of its lead that an option must lose at some value looked at first
NO_ANSWER = ("refused", "failed", "not run")


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


@dataclass(frozen=True)
class _Varied:
    """An assumption over all options: absolute where they share its value, else a factor on each one's own."""

    given: Input
    own: tuple[float | None, ...]
    relative: bool

    def apply(self, known: Sequence[Inputs], value: float) -> list[Scenario]:
        """All options with the assumption at a value; one that does without it stays as it is."""
        return [
            one.scenario if own is None else one.changed(self.given.path, own * value if self.relative else value)
            for one, own in zip(known, self.own, strict=True)
        ]

    def shown(self, value: float) -> str:
        return f"{trimmed(value, 3)} {FACTOR} today's" if self.relative else self.given.shown(value)


@dataclass(frozen=True)
class _Bracket:
    varied: _Varied
    same: float
    other: float
    option: int | None


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
    search = _Search(known, one, executor, cancelled)
    outcomes = run_many(options, executor, cancelled)
    today = search.best(outcomes, None)
    varied = [_varied(known, path) for path in _paths(known, paths)]
    narrow = search.halved(search.brackets(search.moving(varied, outcomes), today), today)
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


class _Search:
    def __init__(self, options: Sequence[Inputs], one: Metric, executor: Executor | None, cancelled: Cancelled) -> None:
        self.options, self.metric, self.executor, self.cancelled = options, one, executor, cancelled

    def best(self, outcomes: Sequence[Outcome], before: int | None) -> int | None:
        """The recommended option; on a tie the one from before stays."""
        scores = {
            place: value if self.metric.more_is_better else -value
            for place, outcome in enumerate(outcomes)
            if outcome.fits
            and outcome.meets_slo is not False
            and (value := outcome.figure(self.metric.key)) is not None
        }
        if not scores:
            return None
        top = max(scores.values())
        if before in scores and scores[before] >= top - SAME * abs(top):
            return before
        return max(scores, key=lambda place: scores[place])

    def outcomes(self, asked: Sequence[tuple[_Varied, float]]) -> list[list[Outcome]]:
        """The options' outcomes with each assumption at each value, all planned in one go; none where it clashes."""
        scenarios, sizes = [], []
        for varied, value in asked:
            try:
                changed = varied.apply(self.options, value)
            except ScenarioError:  # the value clashes with another field of an option
                changed = []
            scenarios += changed
            sizes.append(len(changed))
        told = run_many(scenarios, self.executor, self.cancelled)
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        return [told[start : start + size] for start, size in zip(starts, sizes, strict=True)]

    def winners(self, asked: Sequence[tuple[_Varied, float]], today: int | None) -> list[int | None]:
        """The recommended option at each value; today's where the value is refused, which is no change of mind."""
        return [
            today if not told or any(one.status in NO_ANSWER for one in told) else self.best(told, today)
            for told in self.outcomes(asked)
        ]

    def moving(self, varied: Sequence[_Varied], today: Sequence[Outcome]) -> list[_Varied]:
        """The assumptions that could change the choice, looked at at a few values: those that change what fits, or the
        lead of the recommended option by more than a quarter of it."""
        asked = [
            (one, values[min(step, len(values)) - 1])
            for one in varied
            for end in scan.limits(one.given)
            if (values := scan.side(one.given, end))
            for step in scan.FIRST
        ]
        moved = {
            id(one) for (one, _), told in zip(asked, self.outcomes(asked), strict=True) if self._differ(told, today)
        }
        return [one for one in varied if id(one) in moved]

    def _differ(self, now: Sequence[Outcome], before: Sequence[Outcome]) -> bool:
        if not now:
            return False
        if [(one.status, one.meets_slo) for one in now] != [(one.status, one.meets_slo) for one in before]:
            return True
        best = self.best(before, None)
        if best is None:
            return False  # nothing is recommended, and what is possible stays as it is
        ahead, then = self._leads(before, best), self._leads(now, best)
        return any(then[place] < ahead[place] * (1 - NEAR) for place in ahead)

    def _leads(self, outcomes: Sequence[Outcome], best: int) -> dict[int, float]:
        """By option: logarithm of how far the recommended one is ahead of it."""
        values = {place: value for place, one in enumerate(outcomes) if (value := one.figure(self.metric.key))}
        sign = 1.0 if self.metric.more_is_better else -1.0
        top = values.get(best)
        if not top or top < 0:
            return {}
        return {
            place: sign * math.log(top / value)
            for place, value in values.items()
            if place != best and value > 0 and outcomes[place].meets_slo is not False
        }

    def brackets(self, varied: Sequence[_Varied], today: int | None) -> list[_Bracket]:
        """The first change of the recommended option on each side of each assumption."""
        sides = [(one, scan.side(one.given, end)) for one in varied for end in scan.limits(one.given)]
        winners = self.winners([(one, value) for one, values in sides for value in values], today)
        found, start = [], 0
        for one, values in sides:
            told = winners[start : start + len(values)]
            start += len(values)
            before = one.given.value
            for value, winner in zip(values, told, strict=True):
                if winner != today:
                    found.append(_Bracket(one, before, value, winner))
                    break
                before = value
        return found

    def halved(self, brackets: Sequence[_Bracket], today: int | None) -> list[_Bracket]:
        """The brackets, halved together until each is as narrow as is told."""
        now = list(brackets)
        while not self.cancelled():
            middles = [scan.between(one.varied.given, one.same, one.other) for one in now]
            open_ = [(place, middle) for place, middle in enumerate(middles) if middle is not None]
            if not open_:
                break
            winners = self.winners([(now[place].varied, middle) for place, middle in open_], today)
            for (place, middle), winner in zip(open_, winners, strict=True):
                one = now[place]
                now[place] = replace(one, same=middle) if winner == today else replace(one, other=middle, option=winner)
        return now


def _paths(known: Sequence[Inputs], paths: Iterable[str] | None) -> list[str]:
    if paths is not None:
        asked = list(paths)
        holders = [one for one in known if all(one.get(whole_path(path)) is not None for path in asked)]
        return [one.path for one in (holders or known)[0].chosen(asked)]
    return list(dict.fromkeys(one.path for option in known for one in option.chosen()))


def _varied(known: Sequence[Inputs], path: str) -> _Varied:
    own = tuple(one.used(path) for one in known)
    given = next(found for one in known if (found := one.get(path)) is not None)
    values = {value for value in own if value is not None}
    if len(values) <= 1:
        return _Varied(replace(given, value=next(iter(values), given.value)), own, relative=False)
    most, least = max(values), min(values)
    # As a factor: bounds such that every option's own value stays within the field's.
    low = given.low / least if least > 0 and given.low > 0 else 0.0
    high = given.high / most if most > 0 else given.high
    return _Varied(replace(given, value=1.0, whole=False, low=low, high=max(high, 1.0)), own, relative=True)


def _flip(bracket: _Bracket, names: Sequence[str], today: int | None) -> Flip:
    varied, given = bracket.varied, bracket.varied.given
    side: Literal["above", "below"] = "above" if bracket.other > given.value else "below"
    other = "none of the options" if bracket.option is None else names[bracket.option]
    return Flip(
        path=given.path, label=given.label, unit=given.unit, relative=varied.relative, today=given.value, side=side,
        at=bracket.other, same_until=bracket.same, option=bracket.option, option_name=other,
        searched=scan.limits(given),
        sentence=f"{given.label} {side} {varied.shown(bracket.other)}: {other}",
    )  # fmt: skip


def _steady(varied: _Varied) -> Flip:
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
