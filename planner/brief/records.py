"""What a brief holds: the facts of one printable page, as plain records; exact through JSON."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from planner.result import (
    Assumption,
    Capacity,
    Cost,
    Energy,
    Headline,
    Interval,
    MemoryTier,
    Record,
    StepPart,
)
from planner.scenario import Scenario

SCHEMA_VERSION: Final = 1


class Option(Record):
    """One of the options between which the brief decides."""

    name: str
    what: str = Field(description="what is different about it, in words")
    scenario: Scenario
    is_this: bool = Field(False, description="the plan that the brief is about")
    recommended: bool = False
    fits: bool = True
    meets_targets: bool | None = Field(None, description="None where no target is set, or it has no figures")
    figures: dict[str, float] = Field(default_factory=dict, description="headline key -> value")
    expert_bits: float | None = Field(None, description="mean bits of the routed experts")
    as_routed: bool = Field(True, description="False: it skips or exchanges experts, so the output changes")
    why: str = ""


class Point(Record):
    """One batch on the frontier of throughput against interactivity."""

    batch: int
    tokens_per_s_user: float
    tokens_per_s_per_gpu: float = Field(description="output tokens/s per GPU; per system where there is no GPU")
    ttft_s: float
    usd_per_million_output_tokens: float
    meets_targets: bool | None = None
    chosen: bool = False


class Frontier(Record):
    points: tuple[Point, ...]
    per: Literal["GPU", "system"]
    least_tokens_per_s_user: float | None = Field(None, description="1 / target TPOT")
    sentence: str


class Target(Record):
    """A service target and what is left to it."""

    key: str
    name: str
    target_s: float
    value_s: float
    high_s: float | None = Field(None, description="upper end of the 80 % range")
    met: bool
    headroom: float = Field(description="target / value - 1: how much slower it may get")
    sentence: str


class Sensitivity(Record):
    """An input whose own range moves the answer."""

    label: str
    path: str
    value: float | str
    low: float
    high: float
    unit: str
    moves_tpot: Interval | None
    moves_cost: Interval | None
    source: str


class Input(Record):
    """One field of the scenario."""

    path: str
    label: str
    unit: str
    value: str | float | bool | None
    changed: bool = Field(description="differs from the default")


class BillLine(Record):
    """One line of the bill of materials of a system."""

    name: str
    count: float
    unit_price_usd: float
    total_usd: float
    source: str
    date: str | None
    kind: str
    edited: bool


class Brief(Record):
    """The facts of one page. Figures are those of ``planner.plan``; nothing is computed a second time."""

    schema_version: Literal[1] = SCHEMA_VERSION
    title: str
    author: str = ""
    version: str = Field("", description="of the saved scenario, in words")
    made_on: str = Field("", description="date, ISO 8601")
    link: str | None = Field(None, description="address of the version")
    command: str = Field(description="reproduces the brief")
    engine_version: str
    catalog_digest: str
    scenario_hash: str
    scenario: Scenario
    decision: str
    verdict: str
    outlook: str = Field(description="what the ranges are")
    model: str
    system: str
    policy: str
    load: str
    headline: Headline
    interval_kind: str = ""
    options: tuple[Option, ...] = ()
    options_sentence: str = ""
    frontier: Frontier | None = None
    targets: tuple[Target, ...] = ()
    sensitivities: tuple[Sensitivity, ...] = ()
    turns: tuple[str, ...] = Field((), description="what would change the decision, one sentence each")
    turns_complete: bool = Field(
        True, description="False: values of assumptions at which another option wins were not looked for"
    )
    energy: Energy | None = None
    cost: Cost | None = None
    capacity: Capacity | None = None
    bill: tuple[BillLine, ...] = ()
    step: tuple[StepPart, ...] = ()
    memory: tuple[MemoryTier, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    inputs: tuple[Input, ...] = ()
    warnings: tuple[str, ...] = ()
