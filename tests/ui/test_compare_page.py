"""The Compare page with the real engine on small plans: sides, reasons that add up, text of people as text."""

from __future__ import annotations

from html import escape

import pytest
from streamlit.testing.v1 import AppTest

import planner
from db import Saved
from planner.compare import Comparison, compare
from planner.errors import PlanError
from planner.fields import set_paths
from planner.result import Result
from planner.scenario import Scenario
from planner.words import comparison as words
from tests.compare.compare_cases import BASE
from tests.ui.conftest import html, markdown
from ui import engine, library
from ui.compare import charts, waterfall
from ui.compare import saved as saved_comparisons
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


def save_two() -> tuple[Saved, Saved]:
    """One scenario with two versions, and another one."""
    store = library.store()
    first = store.save(BASE, HOSTILE, "", None)
    newer = store.update(first.id, scenario=set_paths(BASE, {"workload.batch": 8}), expected_version=1)
    return newer, store.save(set_paths(BASE, {"economics.pue": 1.5}), "more", "", None)


def test_an_older_version_is_a_side() -> None:
    saved, _ = save_two()
    at = open_page().run()
    at.multiselect(key="compare-sides").set_value([saved.id]).run()
    at.selectbox(key="compare-version-of").set_value(saved.id).run()
    at.selectbox(key=f"compare-version-{saved.id}").set_value(1).run()
    at.button(key="compare-version-add").click().run()
    assert not at.exception
    assert at.multiselect(key="compare-sides").value == [saved.id, f"{saved.id}.1"]
    assert escape(f"{HOSTILE}, version 1") in html(at)
    assert "One input differs" in html(at)


def test_a_comparison_is_saved_and_opened_by_its_link() -> None:
    one, two = save_two()
    at = open_page().run()
    at.multiselect(key="compare-sides").set_value([one.id, two.id]).run()
    at.text_input(key="compare-name").set_value(HOSTILE).run()
    at.button(key="compare-save").click().run()
    assert not at.exception
    (study,) = library.store().list_studies(kind="compare")
    (made,) = library.store().links(study_id=study.id)
    assert f"compare?study={made.token}" in at.code[0].value
    other = open_page()
    other.query_params["study"] = made.token
    other.run()
    assert not other.exception
    text = html(other)
    assert "2 inputs differ" in text and "<img" not in text and "a saved comparison" in markdown(other)
    other.button(key="compare-back").click().run()
    assert "Choose two to four scenarios" in markdown(other)
    library.store().revoke_link(made.id)
    closed = open_page()
    closed.query_params["study"] = made.token
    assert "leads to nothing" in markdown(closed.run()) or "leads nowhere" in markdown(closed)


def test_a_damaged_comparison_is_one_sentence() -> None:
    project = library.store().projects()[0].id
    study = library.store().save_study(project, "compare", "bad", "", {}, b'{"sides": 1}')
    at = open_page().run()
    at.selectbox(key="compare-saved").set_value(study.id).run()
    at.button(key="compare-open-saved").click().run()
    assert not at.exception
    with pytest.raises(PlanError, match="cannot be read"):
        saved_comparisons.read(b'{"sides": 1}')


def test_brief_takes_the_compared_as_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = save_two()
    at = open_page().run()
    at.multiselect(key="compare-sides").set_value([one.id, two.id]).run()
    asked: list[object] = []
    monkeypatch.setattr(page.briefed, "ask", lambda *given: asked.append(given))
    monkeypatch.setattr(page.st, "switch_page", lambda where: None)
    at.button(key="compare-brief").click().run()
    assert not at.exception
    ((sides, saved),) = asked
    assert [name.strip("\u2068\u2069") for name, _ in sides] == [HOSTILE, "more"]
    assert (saved.id, saved.version) == (one.id, one.version)
