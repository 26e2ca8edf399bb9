"""The Start page: a question is answered when asked, any option opens on the Plan page; words can be found."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

import planner
from planner.guidance.questions import QUESTIONS, question
from planner.words import glossary
from tests.ui.conftest import html, texts
from ui import engine, state
from ui.glossary import hover
from ui.pages import start


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setattr(engine, "compute", lambda s, c: planner.plan(s, with_ranges=False, with_marginals=False))
    start._answers.clear()

    def script() -> None:
        from ui.app import main

        main("start")

    at = AppTest.from_function(script, default_timeout=60).run()
    assert not at.exception
    return at


def test_nothing_is_answered_before_it_is_asked(page: AppTest) -> None:
    for each in QUESTIONS:
        assert each.title in texts(page)
        assert page.button(key=f"ask-{each.id}")
    assert not page.session_state["questions_asked"]


def test_an_answer_is_computed_and_an_option_opens_on_the_plan_page(page: AppTest) -> None:
    at = page.button(key="ask-gpu-experts").click().run()
    assert not at.exception
    answer = start.answer_of(question("gpu-experts"))
    assert answer.sentence in texts(at)
    at = at.selectbox(key="option-gpu-experts").select(0).run()
    at = at.button(key="open-gpu-experts").click().run()
    assert not at.exception
    assert at.session_state["scenario"] == answer.options[0].scenario
    assert state is not None


def test_words_are_found_and_an_unknown_one_says_so(page: AppTest) -> None:
    at = page.text_input(key="word").set_value("makespan").run()
    assert "time until the last of the domains" in html(at)
    at = at.text_input(key="word").set_value("<b>zzz").run()
    assert "No word or meaning holds that" in texts(at)


def test_every_row_of_the_nomenclature_is_in_the_glossary() -> None:
    rows = [row for _, rows in glossary.sections() for row in rows]
    assert len(rows) > 60
    for term in ("TPOT", "MLA", "PUE", "striped", "J/token", "GiB", "byte floor"):
        assert glossary.terms()[term]


def test_hover_marks_a_term_once_and_escapes_everything() -> None:
    text = hover("TPOT of <b>TPOT</b> & PUE, not HTPOT")
    assert text.count("<abbr") == 2
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "HTPOT" in text
