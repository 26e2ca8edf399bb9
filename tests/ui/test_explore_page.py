"""The Explore page: a question planned in the background, shown, opened, saved and found again."""

from __future__ import annotations

import json
import time

import pytest
from streamlit.testing.v1 import AppTest

from planner.sweep import METRICS, Axis, SweepSpec, from_json, sweep
from planner.sweep.boundary import Cell, Map
from planner.sweep.load import ApiPrice
from ui import library
from ui.charts import heat, plane
from ui.explore.asked import Asked, restored
from ui.explore.questions import QUESTIONS
from ui.theme import LIGHT

PAGE = """
import streamlit as st
from ui import state
from ui.pages import explore
state.start()
st.session_state["pages"] = {}
explore.run()
"""


@pytest.fixture
def explore(monkeypatch):
    """The page by itself; plans run in this process."""
    monkeypatch.setenv("TIERLINE_EXECUTOR", "here")
    found = AppTest.from_string(PAGE, default_timeout=60).run()
    assert not found.exception
    return found


def planned(page, name):
    """Press the button of a question, and wait until its job is finished."""
    page.button(key=f"explore-{name}-go").click().run()
    for _ in range(300):
        if not any(b.key == f"explore-{name}-stop" for b in page.button):
            return page
        time.sleep(0.1)
        page.run()
    raise AssertionError("the sweep did not finish")


def text_of(page):
    return " ".join(" ".join(block.proto.body for block in page.get("html")).split())


def test_the_frontier_is_planned_and_every_point_can_be_opened(explore):
    page = explore
    page.select_slider(key="explore-frontier-batch").set_value(8).run()
    page = planned(page, "frontier")
    assert not page.exception and not page.error
    assert [box.label for box in page.selectbox].count("Point (or click one in the chart)") == 1
    assert any(button.label == "Open as a scenario" for button in page.button)
    assert len(page.get("plotly_chart")) == 1


def test_a_sweep_of_my_own_says_what_is_wrong_and_keeps_what_was_typed(explore):
    page = explore
    page.selectbox(key="explore-question").set_value("free").run()
    page.text_area(key="explore-free-axes").set_value("workload.bach=1,2").run()
    page.button(key="explore-free-go").click().run()
    for _ in range(100):
        page.run()
        if page.error:
            break
        time.sleep(0.1)
    assert "nearest is" in page.error[0].value
    assert page.text_area(key="explore-free-axes").value == "workload.bach=1,2"
    page.text_area(key="explore-free-axes").set_value("workload.batch=linear:1:60000:1000000000").run()
    page.button(key="explore-free-go").click().run()
    assert "1,000,000,000 points" in page.error[0].value


def test_a_saved_sweep_is_found_and_opened_again(explore):
    page = explore
    page.selectbox(key="explore-question").set_value("free").run()
    page.text_area(key="explore-free-axes").set_value("workload.batch=1,2").run()
    page = planned(page, "free")
    page.text_input(key="explore-free-name").set_value("<b>mine</b>").run()
    page.button(key="explore-free-save").click().run()
    assert not page.exception and not page.error
    study = next(one for one in library.store().list_studies(kind="sweep") if one.name == "<b>mine</b>")
    kept = from_json(library.store().get_study(study.id).body)
    assert kept.paths == ("workload.batch",) and len(kept.fitting) == 2
    page.selectbox(key="explore-saved").set_value(study.id).run()
    page.button(key="explore-open-saved").click().run()
    assert not page.exception
    assert any(button.key == "explore-back" for button in page.button)
    page.button(key="explore-back").click().run()
    assert page.selectbox(key="explore-question").value


def test_a_chart_escapes_what_people_wrote_and_ticks_are_round_numbers():
    series = [plane.Series("<b>x</b>", [1.0, 90.0], [2.0, 30.0], ["a", "b"], [0, 1])]
    axes = plane.Axes("x", "y", log_x=True, log_y=True)
    found = plane.figure(series, axes, plane.Extras(least_x=20.0, region="meets"), LIGHT)
    assert found["data"][0]["name"] == "&lt;b&gt;x&lt;/b&gt;"
    assert found["layout"]["xaxis"]["ticktext"] == ["1", "2", "5", "10", "20", "50", "100"]
    assert found["layout"]["shapes"][0]["x0"] == 20.0


def test_the_load_question_tells_both_break_evens(explore):
    page = explore
    page.selectbox(key="explore-question").set_value("load").run()
    page = planned(page, "load")
    assert not page.exception and not page.error
    assert "Own systems cost no more than the API from" in text_of(page)
    assert "own machines cost no more per request from" in text_of(page)
    assert len(page.get("plotly_chart")) == 2
    page.number_input(key="explore-load-out").set_value(0.0).run()
    page.number_input(key="explore-load-in").set_value(0.0).run()
    assert "the API stays cheaper" in text_of(page) and "dearer even when they never wait" in text_of(page)


