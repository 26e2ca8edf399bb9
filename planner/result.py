"""What :func:`planner.plan` answers: everything that a page, an export, a link or the command line shows.

Immutable, schema-versioned, exact through JSON. SI units; a name ends with its unit. Arrays over
``[MoE layer, expert]`` are tuples of tuples in that order.
"""

from __future__ import annotations

from typing import Final, Literal

from planner.results.base import TIERS, Bound, Interval, Lane, PartId, Record, TierId
from planner.results.details import (
    CacheReport,
    ClassReport,
    Details,
    FailureReport,
    MigrationReport,
    QualityReport,
    ScheduleReport,
    SelectorReport,
)
from planner.results.guidance import Advice, Monitor
from planner.results.headline import Headline
from planner.results.memory import Change, Memory, MemoryItem, MemoryTier
from planner.results.money import Capacity, Cost, Energy, Share
from planner.results.placement import Placement, PlacementClass
from planner.results.summary import ModelSummary, PolicySummary, SystemSummary
from planner.results.sureness import AccuracyPart, AccuracyReport, Assumption, Marginal, Neighbour, NextMeasurement
from planner.results.times import BoundReport, Domain, Prefill, ServedReport, Step, StepPart
from planner.scenario import Scenario

SCHEMA_VERSION: Final = 1


class Result(Record):
    schema_version: Literal[1] = SCHEMA_VERSION
    engine_version: str
    catalog_digest: str
    scenario_hash: str
    scenario: Scenario
    headline: Headline
    model: ModelSummary
    system: SystemSummary
    policy: PolicySummary
    placement: Placement | None = None
    decode: Step | None = None
    prefill: Prefill | None = None
    served: ServedReport | None = None
    memory: Memory | None = None
    energy: Energy | None = None
    cost: Cost | None = None
    capacity: Capacity | None = None
    assumptions: tuple[Assumption, ...] = ()
    marginals: tuple[Marginal, ...] = ()
    details: Details | None = None
    bound: BoundReport | None = None
    accuracy: AccuracyReport | None = None
    advice: tuple[Advice, ...] = ()
    monitor: tuple[Monitor, ...] = ()
    warnings: tuple[str, ...] = ()


__all__ = [
    "SCHEMA_VERSION",
    "TIERS",
    "AccuracyPart",
    "AccuracyReport",
    "Advice",
    "Assumption",
    "Bound",
    "BoundReport",
    "CacheReport",
    "Capacity",
    "Change",
    "ClassReport",
    "Cost",
    "Details",
    "Domain",
    "Energy",
    "FailureReport",
    "Headline",
    "Interval",
    "Lane",
    "Marginal",
    "Memory",
    "MemoryItem",
    "MemoryTier",
    "MigrationReport",
    "ModelSummary",
    "Monitor",
    "Neighbour",
    "NextMeasurement",
    "PartId",
    "Placement",
    "PlacementClass",
    "PolicySummary",
    "Prefill",
    "QualityReport",
    "Record",
    "Result",
    "ScheduleReport",
    "SelectorReport",
    "ServedReport",
    "Share",
    "Step",
    "StepPart",
    "SystemSummary",
    "TierId",
]
