"""The Explore page: a question planned in the background, shown, opened, saved and found again."""

from __future__ import annotations

import time

import pytest
from streamlit.testing.v1 import AppTest

from planner.sweep import from_json
from ui.charts import plane
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


def text(page):
    return " ".join(block.proto.html.body if hasattr(block.proto, "html") else "" for block in page.get("html"))


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
    from ui import library

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
