"""Tasks are taken back where a layer does not gain by them what they cost."""

from __future__ import annotations

import numpy as np
import pytest

from planner.layout import SimulationOptions, loads, simulate
from planner.layout.assign import predicted_makespan_s, schedule
from planner.layout.decide import decide, take_back
from planner.layout.reference import withdraw
from planner.layout.simulation import Run, prepare
from planner.layout.state import IDLE, LOCALISE, PREFETCH, REBALANCE, STRIPE, STRIPED, Sizes, State, begin
from planner.layout.tasks import Rates, empty_moved
from planner.layout.worth import charge_s, keep, layout_after, new_tasks
from planner.policies.trimoe_costs import expert_costs
from planner.scenario import ModelChoice, PolicyChoice, RoutingChoice, Scenario, SystemChoice, Workload
from tests.layout.layout_cases import case, one_round

SIZES = Sizes(np.full((2, 5), 12.0), 8.0, 1, 1e9, 4)
RATES = Rates(1.0, 1.0, 1.0, 2, rank=3.0, host_read=2.0, chain=False)


def some_tasks() -> State:
    """Layer 0: expert 0 resident and leaving for 1, 2 to DIMM 3, 3 from DIMM 1 to 2; layer 1: 4 from DIMM 0 striped."""
    resident = np.zeros((2, 5), bool)
    resident[0, 0] = True
    home = np.array([[-1, -1, -1, 1, 0], [0, 0, 0, 0, 0]])
    state = begin(resident, home, SIZES)
    for layer, e, kind, target, left in (
        (0, 1, PREFETCH, 0, 8.0), (0, 2, LOCALISE, 3, 9.0), (0, 3, REBALANCE, 2, 12.0), (1, 4, STRIPE, -1, 9.0),
    ):  # fmt: skip
        state.kind[layer, e], state.target[layer, e], state.left[layer, e] = kind, target, left
    state.leaving[0, 0] = True
    return state


def test_the_layout_that_tasks_lead_to_by_hand() -> None:
    state = some_tasks()
    home, resident = layout_after(state, state.kind != IDLE)
    assert home.tolist() == [[-1, -1, 3, 2, 0], [0, 0, 0, 0, STRIPED]]
    assert resident[0].tolist() == [False, True, False, False, False]
    none, same = layout_after(state, np.zeros((2, 5), bool))
    assert (none == state.home).all() and (same == state.resident).all()


def test_what_tasks_take_from_the_dimms_by_hand() -> None:
    """Rank 3 bytes/s, four DIMMs: 2 x 9 and 2 x 12 bytes between DIMMs, 8 read at 2 bytes/s for HBM; 2 x 9."""
    state = some_tasks()
    cost = charge_s(state, SIZES, RATES, new_tasks(state))
    assert cost.tolist() == pytest.approx([(42 / 3 + 8 / 2) / 4, (18 / 3) / 4])


@pytest.mark.parametrize(("gain", "kept"), [(0.0, False), (0.29, False), (0.31, True)])
def test_a_layer_keeps_its_tasks_only_if_it_gains_more_than_alpha_of_their_cost(gain: float, kept: bool) -> None:
    state = some_tasks()
    fresh = state.kind.copy()
    keep(state, SIZES, fresh, np.array([5.0, 5.0]), np.array([5.0 - gain, 6.0]), np.array([1.0, 1.0]), 0.3)
    assert (state.kind[0] != IDLE).sum() == (3 if kept else 0)
    assert (fresh[0] != IDLE).any() == kept
    assert state.leaving[0, 0] == kept
    assert (state.kind[1] == IDLE).all()


@pytest.mark.parametrize("seed", range(6))
def test_taking_back_is_that_of_its_plain_twin_and_leaves_nothing_reserved(seed: int) -> None:
    cases = [case(seed, layers=3), case(seed, layers=3)]
    mask = np.array([True, False, True])
    for given in cases:
        one_round(given, 0, empty_moved(given.sizes, given.rates), plain=False)
        decide(given.state, given.sizes, given.predicted[1], np.ascontiguousarray(given.cost[1]), given.base_s, 0.001)
    held = cases[0].state.held.copy()
    take_back(cases[0].state, cases[0].sizes, mask)
    withdraw(cases[1].state, cases[1].sizes, mask)
    for name in ("kind", "target", "left", "leaving", "started"):
        np.testing.assert_array_equal(getattr(cases[0].state, name), getattr(cases[1].state, name))
    np.testing.assert_allclose(cases[0].state.held, cases[1].state.held, rtol=1e-12)
    assert not new_tasks(cases[0].state)[mask].any()
    assert cases[0].state.held.sum() <= held.sum() * (1 + 1e-12)


