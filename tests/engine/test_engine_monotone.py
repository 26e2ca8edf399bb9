"""More of a resource never hurts; what is learnt from noise catches noise; only what is true for certain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hardware import HardwareError, load_system
from planner.errors import PlanError
from planner.evaluate import Evaluation, evaluate
from planner.scenario import Scenario
from tests.engine.engine_scenarios import PUBLISHED, changed, named, ordinary, scenario, scenarios


def step_of(found: Evaluation) -> float:
    assert found.decode is not None, found.reasons
    return found.decode.step.total_s


# A scheduler that is no optimum may fall into another local one, so TriMoE is left out; later policies hold their own.
FIXED = [s for s in ordinary() if s.policy.id in PUBLISHED and s.policy.id != "trimoe"]


@pytest.mark.parametrize("chosen", FIXED, ids=named)
@pytest.mark.parametrize(
    "path",
    [
        "gpu.memory_bandwidth_bytes_per_s",
        "gpu.bf16_flop_per_s",
        "gpu.kv_bandwidth_efficiency",
        "cpu.vector_flop_per_s",
        "scaleup.bandwidth_bytes_per_s",
    ],
)
def test_a_faster_part_never_makes_a_step_slower(chosen: Scenario, path: str) -> None:
    value = load_system(chosen.system.id).get(path)
    assert value is not None
    faster = min(value * 1.5, 1.0) if path.endswith("efficiency") else value * 1.5
    assert step_of(evaluate(chosen, {path: faster}, quick=True)) <= step_of(evaluate(chosen, quick=True)) * (1 + 1e-12)


def test_a_resident_expert_saves_the_cpu_its_time() -> None:
    """CPU experts with the same routing: every further expert in HBM takes work from the slower device."""
    base = scenario(model__id="deepseek-ai/DeepSeek-V2-Lite", system__id="h100-amx-server", policy__id="cpu-experts")
    steps = [
        step_of(evaluate(changed(base, workload__batch=8, policy__gpu_experts_per_layer=kept)))
        for kept in (0, 1, 4, 16, 63)
    ]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] < steps[0]


def test_fewer_bits_never_make_cpu_experts_read_more() -> None:
    base = scenario(model__id="deepseek-ai/DeepSeek-V2-Lite", system__id="h100-amx-server", policy__id="cpu-experts")
    moved = []
    for bits in (16, 8, 4, 3, 2, 1):
        found = evaluate(changed(base, policy__weight_bits=bits), quick=True)
        assert found.decode is not None
        moved.append(found.decode.flows.dram_bytes)
    assert moved == sorted(moved, reverse=True)


def test_a_larger_batch_is_no_slower_in_total_while_launches_are_captured() -> None:
    """All GPU: weights are shared by more sequences. Beyond the captured batch launches jump, so stop there."""
    rates = []
    for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        step = step_of(evaluate(scenario(workload__batch=batch, system__id="8x-h100-sxm"), quick=True))
        rates.append(batch / step)
    assert all(later >= earlier * 0.999 for earlier, later in itertools.pairwise(rates)), rates


def test_a_longer_context_is_never_faster() -> None:
    steps = [step_of(evaluate(scenario(workload__prompt_tokens=tokens), quick=True)) for tokens in (1, 500, 4000, 9000)]
    assert steps == sorted(steps) and steps[0] < steps[-1]


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(scenarios(("all-gpu", "cpu-experts", "layer-streaming", "monde"), largest_batch=100), st.data())
def test_all_rates_faster_is_faster(chosen: Scenario, data: st.DataObject) -> None:
    path = data.draw(
        st.sampled_from(("gpu.memory_bandwidth_bytes_per_s", "dram.bandwidth_bytes_per_s", "gpu.bandwidth_efficiency"))
    )
    chosen = changed(chosen, policy__options={})
    value = load_system(chosen.system.id).get(path)
    assume(value is not None)
    assert value is not None
    # MoNDE moves more experts over a faster link, which is its rule and not always the faster choice: not the link.
    slower = {path: value * 0.7}
    try:
        before, after = evaluate(chosen), evaluate(chosen, slower)
    except (PlanError, HardwareError):
        assume(False)
    assume(before.decode is not None and after.decode is not None)
    assume(before.ready is not None and after.ready is not None)
    assert before.ready is not None and after.ready is not None
    assume(before.ready.attention_device == after.ready.attention_device)  # a choice between other resources
    assert step_of(after) >= step_of(before) * (1 - 1e-12)


def test_distinct_experts_are_at_most_the_pairs_and_the_experts() -> None:
    for batch in (1, 3, 30):
        found = evaluate(scenario(model__id="Qwen/Qwen3-30B-A3B", workload__batch=batch))
        assert found.routing is not None
        distinct = (found.routing.counts > 0).sum(axis=2)
        assert distinct.max() <= min(128, 8 * batch)
        assert distinct.min() >= 8


@pytest.mark.parametrize(("policy", "system"), [("cpu-experts", "h100-amx-server"), ("context-aware", "h100-cxl-ndp")])
def test_under_a_uniform_router_a_learnt_placement_catches_k_of_e(policy: str, system: str) -> None:
    """There is nothing to learn, so residents catch K/E of the traffic, within four standard errors, and no more."""
    kept, experts = 16, 64
    chosen = scenario(
        model__id="deepseek-ai/DeepSeek-V2-Lite",
        system__id=system,
        policy__id=policy,
        policy__gpu_experts_per_layer=kept,
        workload__batch=64,
        routing__source="uniform",
        routing__steps=16,
    )
    found = evaluate(chosen)
    assert found.placed is not None and found.routing is not None
    counts = found.routing.counts
    caught = float(np.where(found.placed.resident, counts, 0).sum() / counts.sum())
    error = np.sqrt(kept / experts * (1 - kept / experts) / counts.sum())
    assert abs(caught - kept / experts) < 4 * error


def test_under_a_skewed_router_a_learnt_placement_catches_more_than_its_share() -> None:
    chosen = scenario(
        model__id="deepseek-ai/DeepSeek-V2-Lite",
        system__id="h100-amx-server",
        policy__id="cpu-experts",
        policy__gpu_experts_per_layer=16,
        workload__batch=64,
    )
    found = evaluate(chosen)
    assert found.placed is not None and found.routing is not None
    counts = found.routing.counts
    assert float(np.where(found.placed.resident, counts, 0).sum() / counts.sum()) > 1.3 * 16 / 64


def test_a_lower_power_limit_slows_computing_and_not_reading() -> None:
    """Prefill of a long prompt computes, decode at batch 1 reads."""
    base = scenario(workload__batch=1, workload__prompt_tokens=8192, system__overrides={"gpu.overlap": 1.0})
    full, half = evaluate(base), evaluate(base, {"gpu.power_limit_w": 350.0})
    assert full.prefill is not None and half.prefill is not None
    assert full.decode is not None and half.decode is not None
    share = full.prefill.timing.step.bound_shares["gpu_compute"]
    assert share > 0.5
    # Half the power, half the rate: what computes takes twice as long, and no more than that is added.
    assert 1 + share <= half.prefill.prompt_s / full.prefill.prompt_s <= 2
    assert step_of(half) == step_of(full)
    assert full.decode.step.byte_floor_s == half.decode.step.byte_floor_s
