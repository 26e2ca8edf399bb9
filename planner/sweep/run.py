"""Runs a sweep: every distinct scenario of its design through ``planner.plan`` once, wherever the executor is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import planner
from planner.errors import PlanError
from planner.scenario import Scenario
from planner.sweep.design import MOST_POINTS, SweepError, SweepSpec, Value
from planner.sweep.executors.base import Cancelled, Executor, Task, grouped
from planner.sweep.executors.here import Here
from planner.sweep.outcome import Outcome
from planner.sweep.paths import check, scenario_at
from planner.sweep.record import Point, SweepResult

NOT_RUN = Outcome(status="not run", reason="The sweep ended before this point.")


@dataclass(frozen=True)
class Progress:
    """How far a sweep is."""

    done: int
    total: int
    fitting: int


OnPoint = Callable[[Point, Progress], None]


@dataclass(frozen=True)
class _Planned:
    """The design laid out: points by place, and places by scenario."""

    values: list[tuple[Value, ...]]
    hashes: list[str | None]
    refused: dict[int, str]
    scenarios: dict[str, Scenario]
    places: dict[str, list[int]]


def sweep(
    spec: SweepSpec,
    *,
    executor: Executor | None = None,
    on_point: OnPoint | None = None,
    cancelled: Cancelled = lambda: False,
    most: int = MOST_POINTS,
) -> SweepResult:
    """Run a sweep and return all of it, or what there is when it was cancelled or its executor went away.

    ``executor`` plans here when None. ``on_point`` is called in this thread for every point as it is told. Points that
    do not fit or are refused keep their reason. Raises SweepError or ScenarioError for a sweep that cannot be run: too
    many points, an unknown field, a value outside its bounds, an executor that is not there.
    """
    spec.refuse_if_too_large(most)
    check(spec)
    laid = _laid_out(spec)
    found: dict[int, Point] = {}
    total, fitting = len(laid.values), 0

    def tell(place: int, outcome: Outcome) -> None:
        nonlocal fitting
        point = Point(index=place, values=laid.values[place], scenario_hash=laid.hashes[place], outcome=outcome)
        found[place] = point
        fitting += outcome.fits
        if on_point is not None:
            on_point(point, Progress(len(found), total, fitting))

    for place, reason in laid.refused.items():
        tell(place, Outcome(status="refused", reason=reason))
    keys = list(laid.scenarios)

    def done(index: int, outcome: Outcome) -> None:
        for place in laid.places[keys[index]]:
            tell(place, outcome)

    stopped = ""
    groups = grouped(Task(index, laid.scenarios[key]) for index, key in enumerate(keys))
    try:
        (executor or Here()).run(groups, done, cancelled)
    except SweepError as error:
        if len(found) == len(laid.refused):
            raise
        stopped = str(error)
    if len(found) < total and not stopped:
        stopped = f"The sweep was cancelled after {len(found):,} of {total:,} points."
    return assembled(spec, laid.values, laid.hashes, found, stopped, len(keys))


def assembled(
    spec: SweepSpec,
    values: Sequence[tuple[Value, ...]],
    hashes: Sequence[str | None],
    found: dict[int, Point],
    stopped: str,
    distinct: int,
) -> SweepResult:
    """All points in the order of the design; those without an outcome say that they were not run."""
    points = tuple(
        found.get(place) or Point(index=place, values=values[place], scenario_hash=hashes[place], outcome=NOT_RUN)
        for place in range(len(values))
    )
    return SweepResult(
        engine_version=planner.ENGINE_VERSION,
        catalog_digest=planner.catalog_digest(),
        spec=spec,
        points=points,
        complete=not stopped,
        stopped=stopped,
        distinct=distinct,
    )


def partial(spec: SweepSpec, points: Sequence[Point]) -> SweepResult:
    """The points that there are so far as a record of their own, for a page that shows a sweep while it runs."""
    ordered = tuple(sorted(points, key=lambda point: point.index))
    return SweepResult(
        engine_version=planner.ENGINE_VERSION,
        catalog_digest=planner.catalog_digest(),
        spec=spec,
        points=ordered,
        complete=False,
        stopped="The sweep is still running.",
        distinct=len({point.scenario_hash for point in ordered}),
    )


def run_many(
    scenarios: Sequence[Scenario], executor: Executor | None = None, cancelled: Cancelled = lambda: False
) -> list[Outcome]:
    """The outcomes of scenarios in their order, equal ones planned once; those after a cancel are not run."""
    by_hash: dict[str, list[int]] = {}
    for place, scenario in enumerate(scenarios):
        by_hash.setdefault(scenario.content_hash(), []).append(place)
    first = [places[0] for places in by_hash.values()]
    told: dict[int, Outcome] = {}
    tasks = (Task(number, scenarios[place]) for number, place in enumerate(first))
    (executor or Here()).run(grouped(tasks), told.__setitem__, cancelled)
    outcomes = [NOT_RUN] * len(scenarios)
    for number, places in enumerate(by_hash.values()):
        for place in places:
            outcomes[place] = told.get(number, NOT_RUN)
    return outcomes


def _laid_out(spec: SweepSpec) -> _Planned:
    laid = _Planned([], [], {}, {}, {})
    paths = tuple(axis.path for axis in spec.axes)
    for place, values in enumerate(spec.coordinates()):
        laid.values.append(values)
        try:
            scenario = scenario_at(spec.base, paths, values)
        except PlanError as error:
            laid.hashes.append(None)
            laid.refused[place] = str(error)
            continue
        key = scenario.content_hash()
        laid.hashes.append(key)
        laid.scenarios.setdefault(key, scenario)
        laid.places.setdefault(key, []).append(place)
    return laid
