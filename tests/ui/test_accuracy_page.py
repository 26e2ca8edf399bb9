"""The Accuracy page: every measured run is a point, filters narrow them, no bad cell is left out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner import accuracy
from planner.measured_runs import measured_runs
from tests.ui.conftest import html, texts
from ui.charts import scatter
from ui.pages.accuracy import ALL
from ui.theme import DARK, LIGHT
from validation.measured.page import coverage_sentence, table

RUNS = measured_runs()


@pytest.fixture
def page() -> AppTest:
    def script() -> None:
        from ui.app import main

        main("accuracy")

    at = AppTest.from_function(script, default_timeout=60).run()
    assert not at.exception
    return at


def points(at: AppTest) -> list[str]:
    """What the points of the chart say on hover."""
    found: list[str] = []
    for chart in at.get("plotly_chart"):
        spec: dict[str, Any] = json.loads(chart.proto.spec)
        for trace in spec["data"]:
            found += trace.get("text", [])
    return found


def test_every_measured_run_is_a_point_with_its_label_and_error(page: AppTest) -> None:
    said = points(page)
    assert len(said) == len(RUNS) == len(accuracy.residuals())
    for run in (RUNS[0], RUNS[-1]):
        assert any(f"({run.id})" in text and run.label.split(",")[0].split(" on ")[0] in text for text in said)
    assert coverage_sentence(accuracy.residuals()) in texts(page)


def test_filters_narrow_the_points_and_an_empty_choice_is_said(page: AppTest) -> None:
    kind, phase = RUNS[0].regime, RUNS[0].phase
    at = page.selectbox(key="accuracy-regime").select(kind).run()
    assert len(points(at)) == sum(run.regime == kind for run in RUNS)
    at = at.selectbox(key="accuracy-phase").select(phase).run()
    chosen = [run for run in RUNS if (run.regime, run.phase) == (kind, phase)]
    assert len(points(at)) == len(chosen)
    assert "80 % interval" in texts(at)
    other = next(run.family for run in RUNS if run.family not in {one.family for one in chosen})
    at = at.selectbox(key="accuracy-family").select(other).run()
    assert not at.exception
    assert points(at) == []
    assert "No run of this kind was measured" in html(at)
    at = at.selectbox(key="accuracy-regime").select(ALL).run()
    at = at.selectbox(key="accuracy-phase").select(ALL).run()
    assert len(points(at)) == sum(run.family == other for run in RUNS)


def test_every_cell_is_in_the_table_and_those_over_their_bar_say_so(page: AppTest) -> None:
    found = re.search(r"<caption>Errors by kind</caption>.*?</table>", html(page), re.DOTALL)
    assert found is not None
    cells = table(accuracy.residuals())
    assert found.group().count('scope="row"') == len(cells)
    over = [
        c for c in cells if c["bar"] and (round(100 * c["median"]) > c["bar"][0] or round(100 * c["p90"]) > c["bar"][1])
    ]
    assert found.group().count("over the bar") == len(over)
    for cell in cells:
        assert f"{cell['rows']} / {cell['groups']}" in found.group()


@pytest.mark.parametrize("pen", [LIGHT, DARK])
def test_band_contains_what_its_factors_say(pen: Any) -> None:
    band = scatter.Band(0.5, 2.0, "x2")
    spec = scatter.figure(RUNS[:40], [band], [RUNS[0].id], pen)
    polygon = spec["data"][0]
    assert [y / x for x, y in zip(polygon["x"], polygon["y"], strict=True)] == pytest.approx([0.5, 0.5, 2.0, 2.0])
    ring = spec["data"][-1]
    assert ring["x"] == [RUNS[0].measured_tokens_per_s]
    assert ring["y"] == [pytest.approx(RUNS[0].predicted_tokens_per_s)]


def test_a_run_says_how_far_the_prediction_was_off() -> None:
    run = RUNS[0]
    assert run.error == pytest.approx(run.predicted_tokens_per_s / run.measured_tokens_per_s - 1.0)
    residual = next(r for r in accuracy.residuals() if r.id == run.id)
    assert run.log_ratio == residual.log_ratio
