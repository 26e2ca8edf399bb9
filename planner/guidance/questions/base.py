"""What a question is: a title, why it is asked, and how its answer is computed with the one planner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from planner.result import Result
from planner.scenario import Scenario

Planner = Callable[[Scenario], Result]
"""``planner.plan`` without ranges, or a cache before it."""


@dataclass(frozen=True)
class Option:
    """One scenario of an answer, with its result and what stands beside it in the table."""

    name: str
    result: Result
    small: str = ""

    @property
    def scenario(self) -> Scenario:
        return self.result.scenario


@dataclass(frozen=True)
class Answer:
    """``sentence`` says it in one breath; ``details`` why; ``chosen`` is the option to open, by its place."""

    sentence: str
    details: tuple[str, ...]
    options: tuple[Option, ...]
    chosen: int
    rests_on: str = field(default="")


@dataclass(frozen=True)
class Question:
    """``solve`` takes a planner and returns the answer; it plans a handful of scenarios."""

    id: str
    title: str
    why: str
    solve: Callable[[Planner], Answer]


def rate(result: Result) -> float:
    """Output tokens/s of the system; 0 for a plan that does not fit."""
    return result.headline.tokens_per_s_system or 0.0


def capex_usd(result: Result) -> float | None:
    """Price of the bill of materials, USD; None where it is not known."""
    return result.cost.capex_usd if result.cost is not None else None
