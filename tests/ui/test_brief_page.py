"""The Brief page with the real engine on a small plan: the same facts as the record, text of people as text."""

from __future__ import annotations

import threading
import time
from html import escape

import pytest
from streamlit.testing.v1 import AppTest

import planner
from planner.brief import FORMATS, Brief, brief
from planner.brief import turns as turns_module
from planner.brief.pdf import PdfError
from planner.brief.turns import PENDING
from planner.fields import set_path
from planner.result import Result
from planner.scenario import Scenario
from tests.compare.compare_cases import BASE
from tests.ui.conftest import html, markdown
from ui import address, engine, library
from ui.compare.briefed import Compared
from ui.later import Later
from ui.pages import brief as page


def quick(scenario: Scenario) -> Result:
    return planner.plan(scenario, with_ranges=False, with_marginals=False)


@pytest.fixture(autouse=True)
def _real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "compute", lambda scenario, complete=True: quick(scenario))
    monkeypatch.setattr(turns_module, "looked_at", lambda scenario, assumptions: ["routing.sigma"])
    monkeypatch.setenv("TIERLINE_EXECUTOR", "here")
    page.KEPT.clear()
    page.WHOLE.clear()


def open_page(scenario: Scenario) -> AppTest:
    def script() -> None:
        from ui.app import main

        main("brief")

    at = AppTest.from_function(script, default_timeout=60)
    at.query_params["s"] = address.encode(scenario)
    return at.run()


def finished(at: AppTest) -> AppTest:
    """The page once nothing is still to come."""
    for _ in range(200):
        if "tl-working" not in html(at):
            return at
        time.sleep(0.1)
        at.run()
    raise AssertionError("the brief never came")


def test_page_shows_the_brief_and_offers_its_files() -> None:
    at = finished(open_page(BASE))
    assert not at.exception
    found = brief(BASE, planned=quick)
    text = html(at)
    assert escape(found.decision) in text
    for turn in found.turns:
        assert escape(turn).replace("&#x27;", "&#39;") in text.replace("&#34;", "&quot;")
    assert "routing.sigma" in text and "economics.pue" in text
    assert {one.key for one in at.get("download_button")} == {
        f"brief-{form}" for form in FORMATS if form not in ("json", "pdf")
    }


def test_files_do_not_wait_for_what_changes_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def completed(found: Brief, executor: object) -> Brief:
        go.wait(30)
        return found.model_copy(update={"turns": ("Flips here.", *found.turns), "turns_complete": True})

    monkeypatch.setattr(page, "completed", completed)
    at = open_page(BASE)
    assert "tl-working" in html(at) and PENDING in html(at)
    assert not any(one.disabled for one in at.get("download_button"))
    go.set()
    assert "Flips here." in html(finished(at.run())) and PENDING not in html(at)


def test_page_of_a_plan_that_does_not_fit() -> None:
    big = BASE.model_copy(update={"workload": BASE.workload.model_copy(update={"batch": 60_000})})
    at = open_page(big)
    assert not at.exception
    assert "Do not build this as planned" in html(at)


def test_page_of_what_cannot_be_planned_is_one_sentence() -> None:
    lost = BASE.model_copy(update={"system": BASE.system.model_copy(update={"id": "no-<b>such"})})
    at = open_page(lost)
    assert not at.exception
    assert "no\\-\\<b\\>such" in markdown(at)


def test_without_a_browser_the_page_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "browser", lambda: None)
    at = finished(open_page(BASE))
    assert "apt install chromium" in html(at)
    assert at.button(key="brief-pdf").disabled
    assert not any(one.disabled for one in at.get("download_button"))


def test_a_pdf_is_printed_then_saved_and_a_browser_that_cannot_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def prints(brief: Brief, form: str) -> bytes:
        if form == "pdf" and broken:
            raise PdfError("chromium did not print the brief within 60 s.")
        return b"%PDF"

    monkeypatch.setattr(page, "browser", lambda: "/bin/true")
    monkeypatch.setattr(page, "export", prints)
    at = finished(open_page(BASE))
    broken = True
    at.button(key="brief-pdf").click().run()
    assert not at.exception and "did not print the brief within 60 s" in markdown(at)
    broken = False
    at.button(key="brief-pdf").click().run()
    assert "brief-pdf-save" in {one.key for one in at.get("download_button")}


def test_later_tells_what_is_coming_and_what_failed() -> None:
    later: Later[int] = Later("test")

    def fails() -> int:
        raise ValueError("x")

    later.ask("good", lambda: 7)
    later.ask("bad", fails)
    for _ in range(100):
        if not later.pending("bad"):
            break
        time.sleep(0.02)
    assert later.ask("good", lambda: 8) == (7, False)
    assert later.ask("bad", fails) == (None, False)


def linked_page(token: str, compared: Compared) -> AppTest:
    def script() -> None:
        from ui.app import main

        main("brief")

    at = AppTest.from_function(script, default_timeout=60)
    at.query_params["scenario"] = token
    at.session_state["brief-compared"] = compared
    return at.run()


def test_compared_scenarios_are_the_options_and_a_link_page_names_no_address_of_the_library() -> None:
    store = library.store()
    saved = store.save(BASE, "Mine", "", None, author="Ada")
    token = store.create_link(saved.id, 1).token
    open_now = BASE.canonical_json()
    other = set_path(BASE, "workload.batch", 8)
    of_link = linked_page(token, Compared("Mine", BASE, saved, (("<b>other", other),), open_now))
    of_library = linked_page(token, Compared("Theirs", other, saved, (("Mine", BASE),), open_now))
    for at, name in ((of_link, "scenario=" + token), (of_library, "?s=")):
        assert not at.exception
        text = html(at)
        assert name in text and "saved=" not in text and saved.id not in text
        assert "What the options differ in" in text
    assert "&lt;b&gt;other" in html(of_link) and "<b>other" not in html(of_link)
    of_link.button(key="brief-open").click().run()
    assert "&lt;b&gt;other" not in html(of_link)


def test_another_open_scenario_ends_the_brief_of_the_compared() -> None:
    at = open_page(BASE)
    at.session_state["brief-compared"] = Compared("old", BASE, None, (("x", BASE),), "another scenario")
    assert "What the options differ in" not in html(at.run()) or ">x<" not in html(at)
    assert not any(one.key == "brief-open" for one in at.button)
