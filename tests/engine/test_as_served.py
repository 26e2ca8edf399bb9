"""What clients in a closed loop would measure, as a plan's result, its words and its cards tell it."""

from __future__ import annotations

import pytest

from planner import plan
from planner.as_served import MOST_CLIENTS, Loop, requests_each
from planner.evaluate import evaluate
from planner.result import Result
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from planner.words import served


def served_plan(batch: int = 64, output: int = 256, *, policy: str = "all-gpu", system: str = "8x-h200-sxm") -> Result:
    return plan(scenario(batch, output, policy=policy, system=system), with_ranges=False, with_marginals=False,
                with_served=True)  # fmt: skip


def scenario(batch: int, output: int = 256, **chosen: str) -> Scenario:
    return Scenario(
        model=ModelChoice(id="mistralai/Mixtral-8x7B-v0.1"),
        system=SystemChoice(id=chosen.get("system", "8x-h200-sxm")),
        policy=PolicyChoice(id=chosen.get("policy", "all-gpu"), engine=chosen.get("engine")),
        workload=Workload(batch=batch, prompt_tokens=1000, output_tokens=output),
    )


def test_one_client_sees_the_step_and_its_own_prompt_alone() -> None:
    result = served_plan(batch=1)
    assert result.served is not None
    assert result.served.tpot_s == pytest.approx(result.headline.tpot_s, rel=0.01)
    assert result.served.ttft_s == pytest.approx(result.headline.ttft_s, rel=0.1)
    assert result.served.running == pytest.approx(1.0, abs=0.1)
    assert served.sentence(result) == served.first_token(result) == served.per_token(result) == ""


def test_many_clients_wait_for_each_other() -> None:
    result = served_plan()
    told, head = result.served, result.headline
    assert told is not None
    assert told.clients == 64
    assert told.requests == 640
    assert told.tpot_s is not None and head.tpot_s is not None and head.ttft_s is not None
    assert told.tpot_s > head.tpot_s
    assert told.ttft_s > head.ttft_s
    assert told.ttft_median_s <= told.ttft_p99_s
    assert 0 < told.running <= 64
    assert told.measured


def test_the_words_name_the_concurrency_and_whether_anything_was_measured() -> None:
    here, elsewhere = served_plan(), served_plan(8, policy="cpu-experts", system="h100-amx-server")
    assert served.first_token(here).startswith("as served to 64 clients: ")
    assert "64 clients who each send their next request when the last one ends" in served.sentence(here)
    assert "held against served runs" in served.sentence(here)
    assert "nothing of this kind was measured" in served.sentence(elsewhere)


def test_one_output_token_has_no_time_per_token() -> None:
    result = served_plan(output=1)
    assert result.served is not None
    assert result.served.tpot_s is None
    assert served.per_token(result) == ""
    assert "per further token" not in served.sentence(result)


def test_a_plan_that_does_not_fit_or_is_not_asked_says_nothing() -> None:
    small = scenario(1, policy="all-gpu", system="h100-amx-server")
    unfit = plan(small.model_copy(update={"model": ModelChoice(id="deepseek-ai/DeepSeek-V3")}), with_served=True,
                 with_ranges=False, with_marginals=False)  # fmt: skip
    assert not unfit.headline.fits
    assert unfit.served is None
    assert plan(scenario(4), with_ranges=False, with_marginals=False).served is None


def test_the_engine_decides_whether_running_requests_wait_for_prompts() -> None:
    waits = Loop.of(evaluate(scenario(64, engine="sglang")))
    rides = Loop.of(evaluate(scenario(64, engine="vllm")))
    assert (waits.mixed, rides.mixed) == (False, True)


def test_fewer_slots_than_clients_make_the_first_token_wait() -> None:
    loop = Loop.of(evaluate(scenario(32)))
    assert loop.played(64, 32).ttft_s > 2 * loop.played(64).ttft_s


def test_thousands_of_clients_send_fewer_requests_each() -> None:
    assert requests_each(1) == requests_each(2000) == 10
    assert requests_each(MOST_CLIENTS) == 2
