"""What holds of every Result: sums that are sums, money that is paid once, the same answer every time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from planner import plan
from planner.result import Result
from planner.routing import clear_cache
from planner.scenario import Scenario
from tests.engine.engine_laws import fitting_laws, is_a_sentence, round_trip, unfit_laws
from tests.engine.engine_scenarios import POLICIES, PUBLISHED, named, ordinary, scenarios, stretched

ROOT = Path(__file__).parents[2]


def planned(scenario: Scenario) -> Result:
    return plan(scenario, with_ranges=False, with_marginals=False)


def check(scenario: Scenario) -> None:
    """An answer that obeys the laws, or one sentence; never another error, never a NumPy warning."""
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        try:
            result = planned(scenario)
        except ValueError as error:
            is_a_sentence(error)
            return
    if result.headline.fits:
        fitting_laws(result)
    else:
        unfit_laws(result)
    round_trip(result)


@settings(max_examples=36, suppress_health_check=list(HealthCheck))
@given(scenarios(PUBLISHED, largest_batch=300))
def test_any_scenario_is_answered_and_its_sums_are_sums(scenario: Scenario) -> None:
    check(scenario)


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(scenarios(POLICIES))
def test_any_scenario_of_any_policy_at_any_batch(scenario: Scenario) -> None:
    check(scenario)


@settings(max_examples=24, suppress_health_check=list(HealthCheck))
@given(stretched())
def test_no_machine_however_odd_is_asked_for_more_than_it_has(scenario: Scenario) -> None:
    """The sum of flows over any shared resource stays within what it achieves, whatever its figures are."""
    check(scenario)


@pytest.mark.parametrize("scenario", ordinary(), ids=named)
def test_ordinary_scenarios_fit_and_obey_all_laws(scenario: Scenario) -> None:
    result = planned(scenario)
    assert result.headline.fits, result.headline.reasons
    fitting_laws(result)
    round_trip(result)


def test_every_policy_is_among_the_ordinary_scenarios() -> None:
    assert {s.policy.id for s in ordinary()} == set(POLICIES)


@pytest.mark.parametrize("scenario", ordinary()[:10], ids=named)
def test_the_same_scenario_gives_the_same_result(scenario: Scenario) -> None:
    first = planned(scenario)
    clear_cache()
    assert planned(Scenario.model_validate_json(scenario.model_dump_json())) == first


def test_another_process_gives_the_same_result() -> None:
    """Nothing depends on hash seeds, caches or what was planned before."""
    chosen = [ordinary()[0], ordinary()[8], ordinary()[9]]
    program = (
        "import hashlib, sys\n"
        "from planner import plan\n"
        "from planner.scenario import Scenario\n"
        "for line in sys.stdin:\n"
        "    result = plan(Scenario.model_validate_json(line), with_ranges=False, with_marginals=False)\n"
        "    print(hashlib.sha256(result.model_dump_json().encode()).hexdigest())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(s.model_dump_json() for s in reversed(chosen)),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(ROOT)},
    )
    here = [hashlib.sha256(planned(s).model_dump_json().encode()).hexdigest() for s in reversed(chosen)]
    assert ran.stdout.split() == here


def test_ranges_and_marginal_values_change_nothing_else() -> None:
    scenario = ordinary()[0]
    bare, full = planned(scenario), plan(scenario)
    assert full.headline.intervals and full.marginals
    asked = dict.fromkeys(("assumptions", "marginals", "bound", "accuracy", "served"), True)
    drop: Any = {"headline": {"intervals"}, **asked}
    assert bare.model_dump(exclude=drop) == full.model_dump(exclude=drop)


def test_the_headline_repeats_the_parts_of_the_result() -> None:
    result = planned(ordinary()[0])
    assert result.decode is not None and result.energy is not None and result.cost is not None
    assert result.capacity is not None
    head = result.headline
    assert head.tpot_s == result.decode.total_s
    assert head.energy_j_per_output_token == result.energy.j_per_output_token
    assert head.usd_per_million_output_tokens == result.cost.usd_per_million_output_tokens
    assert head.usd_per_million_input_tokens == result.cost.usd_per_million_input_tokens
    assert head.usd_per_month == result.capacity.usd_per_month
    assert result.scenario_hash == result.scenario.content_hash()