def test_a_saved_sweep_opens_with_the_metric_axes_and_price_that_its_reader_chose(explore):
    page = explore
    page.selectbox(key="explore-question").set_value("load").run()
    page.number_input(key="explore-load-out").set_value(7.25).run()
    page = planned(page, "load")
    page.text_input(key="explore-load-name").set_value("dear API").run()
    page.button(key="explore-load-save").click().run()
    shown = text_of(page)
    study = next(one for one in library.store().list_studies(kind="sweep") if one.name == "dear API")
    assert study.spec["view"]["api"] == [0.5, 7.25]
    page.selectbox(key="explore-saved").set_value(study.id).run()
    page.button(key="explore-open-saved").click().run()
    assert not page.exception and not page.error
    found = next(part for part in shown.split("<p") if "Own systems cost" in part)
    assert found in text_of(page)


@pytest.mark.parametrize(
    "given",
    [None, [], "x", {}, {"metric": 3, "x": ["a"], "y": None}, {"metric": "nope", "x": "gone", "y": "gone"},
     {"api": [1]}, {"api": ["1", 2]}, {"api": [-1, float("nan")]}],
)  # fmt: skip
def test_a_view_that_cannot_be_restored_falls_back_to_what_the_sweep_has(given):
    axes = (Axis(path="workload.batch", values=(1,)), Axis(path="workload.prompt_tokens", values=(64,)))
    result = sweep(SweepSpec(axes=axes))
    for question in ("map", "winners"):
        found = restored(question, result, given)
        assert (found.x, found.y) == result.paths and found.metric in METRICS and found.api is None
    assert restored("free", result, given).x in METRICS


def test_a_view_comes_back_as_it_was_saved():
    axes = (Axis(path="workload.batch", values=(1,)), Axis(path="workload.prompt_tokens", values=(64,)))
    result = sweep(SweepSpec(axes=axes))
    asked = Asked("tpot_s", "workload.prompt_tokens", "workload.batch", ApiPrice(0.1, 2.0))
    assert restored("map", result, json.loads(json.dumps(asked.saved()))) == asked
    free = Asked("tpot_s", "ttft_s")
    assert restored("free", result, json.loads(json.dumps(free.saved()))) == free


def test_a_refusal_names_paths_as_they_were_typed(explore):
    page = explore
    page.selectbox(key="explore-question").set_value("free").run()
    page.text_area(key="explore-free-axes").set_value("workload.batch=log:0:2:3").run()
    assert "workload.batch".replace(".", r"\.") in page.error[0].value
    page.text_area(key="explore-free-axes").set_value("workload.batch=1").run()
    assert not page.error and any("One point" in caption.value for caption in page.caption)


@pytest.mark.parametrize("question", [*QUESTIONS, "sensitivity", "<b>", ["x"], None])
@pytest.mark.parametrize("view", [None, {"metric": "tpot_s", "x": "gone", "y": "gone", "api": [1, 2]}])
def test_a_saved_sweep_whose_question_does_not_go_with_its_axes_is_shown_as_any_other(question, view):
    result = sweep(SweepSpec(axes=(Axis(path="economics.pue", values=(1.1, 1.2)),)))
    store = library.store()
    study = store.save_study(None, "sweep", "s", "", {"question": question, "view": view}, result.to_json().encode())
    page = AppTest.from_string(PAGE, default_timeout=60)
    page.query_params["study"] = store.create_study_link(study.id, author="").token
    page.run()
    assert not page.exception and not page.error
    assert len(page.get("plotly_chart")) == 1


def test_a_word_at_the_right_edge_is_written_inwards():
    notes = (plane.Note(9.0, 1.0, "today's budget", 0, 18), plane.Note(2.0, 1.0, "middle"))
    line = plane.Series("a", [0.0, 10.0], [0.0, 2.0], ["", ""], [0, 1])
    found = plane.figure([line], plane.Axes("x", "y"), plane.Extras(notes=notes), LIGHT)
    anchors = {one["text"]: one["xanchor"] for one in found["layout"]["annotations"]}
    assert list(anchors.values()) == ["right", "center"]


def test_no_two_regions_of_a_map_are_named_in_one_row():
    cells = tuple(tuple(Cell(9 * y + x, 1.0, "left" if x < 5 else "right") for x in range(9)) for y in range(5))
    found = Map(METRICS["tpot_s"], "x", "y", tuple(map(float, range(9))), tuple(map(float, range(5))), cells)
    texts = {(y, x): "" for y in range(5) for x in range(9)}
    names = {"left": "a long name", "right": "another long name"}
    chart = heat.figure(found, LIGHT, x_title="", y_title="", shown=lambda v, _: str(v), texts=texts, names=names)
    rows = [one["y"] for one in chart["layout"]["annotations"]]
    assert len(rows) == 2 == len(set(rows))
