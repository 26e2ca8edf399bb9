"""No step is faster than the bytes that it must read or the FLOP that it must do, counted here a second time."""

from __future__ import annotations

import numpy as np
import pytest

import models
from hardware import load_system
from planner.evaluate import Evaluation, evaluate
from planner.scenario import Scenario
from tests.engine.engine_scenarios import changed, named, ordinary, scenario


@pytest.mark.parametrize("chosen", ordinary(), ids=named)
def test_no_step_is_below_its_floors(chosen: Scenario) -> None:
    found = evaluate(chosen)
    assert found.decode is not None and found.prefill is not None
    for step in (found.decode.step, found.prefill.timing.step):
        assert step.byte_floor_s > 0
        assert step.flop_floor_s > 0
        assert step.total_s >= step.byte_floor_s
        assert step.total_s >= step.flop_floor_s


def bytes_of_a_decode_step(found: Evaluation, ranks: int) -> float:
    """HBM bytes of an all-GPU tensor-parallel step, from the published sizes alone: BF16, grouped-query attention."""
    assert found.routing is not None
    ctx = found.ctx
    arch, w = ctx.arch, ctx.scenario.workload
    counts = models.parameters(arch).by_component
    distinct = float((found.routing.counts > 0).sum(axis=(1, 2)).mean())
    # Every weight is read once per pass, but of the input table; routers lie on every rank.
    outside = sum(n for name, n in counts.items() if name not in ("routed", "embed", "router"))
    weights = 2.0 * (distinct * arch.expert_parameters + outside + ranks * counts["router"])
    mean_context = w.prompt_tokens + w.output_tokens / 2.0
    return weights + w.batch * mean_context * models.kv_bytes_per_token(arch, "bf16")


@pytest.mark.parametrize("batch", [1, 3, 32, 200])
def test_the_byte_floor_of_tensor_parallel_is_what_must_be_read(batch: int) -> None:
    chosen = scenario(system__id="8x-h100-sxm", workload__batch=batch, workload__prompt_tokens=2000)
    found = evaluate(chosen)
    assert found.decode is not None and found.ready is not None and found.ready.layout.tensor == 8
    rate = 8 * load_system("8x-h100-sxm").value("gpu.memory_bandwidth_bytes_per_s")
    expected = bytes_of_a_decode_step(found, 8) / rate
    # The final norm (8 kB) is not charged to any layer.
    assert found.decode.step.byte_floor_s == pytest.approx(expected, rel=1e-4)
    assert found.decode.step.total_s > expected


def test_the_flop_floor_of_tensor_parallel_is_two_per_active_weight_and_the_attention() -> None:
    chosen = scenario(system__id="2x-h100-sxm", workload__batch=64)
    found = evaluate(chosen)
    assert found.decode is not None
    arch = found.ctx.arch
    count = models.parameters(arch)
    active = count.active - count.by_component["embed"] + count.by_component["router"]  # routers run on both GPUs
    attention = float(np.mean([models.attention_flops(arch, float(c)).sum() for c in found.ctx.decode_contexts]))
    rate = 2 * load_system("2x-h100-sxm").value("gpu.bf16_flop_per_s")
    assert found.decode.step.flop_floor_s == pytest.approx(64 * (2 * active + attention) / rate, rel=1e-4)


def test_mixtral_on_two_h100_at_batch_32_lies_where_it_was_measured() -> None:
    """The acceptance case: 14.6 ms are the bytes over 2 x 3.35 TB/s, 32 ms what real engines stay below."""
    found = evaluate(scenario(workload__batch=32, workload__prompt_tokens=1024))
    assert found.decode is not None
    # The skewed load misses an expert of a layer now and then, so its floor lies a little below that of all experts.
    assert 14.2e-3 <= found.decode.step.byte_floor_s <= 14.61e-3
    assert 14.6e-3 <= found.decode.step.total_s <= 32e-3


def test_a_verify_pass_reads_the_distinct_experts_of_all_drafted_tokens() -> None:
    """Four tokens of a sequence hit more experts than one, and at most four times as many."""
    plain = scenario(
        model__id="deepseek-ai/DeepSeek-V3",
        system__id="16x-h200-sxm",
        workload__batch=16,
        policy__tensor_parallel=16,
        routing__steps=4,
    )
    one, drafted = evaluate(plain), evaluate(changed(plain, workload__draft_tokens=3, workload__draft_acceptance=0.0))
    assert one.routing is not None and drafted.routing is not None
    assert one.decode is not None and drafted.decode is not None

    def distinct(found: Evaluation) -> float:
        assert found.routing is not None
        return float((found.routing.counts > 0).sum(axis=2).mean())

    assert drafted.routing.tokens_per_pass == 4 * one.routing.tokens_per_pass == 64
    assert distinct(one) < distinct(drafted) <= min(256.0, 4 * distinct(one))
    # Nothing accepted: the pass yields one token per sequence as before, and takes longer.
    assert drafted.decode.step.total_s > one.decode.step.total_s
    assert drafted.decode.step.byte_floor_s > one.decode.step.byte_floor_s


@pytest.mark.parametrize("acceptance", [0.0, 0.5, 1.0])
def test_a_pass_yields_what_is_accepted(acceptance: float) -> None:
    """1 + a + a^2 + a^3 tokens of a pass with three drafts share its time."""
    base = scenario(workload__batch=4, workload__draft_tokens=3, workload__draft_acceptance=0.0)
    none, some = evaluate(base), evaluate(changed(base, workload__draft_acceptance=acceptance))
    assert none.decode is not None and some.decode is not None
    yields = 1 + acceptance + acceptance**2 + acceptance**3
    assert some.decode.step.total_s * yields == pytest.approx(none.decode.step.total_s, rel=1e-12)
    assert some.decode.step.byte_floor_s * yields == pytest.approx(none.decode.step.byte_floor_s, rel=1e-12)
