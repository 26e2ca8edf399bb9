"""Time to open a project of 1,000 scenarios with 20 versions each, beside a project of 20 with one version each.

What the Scenarios page asks when it opens: the projects, the count, one page of lines with their newest figures; then
the history of one scenario, and whether somebody saved meanwhile, which every open page asks each few seconds. The
ratios say that the size of a library costs next to nothing: lists read one table by index, and no body.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Row, median_s, show
from db import Store, open_store
from db.models import ResultRow, ScenarioRow, VersionRow
from db.scenarios import new_scenario
from planner.result import Headline
from planner.scenario import Scenario, Workload

SCENARIOS, VERSIONS, PAGE = 1000, 20, 20
AIM_S = 0.1
REPEATS = 15


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        small = filled(Path(folder) / "small", PAGE, 1)
        large = filled(Path(folder) / "large", SCENARIOS, VERSIONS)
        rows = []
        for name, ask in ASKED.items():
            ask(small), ask(large)  # connections and compiled statements
            base = median_s(lambda ask=ask: ask(small), REPEATS)  # type: ignore[misc]
            taken = median_s(lambda ask=ask: ask(large), REPEATS)  # type: ignore[misc]
            rows.append(Row(name, taken, "s", taken / base, f"{PAGE} scenarios of one version", AIM_S))
        small.close()
        large.close()
    return show(f"A project of {SCENARIOS:,} scenarios with {VERSIONS} versions each, SQLite", rows)


def opened(store: Store) -> None:
    """What the page asks when it opens on a project."""
    project = store.projects()[0].id
    assert store.count(project_id=project) >= PAGE
    assert len(store.list(limit=PAGE, project_id=project)) == PAGE


def last_page(store: Store) -> None:
    """The page at the end of the list."""
    total = store.count()
    assert len(store.list(limit=PAGE, offset=total - PAGE)) == PAGE


def searched(store: Store) -> None:
    """A search, which reads the folded text of every line."""
    assert store.list("scenario 19", limit=PAGE)
    assert store.count("scenario 19") > 0


def history(store: Store) -> None:
    """All versions of the first scenario."""
    assert store.history(store.list(limit=1)[0].id)


def watched(store: Store) -> None:
    """Did somebody save meanwhile?"""
    newest = store.list(limit=1)[0]
    assert store.newer_than(newest.id, newest.version) == ()


ASKED: dict[str, Callable[[Store], None]] = {
    "open the project": opened,
    "its last page": last_page,
    "search it": searched,
    "history of one scenario": history,
    "look for newer versions": watched,
}


def filled(folder: Path, scenarios: int, versions: int) -> Store:
    """A store with that many scenarios and versions, each version with a stored headline of its own."""
    store = open_store(data_dir=folder)
    headline = Headline(fits=True, tpot_s=0.02, tokens_per_s_system=1000.0).model_dump_json()
    with store._write("fill the store") as session:
        project = store.projects()[0].id
        lines: list[ScenarioRow] = []
        bodies: list[VersionRow] = []
        results: list[ResultRow] = []
        for number in range(scenarios):
            base = Scenario(workload=Workload(batch=1 + number, prompt_tokens=1000))
            line, first = new_scenario(base, f"scenario {number}", "a note", "Ann", ("tag",), ("1.0", "digest"))
            line.project_id, line.version = uuid.UUID(project), versions
            columns = {column.key: getattr(first, column.key) for column in VersionRow.__table__.columns}
            for count in range(1, versions + 1):
                asked = Scenario(workload=Workload(batch=1 + number, prompt_tokens=999 + count))
                named = {"scenario": asked.canonical_json(), "scenario_hash": asked.content_hash(), "number": count}
                body = VersionRow(**{**columns, **named, "id": first.id if count == versions else uuid.uuid4()})
                bodies.append(body)
                results.append(
                    ResultRow(
                        scenario_hash=body.scenario_hash, engine_version="1.0", catalog_digest="digest",
                        headline=headline, body=b"x" * 20_000, created_at=first.created_at,
                    )
                )  # fmt: skip
            line.scenario_hash = bodies[-1].scenario_hash
            lines.append(line)
        for rows in (lines, bodies, results):
            session.add_all(rows)
            session.flush()
    return store


if __name__ == "__main__":
    sys.exit(main())
