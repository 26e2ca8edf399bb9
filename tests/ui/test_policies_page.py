"""The Policies page, and what a policy reports on the Plan page: with the real engine on a small plan."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import pytest
from streamlit.testing.v1 import AppTest

import planner
from planner.policies import catalog, get
from planner.policies.places import PLACES
from planner.result import Result
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from planner.words.formats import capital
from tests.ui.conftest import html
from ui import address, engine

Open = Callable[..., AppTest]
SMALL = ModelChoice(id="allenai/OLMoE-1B-7B-0924")
CONTEXT = Scenario(
    model=SMALL,
    system=SystemChoice(id="h100-cxl-ndp"),
    workload=Workload(batch=1, prompt_tokens=64, output_tokens=16),
    policy=PolicyChoice(id="context-aware", gpu_experts_per_layer=8),
)


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(scenario: Scenario, complete: bool = True) -> Result:
        return planner.plan(scenario, with_ranges=False)

    monkeypatch.setattr(engine, "compute", compute)


def test_every_policy_is_described() -> None:
    assert set(PLACES) == {entry.id for entry in catalog()}


def test_page_lists_all_policies_and_ranks_when_asked() -> None:
    def script() -> None:
        from ui.app import main

        main("policies")

    at = AppTest.from_function(script, default_timeout=60)
    at.query_params["s"] = address.encode(CONTEXT)
    at.run()
    assert not at.exception
    text = html(at)
    for entry in catalog():
        policy, places = get(entry.id), PLACES[entry.id]
        for said in (entry.name, entry.source, *policy.notes, *(capital(words) for words in places)):
            assert escape(said) in text, (entry.id, said)
    at.button(key="rank").click()
    at.run(timeout=120)
    assert not at.exception
    assert "times worse" in html(at) or "no other policy fits" in html(at)


@pytest.mark.usefixtures("real")
def test_plan_page_shows_bound_selector_and_ablation(app: Open) -> None:
    at = app(s=address.encode(CONTEXT))
    assert not at.exception
    text = html(at)
    assert "nothing on this machine beats" in text
    assert "Bit widths under a mean of 3" in text
    assert "Hot-set migration that shows" in text
    at.button(key="run-ablation").click()
    at.run(timeout=120)
    assert not at.exception
    text = html(at)
    assert "Placement only" in text
    assert "Placement alone gives" in text
    for group in ("Alpha", "K, hot experts per layer", "Hot set", "Budgets"):
        assert f">{group}</th>" in text
    assert not [button for button in at.button if button.key == "run-ablation"]
