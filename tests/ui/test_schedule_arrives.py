"""TriMoE's plan is shown at once; the improved schedule's report follows while the ranges are still computed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from streamlit.testing.v1 import AppTest

import planner
from planner.policies import catalog
from planner.result import Result
from planner.scenario import Scenario
from planner.words.formats import share
from tests.ui.conftest import html
from tests.ui.test_simulate_section import SMALL
from ui import address, engine
from ui.engine import compute_schedule
from ui.sections.reports import LEFT

PATIENCE_S = 60.0


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The second stage and the last one wait until they are let through."""
    schedule, ranges = threading.Event(), threading.Event()

    def compute(scenario: Scenario, complete: bool = True) -> Result:
        if complete:
            assert ranges.wait(PATIENCE_S)
        return planner.plan(scenario, with_ranges=False, with_marginals=False, with_schedule=complete)

    def report(scenario: Scenario) -> Result | None:
        assert schedule.wait(PATIENCE_S)
        return planner.plan(scenario, with_ranges=False, with_marginals=False, with_schedule=True)

    monkeypatch.setattr(engine, "compute", compute)
    monkeypatch.setattr(engine, "compute_schedule", report)
    monkeypatch.setattr(engine, "PATIENCE_S", 0.0)
    yield schedule, ranges
    schedule.set()
    ranges.set()


def test_published_figures_first_then_the_report_then_the_rest(
    app: Callable[..., AppTest], gates: tuple[threading.Event, threading.Event]
) -> None:
    schedule, ranges = gates
    key = engine.key_of(SMALL)
    at = app(s=address.encode(SMALL))
    assert not at.exception
    assert at.title[0].value.startswith(":material/check_circle: Fits")
    assert LEFT in html(at)
    assert "is being computed" in html(at)
    shown = engine.best(SMALL)[0]
    assert not engine.is_newer(key, shown)

    schedule.set()
    _until(lambda: engine.is_newer(key, shown))
    found, complete = engine.best(SMALL)
    assert not complete
    assert found.details is not None
    told = found.details.schedule
    assert told is not None
    at.run()
    text = html(at)
    assert "is being computed" not in text
    assert "Computing ranges" in text
    assert "proven to be within" in text
    assert share(told.published_s / told.improved_s - 1.0) in text

    ranges.set()
    _until(lambda: not engine.pending(key))
    at.run()
    assert "Computing ranges" not in html(at)
    assert LEFT in html(at)


def _until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.02)):
        if holds():
            return
        pause.wait(0.02)
    raise AssertionError("it did not come")


def test_only_policies_with_a_schedule_report_on_it() -> None:
    told = {entry.id for entry in catalog() if planner.planning.reports_schedule(entry.id)}
    assert "trimoe" in told
    assert "all-gpu" not in told
    assert compute_schedule(Scenario()) is None