# --- in simulations --------------------------------------------------------------------------------------------------
def scenario(sigma: float = 1.0, **workload: object) -> Scenario:
    return Scenario(
        model=ModelChoice(id="deepseek-ai/DeepSeek-V2-Lite"),
        system=SystemChoice(id="trimoe-server"),
        workload=Workload(**{"batch": 256, "prompt_tokens": 200, "output_tokens": 100, **workload}),  # type: ignore[arg-type]
        routing=RoutingChoice(sigma=sigma, sigma_request=0, sigma_phase=0),
        policy=PolicyChoice(id="trimoe", options={"start": "layout"}, gpu_experts_per_layer=4),
    )


def test_predicted_makespans_at_certain_loads_are_those_of_the_schedule() -> None:
    """At loads so large that every expert is hit for certain, prediction and truth are one."""
    chosen = scenario()
    setting = prepare(chosen, SimulationOptions())
    counts = loads(chosen, 1, SimulationOptions(), setting).counts + 60
    base, options = setting.frame.base_s, setting.options
    costs = expert_costs(setting.ctx, setting.placed, counts)
    true = schedule(setting.ctx, setting.placed, counts, costs, base, options).makespan_s
    placed = setting.placed
    found = predicted_makespan_s(setting.ctx, placed, placed.home, placed.resident, counts[0] * 1.0, base, options)
    np.testing.assert_allclose(found, true, rtol=1e-9)


def test_no_load_at_all_is_a_finite_prediction() -> None:
    setting = prepare(scenario(), SimulationOptions())
    placed = setting.placed
    nothing = np.zeros(placed.home.shape)
    found = predicted_makespan_s(
        setting.ctx, placed, placed.home, placed.resident, nothing, setting.frame.base_s, setting.options
    )
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, setting.frame.base_s, rtol=1e-6)


def test_what_stays_promises_to_pay_for_itself() -> None:
    chosen = scenario()
    options = SimulationOptions(drift_share=0.4)
    setting = prepare(chosen, options)
    run = Run(setting, loads(chosen, 30, options, setting))
    assert sum(run.rows["decisions"]) > 0
    state = run.state
    average = setting.first_load
    base = setting.frame.base_s
    cost = np.random.default_rng(0).uniform(1e-4, 1e-3, (*state.kind.shape, 3))
    fresh = decide(state, setting.sizes, average, cost, base, 0.001)  # costs that have nothing to do with the loads
    run._weigh(average, fresh)
    new = new_tasks(state)
    before, after = (
        predicted_makespan_s(setting.ctx, setting.placed, *layout_after(state, tasks), average, base, options)
        for tasks in ((state.kind != IDLE) & ~new, state.kind != IDLE)
    )
    left = new.any(axis=1)
    assert (fresh[~left] == IDLE).all()
    assert (before - after >= options.alpha * charge_s(state, setting.sizes, setting.rates, new))[left].all()


@pytest.mark.parametrize("sigma", [0.7, 1.15])
def test_without_drift_weighing_moves_fewer_bytes_and_costs_no_time(sigma: float) -> None:
    """Decisions on noise: the loads do not change, so what moves can only follow the sampling of single steps."""
    chosen = scenario(sigma)
    sequence = loads(chosen, 48, SimulationOptions(drift_share=0.0))
    blind, weighed = (
        simulate(chosen, options=SimulationOptions(weigh=weigh), sequence=sequence) for weigh in (False, True)
    )
    assert sum(weighed.bytes_per_step.values()) < sum(blind.bytes_per_step.values())
    assert weighed.mean_step_s <= blind.mean_step_s * 1.002
    assert (weighed.decision_accuracy or 0) >= (blind.decision_accuracy or 0) - 0.02
