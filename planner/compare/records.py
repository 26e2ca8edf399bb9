"""What a comparison answers: plain records, exact through JSON."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from planner.result import Interval, Record
from planner.scenario import Scenario

SCHEMA_VERSION: Final = 1


class Step(Record):
    """One named share of a side's decode step or of a memory tier."""

    id: str
    name: str
    value: float
    of: float | None = Field(None, description="capacity of a tier, bytes; None for a part of a step")


class Side(Record):
    """One of the scenarios compared."""

    label: str
    scenario: Scenario
    scenario_hash: str
    model: str
    system: str
    policy: str
    fits: bool
    verdict: str
    why_not: str = Field("", description="why it has no figures; empty if it has")
    figures: dict[str, float | None] = Field(description="headline key -> value; None where it has none")
    intervals: dict[str, Interval] = Field(default_factory=dict, description="80 %, by headline key")
    interval_kind: str = Field("", description="what the intervals are; empty without any")
    bound_by: str | None = None
    step: tuple[Step, ...] = Field((), description="exposed seconds of a decode step by part")
    memory: tuple[Step, ...] = Field((), description="bytes used by tier, with the tier's capacity")
    warnings: tuple[str, ...] = ()


class Difference(Record):
    """One input in which the sides differ: the only assumptions that a comparison shows."""

    path: str
    label: str
    unit: str
    group: str = Field(description="name of its group; empty where no figure depends on it")
    values: tuple[str, ...] = Field(description="by side, as people read it")


class Part(Record):
    """What one group of inputs, or several that only make sense together, contributes to a delta."""

    groups: tuple[str, ...] = Field(description="ids of the groups")
    name: str
    value: float = Field(description="in the metric's unit; the parts add up to the delta exactly")


class Merge(Record):
    """Groups that are changed together, because the one without the other gives no plan."""

    groups: tuple[str, ...]
    name: str


class Delta(Record):
    """One metric from the base to another side, with its reasons."""

    metric: str
    label: str
    unit: str
    base: float | None
    other: float | None
    delta: float | None = Field(None, description="other - base, on a grid of 14 digits so that parts add up exactly")
    ratio: float | None = Field(None, description="other / base")
    parts: tuple[Part, ...] = ()
    unavailable: str = Field("", description="not available: why; empty where it is")


class Pair(Record):
    """From the base to one other side."""

    base: int
    other: int
    groups: tuple[str, ...] = Field(description="ids of the groups in which the two differ")
    merges: tuple[Merge, ...] = ()
    merged_because: str = Field("", description="the first mixture that could not be planned, and why")
    plans: int = Field(description="mixtures that were planned for the reasons, the two ends included")
    deltas: tuple[Delta, ...]


class Comparison(Record):
    """Two to four scenarios side by side; the first is the base of every delta."""

    schema_version: Literal[1] = SCHEMA_VERSION
    engine_version: str
    catalog_digest: str
    sides: tuple[Side, ...]
    differing: tuple[Difference, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = Field((), description="what a reader must know: different models, sides that do not fit")
