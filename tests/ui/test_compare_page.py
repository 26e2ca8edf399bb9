"""The Compare page with the real engine on small plans: sides, reasons that add up, text of people as text."""

from __future__ import annotations

from html import escape

import pytest
from streamlit.testing.v1 import AppTest

import planner
from planner.compare import Comparison, compare
from planner.fields import set_paths
from planner.result import Result
from planner.scenario import Scenario
from planner.words import comparison as words
from tests.compare.compare_cases import BASE
from tests.ui.conftest import html, markdown
from ui import engine, library
from ui.compare import charts, waterfall
from ui.pages import compare as page
from ui.theme import DARK, LIGHT

HOSTILE = "<img src=x onerror=alert(1)> =1+1 \u202e $x$ [a](b)"


def quick(scenario: Scenario) -> Result:
    return planner.plan(scenario, with_ranges=False, with_marginals=False)


@pytest.fixture(autouse=True)
def _real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "compute", lambda scenario, complete=True: quick(scenario))
    page.KEPT.clear()


def open_page() -> AppTest:
    def script() -> None:
        from ui.app import main

        main("compare")

    return AppTest.from_function(script, default_timeout=60)


def test_asks_for_two_before_it_compares() -> None:
    at = open_page().run()
    assert not at.exception
    assert "Choose two to four scenarios" in markdown(at)


def test_two_saved_scenarios_side_by_side() -> None:
    ids = [
        library.store().save(scenario, name, "", None).id
        for scenario, name in ((BASE, HOSTILE), (set_paths(BASE, {"workload.batch": 8, "economics.pue": 1.5}), "more"))
    ]
    at = open_page().run()
    at.multiselect(key="compare-sides").set_value(ids).run()
    assert not at.exception
    text = html(at)
    assert "<img" not in text
    assert escape(HOSTILE) in text
    assert "2 inputs differ" in text
    found = compare([BASE, set_paths(BASE, {"workload.batch": 8, "economics.pue": 1.5})], [HOSTILE, "more"],
                    planned=quick)  # fmt: skip
    delta = next(d for d in found.pairs[0].deltas if d.metric == page.FIRST_METRIC)
    assert escape(words.reasons_sentence(found, found.pairs[0], delta)) in text
    for name, change, _ in words.delta_rows(delta):
        assert escape(name) in text and escape(change) in text
    at.selectbox(key="reasons-metric").set_value("usd_per_million_output_tokens").run()
    assert not at.exception
    assert "Prices" in html(at)


def small() -> Comparison:
    return compare([BASE, set_paths(BASE, {"workload.batch": 60_000}), set_paths(BASE, {"workload.batch": 8})],
                   [HOSTILE, "big", "more"], planned=quick)  # fmt: skip


def test_charts_show_values_and_what_has_none() -> None:
    found = small()
    for pen in (LIGHT, DARK):
        spec = charts.headline(found, "tpot_s", pen)
        assert spec["data"][0]["y"] == [0, 2]
        assert [note["text"] for note in spec["layout"]["annotations"]] == ["has no plan"]
        assert "<img" not in str(spec["layout"]["yaxis"]["ticktext"])
        assert len(charts.time(found.sides, pen)["layout"]["yaxis"]["ticktext"]) == 2
        assert charts.memory(found.sides, pen)["data"]
    delta = next(d for d in found.pairs[1].deltas if d.metric == "tpot_s")
    bars = waterfall.figure(delta, HOSTILE, "more", LIGHT)["data"][0]
    steps = [(b, b + x) for b, x in zip(bars["base"], bars["x"], strict=True)]
    assert steps[0][1] == pytest.approx(steps[1][0])
    assert steps[-2][1] == pytest.approx(steps[-1][1])


def test_files_hold_all_inputs_and_no_formula() -> None:
    found = small()
    text = page._csv(found)
    assert "workload.batch" in text and "economics.pue" in text and "usd_per_month" in text
    assert "\n=" not in text
    assert "all together" in page._reasons_csv(found.pairs[1])
