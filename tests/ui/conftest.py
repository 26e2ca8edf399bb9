"""The pages against invented results: no engine, a fresh store per test, both behind the pages' own doors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from planner.result import Result
from planner.scenario import Scenario
from tests.ui import fixture_result
from ui import engine, library

APP = str(Path(__file__).parents[2] / "app.py")
BY_POLICY = {
    "trimoe": fixture_result.large,
    "context-aware": fixture_result.unfit,
    "monde": fixture_result.lacking,
}


def invented(scenario: Scenario, complete: bool = True) -> Result:
    """The invented result that a policy stands for, under the scenario that was asked for."""
    found = BY_POLICY.get(scenario.policy.id, fixture_result.small)()
    version, digest = engine.stamp()
    return found.model_copy(
        update={
            "scenario": scenario,
            "scenario_hash": scenario.content_hash(),
            "engine_version": version,
            "catalog_digest": digest,
        }
    )


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(engine, "compute", invented)
    monkeypatch.setattr(engine, "compute_schedule", lambda scenario: None)
    monkeypatch.setattr(engine, "PATIENCE_S", 20.0)
    engine.forget_all()
    library._open.clear()


@pytest.fixture
def app() -> Callable[..., AppTest]:
    """Open the app with address parameters, as a new session."""

    def open_app(**params: str) -> AppTest:
        at = AppTest.from_file(APP, default_timeout=60)
        for name, value in params.items():
            at.query_params[name] = value
        return at.run()

    return open_app


@pytest.fixture
def shelf() -> AppTest:
    """The Scenarios page in a new session."""

    def script() -> None:
        from ui.app import main

        main("scenarios")

    return AppTest.from_function(script, default_timeout=60)


def markdown(at: AppTest) -> str:
    """All that Streamlit reads as Markdown on a page."""
    kinds = (at.title, at.subheader, at.markdown, at.warning, at.error, at.info, at.success, at.caption)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def html(at: AppTest) -> str:
    """All that stands on a page as HTML of our own, style sheets left out."""
    return "\n".join(element.value for element in at.html if "<style" not in element.value)


def texts(at: AppTest) -> str:
    """Everything that is written on a page, in one text."""
    return markdown(at) + "\n" + html(at)
