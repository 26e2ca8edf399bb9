"""Caches run on steps in order: locality, turnover and a trace's own order reach their hit rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planner.cache_kernel import stack_positions
from planner.evaluate import Evaluation, evaluate
from planner.policies import catalog, get
from planner.result import Details
from planner.routing import routing_sequence, routing_state
from planner.routing.drift import STEP_CORRELATION
from planner.scenario import RoutingChoice
from tests.engine.engine_scenarios import changed, scenario
from tests.policies.test_bound_of_all import machines

ORDERED = tuple(e.id for e in catalog() if get(e.id).ordered)
OLMOE, LITE = "allenai/OLMoE-1B-7B-0924", "deepseek-ai/DeepSeek-V2-Lite"


def details(found: Evaluation) -> Details | None:
    assert found.ready is not None and found.placed is not None and found.routing is not None
    return found.policy.details(found.ctx, found.ready, found.placed, found.routing)


def hit_rate(**parts: Any) -> float:
    """Share of the expert reads that are found in HBM, all caches of the policy together."""
    told = details(evaluate(scenario(**parts)))
    assert told is not None and told.caches
    return sum(c.hit_rate for c in told.caches) / len(told.caches)


def test_the_registry_has_caches() -> None:
    assert len(ORDERED) >= 6


@pytest.mark.parametrize("policy", [e.id for e in catalog()])
def test_who_reports_a_cache_is_timed_on_steps_in_order(policy: str) -> None:
    found = evaluate(
        scenario(
            model__id=OLMOE,
            system__id=machines(policy)[0],
            workload__batch=2,
            policy__id=policy,
            policy__gpu_experts_per_layer=None if policy == "all-gpu" else 8,
            routing__steps=8,
        )
    )
    told = details(found) if found.placed else None
    assert bool(told and told.caches) == found.policy.ordered
    assert found.routing is not None
    assert ("decode steps in order" in found.routing.learned_on) == found.policy.ordered


@pytest.mark.parametrize("policy", ORDERED)
def test_more_locality_means_more_hits(policy: str) -> None:
    base: dict[str, Any] = {
        "model__id": OLMOE,
        "system__id": "desktop-rtx4090",
        "workload__batch": 1,
        "policy__id": policy,
        "policy__gpu_experts_per_layer": 16,
        "routing__drift_share": 0.0,
    }
    none, much = (hit_rate(**base, routing__locality=s) for s in (0.0, 0.9))
    assert none + 0.02 < much


@pytest.mark.parametrize("policy", ["wisp", "moe-infinity"])
def test_turnover_of_requests_costs_hits(policy: str) -> None:
    """Requests of 4 steps against requests of 4,096: new ones want other experts."""
    base: dict[str, Any] = {
        "model__id": OLMOE,
        "system__id": "desktop-rtx4090",
        "workload__batch": 1,
        "policy__id": policy,
        "policy__gpu_experts_per_layer": 16,
        "routing__sigma_request": 2.0,
        "routing__steps": 128,
    }
    assert hit_rate(**base, workload__output_tokens=4) + 0.05 < hit_rate(**base, workload__output_tokens=4096)


def test_hit_rates_of_an_lru_cache_are_near_the_published_ones() -> None:
    """DeepSeek-V4-Flash, slots of each layer's 256 experts and hit rates as published (hipfire); nothing fitted to it.

    Independent steps give 0.10, 0.20, 0.36, 0.62, 0.95: the cause of the difference is the order of the steps.
    """
    published = {14: 0.405, 28: 0.594, 56: 0.744, 112: 0.865, 224: 0.91}

    def rates(locality: float) -> np.ndarray:
        state = routing_state(RoutingChoice(locality=locality), "", 8, 256, 6, 1, 1, 1024, 64, 400, 1024)
        positions = stack_positions((state.counts > 0).astype(np.uint8), state.context, 100).sum(axis=0)
        found = np.cumsum(positions) / positions.sum()
        return np.array([found[slots - 1] for slots in published])

    truth = np.array(list(published.values()))
    assert np.abs(rates(RoutingChoice().locality) - truth).max() < 0.09
    assert np.abs(rates(0.0) - truth).max() > 0.35


def test_wisp_sees_them_too() -> None:
    found = hit_rate(
        model__id="deepseek-ai/DeepSeek-V4-Flash",
        system__id="h100-amx-server",
        workload__batch=1,
        policy__id="wisp",
        policy__gpu_experts_per_layer=28,
        policy__options={"slots": "equal"},
    )
    assert found == pytest.approx(0.594, abs=0.09)


def test_a_trace_runs_in_its_own_order() -> None:
    """The steps are those of the trace, and more alike than the same steps shuffled."""
    base = scenario(
        model__id=LITE,
        system__id="desktop-rtx4090",
        workload__batch=1,
        routing__source="trace",
        routing__trace="deepseek-v2-lite-law",
        routing__steps=300,
        policy__id="wisp",
        policy__gpu_experts_per_layer=16,
    )
    found = evaluate(base)
    ctx, state = found.ctx, found.routing
    assert state is not None
    order = routing_sequence(base.routing, ctx.arch.id, ctx.moe_layers, ctx.experts, ctx.top_k, 1, 1, 300)
    assert np.array_equal(state.counts, order.counts)
    assert "second halves" in state.learned_on
    shuffled = state.counts[np.random.default_rng(0).permutation(300)]
    slots = [
        np.cumsum(stack_positions((c > 0).astype(np.uint8), state.context, 75).sum(axis=0))[15]
        for c in (state.counts, shuffled)
    ]
    assert slots[0] > slots[1] * 1.02


def test_the_steps_are_those_of_the_sequence() -> None:
    """Drift and locality as the scenario states them, none under a uniform router; the rest as for other policies."""
    choice = RoutingChoice(locality=0.3, drift_share=0.6)
    sizes = (3, 16, 2, 5, 1)
    state = routing_state(choice, "", *sizes, 64, 32, 12, 40)
    same = routing_sequence(choice, "", *sizes, 12, 0.6, STEP_CORRELATION, 0.3, 40)
    assert np.array_equal(state.counts, same.counts)
    plain = routing_state(choice, "", *sizes, 64, 32, 12)
    assert plain.counts.shape == state.counts.shape and not np.array_equal(plain.counts, state.counts)
    for name in ("profile", "context", "context_scores", "prefill_counts", "gate_weights"):
        assert np.array_equal(getattr(plain, name), getattr(state, name)), name
    flat = RoutingChoice(source="uniform", locality=0.9)
    even = routing_state(flat, "", *sizes, 64, 32, 12, 40)
    assert np.array_equal(
        even.counts, routing_sequence(flat, "", *sizes, 12, 0.0, locality=0.0, request_steps=40).counts
    )


def test_other_policies_do_not_depend_on_it() -> None:
    base = scenario(model__id=OLMOE, workload__batch=4, policy__id="all-gpu")
    one, other = (evaluate(changed(base, routing__locality=s)) for s in (0.0, 0.9))
    assert one.decode is not None and other.decode is not None and one.decode.step == other.decode.step
