"""Hot, warm and cold experts in the report of a plan under TriMoE."""

from __future__ import annotations

import numpy as np
import pytest

from planner.layout import SimulationOptions, simulate
from planner.routing import Sequence
from planner.scenario import Scenario
from tests.policies.policy_cases import Case, case, tiny


def trimoe(schedule: str = "published") -> Scenario:
    options = {"start": "layout", "schedule": schedule}
    slow = {"ndp.flop_per_s": 2e10}
    return tiny("trimoe", options, batch=24, system="trimoe-server", over=slow, gpu_experts_per_layer=2)


def told(c: Case) -> tuple:
    details = c.policy.details(c.ctx, c.ready, c.placed, c.routing)
    assert details is not None
    return details.classes


def test_shares_of_every_definition_add_up() -> None:
    rows = told(case(trimoe()))
    for definition in {row.definition for row in rows}:
        mine = [row for row in rows if row.definition == definition]
        assert sum(row.expert_share for row in mine) == pytest.approx(1)
        assert sum(row.token_share for row in mine) == pytest.approx(1)
    assert {row.supported for row in rows if "cost model" in row.definition} == {True}
    assert {row.supported for row in rows if "cost model" not in row.definition} == {False}
    assert len({row.definition for row in rows}) == 3


def test_by_the_cost_model_they_are_the_domains_of_the_steps() -> None:
    """FLOP of each domain in the flows of the pass are the token shares of the classes."""
    c = case(trimoe())
    rows = {row.name: row.token_share for row in told(c) if row.supported}
    flows = c.policy.decode(c.ctx, c.ready, c.placed, c.routing).flows
    tokens = c.routing.counts.sum() / c.routing.counts.shape[0]
    routed = 2.0 * c.ctx.expert_parameters * tokens
    assert rows["warm (CPU)"] == pytest.approx(flows.cpu_flop / routed)
    assert rows["cold (DIMM)"] == pytest.approx(flows.ndp_flop / routed)
    assert rows["warm (CPU)"] > 0 and rows["cold (DIMM)"] > 0


def test_the_simulation_of_the_same_steps_says_the_same() -> None:
    c = case(trimoe())
    still = SimulationOptions(prefetch=False, relayout=False, rebalance=False)
    counts = c.routing.counts.copy()
    steps = Sequence(counts, np.zeros(counts.shape[0], np.int32), int(counts[0, 0].sum()), "given", None, None, None)
    assert simulate(trimoe(), options=still, sequence=steps).classes == told(c)


def test_the_improved_schedule_is_asked_for_one_step() -> None:
    c = case(trimoe("improved"))
    rows = {row.name: row for row in told(c) if row.supported}
    one = c.routing.counts[:1]
    assert rows["no tokens in the step"].expert_share == pytest.approx((one == 0).mean())
    loads = {row.definition: row for row in told(c) if row.name == "hot"}
    published = {row.definition: row for row in told(case(trimoe())) if row.name == "hot"}
    assert loads == published  # definitions by load rest on all steps
