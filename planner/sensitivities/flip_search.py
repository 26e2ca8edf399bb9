"""The search for flip points: which assumptions and sides could change the choice, where on a grid, and how closely.

Each value is a plan of each option; a scenario that was planned already is not planned again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.fields import ScenarioError
from planner.scenario import Scenario
from planner.sensitivities import scan
from planner.sensitivities.inputs import Input, Inputs
from planner.sweep.executors.base import Cancelled, Executor
from planner.sweep.metrics import Metric
from planner.sweep.outcome import Outcome
from planner.sweep.run import NOT_RUN, run_many
from planner.words.formats import trimmed

SAME = 1e-9
FACTOR = "times"
NEAR = 0.25  # share of its lead that an option must lose at some value looked at first
NO_ANSWER = ("refused", "failed", "not run")


@dataclass(frozen=True)
class Varied:
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
class Side:
    """An assumption on one side of today's value: where it is looked at, nearest first; never empty."""

    varied: Varied
    values: tuple[float, ...]


@dataclass(frozen=True)
class Bracket:
    varied: Varied
    same: float
    other: float
    option: int | None


class Search:
    def __init__(self, options: Sequence[Inputs], one: Metric, executor: Executor | None, cancelled: Cancelled) -> None:
        self.options, self.metric, self.executor, self.cancelled = options, one, executor, cancelled
        self._known: dict[str, Outcome] = {}  # by content hash: values are looked at again when a bracket narrows

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

    def outcomes(self, asked: Sequence[tuple[Varied, float]]) -> list[list[Outcome]]:
        """The options' outcomes with each assumption at each value, all planned in one go; none where it clashes."""
        scenarios, sizes = [], []
        for varied, value in asked:
            try:
                changed = varied.apply(self.options, value)
            except ScenarioError:  # the value clashes with another field of an option
                changed = []
            scenarios += changed
            sizes.append(len(changed))
        told = self.planned(scenarios)
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        return [told[start : start + size] for start, size in zip(starts, sizes, strict=True)]

    def winners(self, asked: Sequence[tuple[Varied, float]], today: int | None) -> list[int | None]:
        """The recommended option at each value; today's where the value is refused, which is no change of mind."""
        return [
            today if not told or any(one.status in NO_ANSWER for one in told) else self.best(told, today)
            for told in self.outcomes(asked)
        ]

    def planned(self, scenarios: Sequence[Scenario]) -> list[Outcome]:
        """The outcomes of scenarios in their order; those known already are not planned again."""
        keys = [one.content_hash() for one in scenarios]
        new = {key: one for key, one in zip(keys, scenarios, strict=True) if key not in self._known}
        told = zip(new, run_many(list(new.values()), self.executor, self.cancelled), strict=True)
        self._known |= {key: outcome for key, outcome in told if outcome.status != "not run"}
        return [self._known.get(key, NOT_RUN) for key in keys]

    def moving(self, sides: Sequence[Side], today: Sequence[Outcome]) -> list[Side]:
        """The sides of assumptions that could change the choice, looked at at a few values: those that change what
        fits, or the lead of the recommended option by more than a quarter of it."""
        asked = [
            (side, value)
            for side in sides
            for value in dict.fromkeys(side.values[min(step, len(side.values)) - 1] for step in scan.FIRST)
        ]
        told = self.outcomes([(side.varied, value) for side, value in asked])
        moved = {id(side) for (side, _), now in zip(asked, told, strict=True) if self._differ(now, today)}
        return [side for side in sides if id(side) in moved]

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

    def brackets(self, sides: Sequence[Side], today: int | None) -> list[Bracket]:
        """The first change of the recommended option on each of these sides: what lies beyond one that is known
        already is not looked at."""
        now = [replace(side, values=side.values[: self._known_change(side, today)]) for side in sides]
        winners = self.winners([(side.varied, value) for side in now for value in side.values], today)
        found, start = [], 0
        for side in now:
            told = winners[start : start + len(side.values)]
            start += len(side.values)
            before = side.varied.given.value
            for value, winner in zip(side.values, told, strict=True):
                if winner != today:
                    found.append(Bracket(side.varied, before, value, winner))
                    break
                before = value
        return found

    def _known_change(self, side: Side, today: int | None) -> int:
        """How many values of a side are enough: up to the nearest of those looked at first that changes the choice."""
        first = [min(step, len(side.values)) for step in scan.FIRST]
        winners = self.winners([(side.varied, side.values[step - 1]) for step in first], today)
        return next((step for step, winner in zip(first, winners, strict=True) if winner != today), len(side.values))

    def halved(self, brackets: Sequence[Bracket], today: int | None) -> list[Bracket]:
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
