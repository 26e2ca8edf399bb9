"""Rates and time: c times every rate is one c-th of all time that is not fixed, under every policy."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from hardware import HardwareError, path_schema
from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.result import Step
from planner.scenario import Scenario
from tests.engine.engine_scenarios import PUBLISHED, named, ordinary, rates_times, scenarios

# A power of two scales every float exactly, so that no decision of a scheduler can flip by rounding.
FACTORS = (0.5, 4.0)


def scaled_apart_from_fixed(before: Step, after: Step, factor: float) -> None:
    assert after.fixed_s == pytest.approx(before.fixed_s, rel=1e-9)
    assert (after.total_s - after.fixed_s) * factor == pytest.approx(before.total_s - before.fixed_s, rel=1e-6)
    assert after.byte_floor_s * factor == pytest.approx(before.byte_floor_s, rel=1e-9)
    assert after.flop_floor_s * factor == pytest.approx(before.flop_floor_s, rel=1e-9)


@pytest.mark.parametrize("chosen", ordinary(), ids=named)
def test_scaling_every_rate_scales_all_but_fixed_time(chosen: Scenario) -> None:
    before = evaluate(chosen, quick=True)
    assert before.decode is not None and before.prefill is not None
    mode = chosen.model_copy(update={"policy": chosen.policy.model_copy(update={"prefill": before.prefill.mode})})
    for factor in FACTORS:
        after = evaluate(mode, rates_times(chosen, factor), quick=True)
        assert after.decode is not None and after.prefill is not None
        scaled_apart_from_fixed(before.decode.step, after.decode.step, factor)
        scaled_apart_from_fixed(before.prefill.timing.step, after.prefill.timing.step, factor)


@settings(max_examples=16, suppress_health_check=list(HealthCheck))
@given(scenarios(PUBLISHED, largest_batch=200))
def test_scaling_holds_for_any_scenario(chosen: Scenario) -> None:
    try:
        before = evaluate(chosen)
        assume(before.decode is not None)
        after = evaluate(chosen, rates_times(chosen, 2.0))
    except (PlanError, HardwareError):
        assume(False)
    assert before.decode is not None and after.decode is not None
    scaled_apart_from_fixed(before.decode.step, after.decode.step, 2.0)


@pytest.mark.parametrize("chosen", ordinary()[:10], ids=named)
def test_scaling_times_and_rates_together_scales_everything(chosen: Scenario) -> None:
    """Twice the rates and half of every latency: half of every second, and as many joules for moving and computing."""
    before = evaluate(chosen, quick=True)
    system = before.ctx.machine.figures.system
    latencies = {s.path: (system.get(s.path) or 0.0) / 2 for s in path_schema() if s.unit == "s" and system.get(s.path)}
    after = evaluate(chosen, {**rates_times(chosen, 2.0), **latencies}, quick=True)
    assert before.serving is not None and after.serving is not None
    assert before.decode is not None and after.decode is not None
    assert after.serving.ttft_s * 2 == pytest.approx(before.serving.ttft_s, rel=1e-9)
    assert after.serving.tpot_s * 2 == pytest.approx(before.serving.tpot_s, rel=1e-9)
    assert after.serving.tokens_per_s_end_to_end == pytest.approx(2 * before.serving.tokens_per_s_end_to_end, rel=1e-9)
    assert after.decode.step.p99_s * 2 == pytest.approx(before.decode.step.p99_s, rel=1e-9)
    assert after.decode.step.bound_shares == pytest.approx(before.decode.step.bound_shares)
