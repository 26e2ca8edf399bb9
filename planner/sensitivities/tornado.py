"""Tornado: how far each input's own range moves the answer. Read from the ranges of the Result; no second formula."""

from __future__ import annotations

from planner.errors import PlanError, unknown
from planner.result import Assumption, Interval, Record, Result
from planner.sensitivities.inputs import shown
from planner.words.formats import listing, signed_percent, uncapital

KEYS = {"tpot_s": "time per output token", "usd_per_million_output_tokens": "cost of a million output tokens"}
MATTERS = 5e-4


class Bar(Record):
    """One input: what its low and its high end do to the figure, relative to the plan."""

    path: str
    label: str
    unit: str
    value: float
    low: float
    high: float
    at_low: float
    at_high: float
    source: str
    kind: str

    @property
    def size(self) -> float:
        """The larger of both changes."""
        return max(abs(self.at_low), abs(self.at_high))

    @property
    def range_text(self) -> str:
        """The input's range in words."""
        return f"{shown(self.path, self.unit, self.low)} to {shown(self.path, self.unit, self.high)}"


class Tornado(Record):
    """Bars by size, largest first, and the finding in a sentence."""

    key: str
    name: str
    value: float
    bars: tuple[Bar, ...]
    sentence: str


def tornado(result: Result, key: str = "tpot_s") -> Tornado:
    """The tornado of a complete result (``planner.plan`` with ranges) for TPOT or for the cost of output tokens.

    Raises PlanError for another figure, and for a plan that does not fit.
    """
    if key not in KEYS:
        raise PlanError(unknown("The tornado's figure", key, KEYS))
    value = getattr(result.headline, key)
    if value is None:
        raise PlanError("The plan does not fit, so no input moves its figures.")
    found = [bar for one in result.assumptions if (bar := _bar(one, key)) is not None and bar.size > MATTERS]
    bars = tuple(sorted(found, key=lambda bar: -bar.size))
    return Tornado(key=key, name=KEYS[key], value=value, bars=bars, sentence=_sentence(key, bars))


def _bar(one: Assumption, key: str) -> Bar | None:
    moves: Interval | None = one.moves_tpot if key == "tpot_s" else one.moves_cost
    if moves is None or one.low is None or one.high is None or isinstance(one.value, str):
        return None
    return Bar(
        path=one.path, label=one.label, unit=one.unit, value=one.value, low=one.low, high=one.high,
        at_low=moves[0], at_high=moves[1], source=one.source, kind=one.kind,
    )  # fmt: skip


def _sentence(key: str, bars: tuple[Bar, ...]) -> str:
    if not bars:
        return f"No input's range moves the {KEYS[key]}: every figure that it rests on is taken as exact."
    told = [
        f"{uncapital(bar.label)} ({signed_percent(min(bar.at_low, bar.at_high))} to "
        f"{signed_percent(max(bar.at_low, bar.at_high))} %)"
        for bar in bars[:3]
    ]
    return f"The {KEYS[key]} hangs most on {listing(told)}."
