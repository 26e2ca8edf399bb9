"""The Plan page in every state: fits, does not fit, cannot run, refused, unforeseen."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from planner.errors import PlanError
from planner.result import Result
from planner.scenario import ModelChoice, PolicyChoice, Scenario, Workload
from tests.ui import fixture_result
from tests.ui.conftest import html, invented, markdown, texts
from ui import address, engine

Open = Callable[..., AppTest]
LARGE = Scenario(policy=PolicyChoice(id="trimoe"))
UNFIT = Scenario(policy=PolicyChoice(id="context-aware"), workload=Workload(batch=64))
LACKING = Scenario(policy=PolicyChoice(id="monde"))


def sections(at: AppTest) -> list[str]:
    return [element.value for element in at.subheader]


def charts(at: AppTest) -> int:
    return len(at.get("plotly_chart"))


def test_default_scenario_is_answered_at_once(app: Open) -> None:
    at = app()
    assert not at.exception
    assert not at.error
    assert at.title[0].value.startswith(":material/check_circle: Fits")
    assert sections(at) == [
        "Where every expert lives",
        "Where the time goes",
        "Memory by tier",
        "Energy and money",
        "What this rests on",
    ]


def test_every_card_has_value_unit_range_and_denominator(app: Open) -> None:
    at = app(s=address.encode(LARGE))
    cards = next(element.value for element in at.html if "tl-cards" in element.value)
    assert cards.count("<section") == 5
    for shown in ("3.10</p>", "3.10 <small>s</small>", "0.582 <small>s</small>", "880 <small>output tok/s</small>"):
        assert shown in cards or shown.endswith("</p>")
    assert re.search(r"0\.720 <small>(<abbr[^>]*>)?J/token", cards)
    assert "$1.19 <small>/M tokens</small>" in cards
    assert "0.490\u00a0\u2013\u00a00.700" in cards
    assert "per output token" in cards
    assert "$1\u202f660 per month" in cards


def test_every_chart_has_its_finding_as_alternative_text(app: Open) -> None:
    at = app(s=address.encode(LARGE))
    assert charts(at) == 5
    for chart in at.get("plotly_chart"):
        assert len(chart.proto.alt) > 40


def test_plan_that_does_not_fit_keeps_its_places_and_offers_changes(app: Open) -> None:
    at = app(s=address.encode(UNFIT))
    assert not at.exception
    assert "6\\.0 GB short".replace(" ", "\u00a0", 1) in at.title[0].value
    cards = next(element.value for element in at.html if "tl-cards" in element.value)
    assert cards.count("needs a plan that fits") == 5
    assert cards.count("\u2014") == 5
    assert sections(at) == [
        "What would make it fit",
        "Memory by tier",
        "Where every expert would live",
        "What this rests on",
    ]


def test_a_change_that_fits_is_applied_by_its_button(app: Open) -> None:
    at = app(s=address.encode(UNFIT))
    at.button(key="use-0").click().run()
    assert not at.exception
    assert at.session_state["scenario"].workload.batch == 58
    assert at.text_input(key="in.workload.batch").value == "58"
    assert address.decode(at.query_params["s"]).workload.batch == 58


def test_policy_whose_parts_are_missing_says_which(app: Open) -> None:
    at = app(s=address.encode(LACKING))
    assert not at.exception
    assert "needs NDP on the DIMMs" in at.title[0].value
    assert sections(at) == []
    assert charts(at) == 0


def test_refusal_of_the_engine_is_a_sentence_and_inputs_stay(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(scenario: Scenario, complete: bool) -> Result:
        raise PlanError("weights in FP4 cannot be computed on this GPU; choose another format")

    monkeypatch.setattr(engine, "compute", refuse)
    at = app()
    assert not at.exception
    assert "Weights in FP4 cannot be computed" in at.error[0].value
    assert at.text_input(key="in.workload.batch").value == "32"
    assert at.button(key="save")


def test_unforeseen_error_shows_a_sentence_without_traceback(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(scenario: Scenario, complete: bool) -> Result:
        raise ZeroDivisionError("secret internals")

    monkeypatch.setattr(engine, "compute", fail)
    at = app()
    assert not at.exception
    assert "Something unforeseen" in at.error[0].value
    assert "secret internals" not in texts(at)
    assert at.text_input(key="in.workload.batch").value == "32"


def test_failing_ranges_leave_the_figures_on_the_page(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_ranges(scenario: Scenario, complete: bool) -> Result:
        if complete:
            raise ZeroDivisionError
        return invented(scenario)

    monkeypatch.setattr(engine, "compute", no_ranges)
    at = app()
    assert not at.exception
    assert at.title[0].value.startswith(":material/check_circle: Fits")


def test_every_number_comes_from_the_one_result(app: Open) -> None:
    at = app(s=address.encode(LARGE))
    page = texts(at)
    result = fixture_result.large()
    assert "513\u00a0ms" in page
    assert "80.6 of 85.9" in page or any("85.9" in element.value for element in at.html)
    assert f"{result.placement.classes[0].experts}" in page


def test_pasted_markup_in_a_model_name_shows_literally(app: Open) -> None:
    at = app(s=address.encode(Scenario(model=ModelChoice(id="<b>x</b> $a$ $b$ [l](http://h)", config={"a": 1}))))
    assert not at.exception
    assert "<b>x</b>" not in html(at)
    assert "](http" not in markdown(at)
    assert "$a$" not in markdown(at)
