"""The section Simulate of the Plan page: with the real engine on a small model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

import planner
from planner.layout import SimulationOptions
from planner.layout.ablation import PUBLISHED
from planner.result import Result
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from planner.words.formats import significant
from tests.ui.conftest import html
from ui import address, engine, simulations
from ui.sections.simulate import FORM

Open = Callable[..., AppTest]
SMALL = Scenario(
    model=ModelChoice(id="allenai/OLMoE-1B-7B-0924"),
    system=SystemChoice(id="trimoe-server"),
    workload=Workload(batch=64, prompt_tokens=64, output_tokens=16),
    policy=PolicyChoice(id="trimoe", gpu_experts_per_layer=8),
)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, app: Open) -> AppTest:
    def compute(scenario: Scenario, complete: bool = True) -> Result:
        return planner.plan(scenario, with_ranges=False, with_marginals=False)

    monkeypatch.setattr(engine, "compute", compute)
    at = app(s=address.encode(SMALL))
    assert not at.exception
    at.text_input(key="simulate.steps").set_value("12").run()
    return at


def run(at: AppTest) -> AppTest:
    at.button(key="run-simulation").click()
    at.run(timeout=120)
    assert not at.exception
    return at


def test_every_option_of_the_record_has_an_input(page: AppTest) -> None:
    kinds = (page.toggle, page.selectbox, page.text_input)
    keys = {element.key for kind in kinds for element in kind}
    assert {f"simulate.options.{name}" for name in SimulationOptions.model_fields} <= keys


def test_run_shows_figures_chart_and_ablation(page: AppTest) -> None:
    before = len(page.get("plotly_chart"))
    assert "Load-prediction error" not in html(page)
    at = run(page)
    text = html(at)
    for said in ("A step takes", "Decision accuracy", "by rebalancing", "Overhead hidden", "Overhead exposed", "warm"):
        assert said in text, said
    assert len(at.get("plotly_chart")) == before + 1
    for chart, said in (("busy", "is busiest"), ("moved", "move"), ("error", "are off by")):
        at.segmented_control(key="simulated-chart").set_value(chart)
        at.run()
        assert said in html(at)
    at.button(key="run-simulated-ablation").click()
    at.run(timeout=120)
    text = html(at)
    assert "+ AMX CPU" in text
    assert all(significant(ratio) in text for ratio in PUBLISHED)


def test_page_shows_what_the_engine_says_and_computes_it_once(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, SimulationOptions]] = []
    whole = simulations.simulate

    def counted(scenario: Scenario, steps: int, options: SimulationOptions) -> object:
        calls.append((steps, options))
        return whole(scenario, steps, options)

    monkeypatch.setattr(simulations, "simulate", counted)
    page.toggle(key="simulate.options.prefetch").set_value(False)
    page.text_input(key="simulate.options.alpha").set_value("0,6")
    at = run(page)
    assert calls == [(12, SimulationOptions(prefetch=False, alpha=0.6))]
    found = whole(SMALL, 12, calls[0][1])
    assert f"{significant(found.tokens_per_s)} output tok/s" in html(at)
    assert "none by prefetch" in html(at)
    run(at)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("key", "typed", "said"),
    [
        ("simulate.steps", "0", "Steps is \u201c0\u201d; it takes a whole number from 1 to 4,096"),
        ("simulate.steps", "many", "Steps is \u201cmany\u201d"),
        ("simulate.options.alpha", "1.5", "EMA alpha is &quot;1.5&quot;; it takes a number from 0 to 1"),
        ("simulate.options.step_correlation", "", "Step correlation is &quot;&quot;; it takes a number from 0 to 1"),
    ],
)
def test_refused_input_says_why_and_loses_nothing(page: AppTest, key: str, typed: str, said: str) -> None:
    at = run(page)
    at.text_input(key=key).set_value(typed)
    run(at)
    text = html(at)
    assert said in text
    assert "Load-prediction error" in text
    assert at.text_input(key=key).value == typed


def test_engine_refusal_is_one_sentence(page: AppTest) -> None:
    page.toggle(key="simulate.options.cpu").set_value(False)
    page.toggle(key="simulate.options.ndp").set_value(False)
    at = run(page)
    assert "at least one of them must compute experts" in html(at)
    assert not at.error


def test_other_policies_have_no_such_section(app: Open) -> None:
    at = app()
    assert "Simulate" not in [element.value for element in at.subheader]


def test_form_reads_empty_optional_fields_as_nothing() -> None:
    assert FORM.specs()["window_s"].nullable
    assert FORM.specs()["alpha"].default == SimulationOptions().alpha
