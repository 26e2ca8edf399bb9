"""A sweep as rows: what was swept, what came of it, and every other input, so that the file stands by itself."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence

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
    rows = (row(result, point, link) for point in result.points)
    return csv_text(head(result, link), rows)


def csv_text(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Rows as CSV; floats with all their digits, truth as true and false, nothing as an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([harmless(name) for name in names])
    for cells in rows:
        writer.writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(cell: Cell) -> object:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else harmless(cell) if isinstance(cell, str) else cell


def harmless(text: str) -> str:
    """Text that no spreadsheet takes for a formula: one that starts like one gets an apostrophe before it."""
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
