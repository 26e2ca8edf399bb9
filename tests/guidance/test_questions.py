"""The example questions: answers are computed from plans, and say what those plans say."""

from __future__ import annotations

import re

import pytest

import planner
from planner.guidance.questions import QUESTIONS, Answer, gpu_experts, one_server, question
from planner.result import Result
from planner.scenario import Scenario
from planner.words.formats import share


def plan(scenario: Scenario) -> Result:
    return planner.plan(scenario, with_ranges=False, with_marginals=False)


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return {each.id: each.solve(plan) for each in QUESTIONS}


def test_every_option_is_a_scenario_of_its_own_and_the_chosen_one_fits(answers: dict[str, Answer]) -> None:
    for answer in answers.values():
        hashes = [option.scenario.content_hash() for option in answer.options]
        assert len(set(hashes)) == len(hashes)
        assert answer.options[answer.chosen].result.headline.fits
        assert answer.sentence.endswith(".")


def test_the_claim_about_one_server_is_judged_on_its_own_figures(answers: dict[str, Answer]) -> None:
    answer = answers["one-server"]
    one, seven, eight = (option.result.headline.tokens_per_s_system for option in answer.options)
    assert one and seven and eight
    assert f"{share(one / seven)} and {share(one / eight)}" in answer.sentence
    assert answer.sentence.startswith("Yes" if one / eight >= one_server.CLAIMED_RATE else "No")


def test_a_faster_server_would_turn_the_answer() -> None:
    """The verdict follows the results: with a planner that makes the one server fast and cheap, it says yes."""

    def kind(scenario: Scenario) -> Result:
        found = plan(scenario)
        if scenario.system.id != "trimoe-server":
            return found
        assert found.cost is not None
        return found.model_copy(
            update={
                "headline": found.headline.model_copy(update={"tokens_per_s_system": 1e6}),
                "cost": found.cost.model_copy(update={"capex_usd": 1000.0}),
            }
        )

    assert one_server.QUESTION.solve(kind).sentence.startswith("Yes")


def test_the_largest_number_of_resident_experts_is_exact(answers: dict[str, Answer]) -> None:
    most = gpu_experts.largest_that_fits(plan)
    assert 0 < most < gpu_experts.EXPERTS
    names = [option.name for option in answers["gpu-experts"].options]
    assert names[-1].startswith(f"{most + 1} of")
    assert not answers["gpu-experts"].options[-1].result.headline.fits
    assert answers["gpu-experts"].options[-2].result.headline.fits


def test_faster_memory_is_never_slower(answers: dict[str, Answer]) -> None:
    rates = [option.result.headline.tokens_per_s_system or 0.0 for option in answers["faster-dram"].options]
    assert rates[:4] == sorted(rates[:4])
    assert rates[4:] == sorted(rates[4:])
    percents = [int(text) for text in re.findall(r"(\d+)\s%", answers["faster-dram"].sentence)]
    assert percents[0] == 33
    assert 0 < percents[1] <= 33


def test_an_unknown_question_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="known questions are one-server"):
        question("nothing")
    with pytest.raises(ValueError, match=r"; the nearest is one-server\.$"):
        question("one-servr")
    with pytest.raises(ValueError, match="u202e") as caught:
        question("\u202e" + "r" * 5000)
    assert len(str(caught.value)) < 300
