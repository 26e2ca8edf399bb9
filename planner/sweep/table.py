"""A sweep as rows: what was swept, what came of it, and every other input, so that the file stands by itself."""

from __future__ import annotations

import json
from collections.abc import Callable

from planner import csv_text
from planner.fields import ScenarioError, fields, get_path
from planner.scenario import Scenario
from planner.sweep.metrics import METRICS
from planner.sweep.record import Point, SweepResult

Link = Callable[[Scenario], str]
Cell = bool | int | float | str | None
INPUT, STAMP = "input: ", ("engine_version", "catalog_digest")


def head(result: SweepResult, link: Link | None = None) -> list[str]:
    """Names of the columns: swept fields by path, the outcome, every figure by name, then all inputs."""
    inputs = [f"{INPUT}{path}" for path in fields()]
    outcome = ["status", "reason", "bound_by", "meets_slo", "scenario_hash"]
    return ["point", *result.paths, *outcome, *METRICS, *(["link"] if link else []), *inputs, *STAMP]


def row(result: SweepResult, point: Point, link: Link | None = None) -> list[Cell]:
    """The cells of one point; inputs stay empty where its values do not go together."""
    try:
        scenario: Scenario | None = result.scenario(point)
    except ScenarioError:
        scenario = None
    out = point.outcome
    given: list[Cell] = []
    for path in fields():
        value = None if scenario is None else get_path(scenario, path)
        given.append(json.dumps(value, sort_keys=True) if isinstance(value, dict) else value)
    linked: list[Cell] = [] if link is None else [None if scenario is None else link(scenario)]
    figures = [out.figures.get(key) for key in METRICS]
    return [
        point.index, *point.values, out.status, out.reason, out.bound_by, out.meets_slo, point.scenario_hash,
        *figures, *linked, *given, result.engine_version, result.catalog_digest,
    ]  # fmt: skip


def to_csv(result: SweepResult, link: Link | None = None) -> str:
    """The sweep as CSV. ``link`` gives the address of a scenario. Text that a spreadsheet would run is quoted."""
    return csv_text.to_csv(head(result, link), (row(result, point, link) for point in result.points))
