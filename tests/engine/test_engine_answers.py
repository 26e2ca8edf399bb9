"""Answers instead of errors: what does not fit, what lacks a part, what was asked wrongly."""

from __future__ import annotations

import re
from typing import Any

import pytest

import models
from planner import plan
from planner.evaluate import evaluate
from planner.fields import set_paths
from planner.physics.memory import fits
from planner.result import Result
from planner.scenario import Scenario
from planner.sensitivity import marginals
from tests.engine.engine_laws import is_a_sentence, unfit_laws
from tests.engine.engine_scenarios import CAPABLE, PUBLISHED, SYSTEMS, changed, named, ordinary, scenario


def planned(chosen: Scenario) -> Result:
    return plan(chosen, with_ranges=False, with_marginals=False)


def in_memory(chosen: Scenario) -> bool:
    found = evaluate(chosen, stop_at="memory")
    assert found.ready is not None
    return fits(found.ready.ledger)


UNFIT = (
    scenario(system__id="1x-h100-sxm"),  # 93 GB of weights on 80
    scenario(system__id="2x-h100-sxm", workload__batch=4096, workload__prompt_tokens=8192),
    scenario(model__id="deepseek-ai/DeepSeek-V3", system__id="8x-h100-sxm"),
    scenario(model__id="deepseek-ai/DeepSeek-V3", system__id="desktop-rtx4090", policy__id="cpu-experts"),
    scenario(
        model__id="mistralai/Mixtral-8x22B-v0.1",
        system__id="desktop-rtx4090",
        policy__id="layer-streaming",
        workload__prompt_tokens=30000,
    ),
    scenario(model__id="moonshotai/Kimi-K2-Instruct", system__id="h100-cxl-ndp", policy__id="monde"),
    scenario(model__id="deepseek-ai/DeepSeek-V3", system__id="h100-cxl-ndp", policy__id="context-aware"),
    scenario(
        model__id="mistralai/Mixtral-8x22B-v0.1",
        system__id="trimoe-server",
        policy__id="trimoe",
        policy__gpu_experts_per_layer=8,
    ),
)


@pytest.mark.parametrize("chosen", UNFIT, ids=named)
def test_what_does_not_fit_is_answered_with_reasons_and_changes_that_fit(chosen: Scenario) -> None:
    result = planned(chosen)
    unfit_laws(result)
    assert result.memory is not None and result.placement is not None
    for reason in result.headline.reasons:
        assert re.search(r"[\d,.]+ GB needed, [\d,.]+ GB there", reason), reason
    for change in result.memory.changes:
        repaired = set_paths(chosen, change.set)
        again = planned(repaired)
        assert again.headline.fits, (change.text, again.headline.reasons)
        assert again.memory is not None
        # The figures beside the change are those of quick sampling, so close and not equal.
        assert change.tpot_s == pytest.approx(again.headline.tpot_s, rel=0.15)
        assert change.tier_capacity_bytes == again.memory.tiers[0].capacity_bytes
        assert change.tier_used_bytes is not None and change.tier_used_bytes <= change.tier_capacity_bytes


def test_one_change_is_offered_wherever_one_is_enough() -> None:
    """DeepSeek-V3 or Mixtral-8x22B with long prompts on a desktop, or with four replicas in 512 GB, are beyond that."""
    offered = [memory is not None and bool(memory.changes) for memory in (planned(s).memory for s in UNFIT)]
    assert offered == [True, True, True, False, False, True, False, True]


@pytest.mark.parametrize("chosen", [*ordinary()[:10], *UNFIT[:3]], ids=named)
def test_the_largest_batch_and_context_really_fit_and_one_more_does_not(chosen: Scenario) -> None:
    result = planned(chosen)
    assert result.memory is not None
    w = chosen.workload
    batch, context = result.memory.largest_batch, result.memory.largest_context_tokens
    assert (batch >= w.batch) == (context >= w.prompt_tokens + w.output_tokens) == result.headline.fits
    if batch:
        assert in_memory(changed(chosen, workload__batch=batch))
    if batch < 65536:
        assert not in_memory(changed(chosen, workload__batch=batch + 1))

    def at(tokens: int) -> Scenario:
        output = min(w.output_tokens, max(1, tokens - 1))
        return changed(chosen, workload__prompt_tokens=tokens - output, workload__output_tokens=output)

    if context:
        assert in_memory(at(context))
    stated = models.load(chosen.model.id).max_context_tokens
    assert stated is not None and context <= max(stated, w.prompt_tokens + w.output_tokens)
    if context < stated:
        assert not in_memory(at(max(context, 1) + 1))


def test_attention_on_the_cpu_can_be_asked_for_without_saying_where_the_cache_lies() -> None:
    """Also where the largest batch is looked for, at a batch at which the cache would fit in HBM."""
    chosen = scenario(
        model__id="deepseek-ai/DeepSeek-V2-Lite",
        system__id="h100-amx-server",
        policy__id="cpu-experts",
        policy__attention_device="cpu",
        workload__batch=3000,
    )
    result = planned(chosen)
    assert result.headline.fits
    assert (result.policy.kv_location, result.policy.attention_device) == ("host", "cpu")
    assert result.memory is not None
    host = next(t for t in result.memory.tiers if t.tier == "host")
    assert "KV cache" in {i.name for i in host.items}


@pytest.mark.parametrize("policy", PUBLISHED)
def test_a_policy_without_its_parts_says_what_is_missing(policy: str) -> None:
    lacking = [s for s in SYSTEMS if s not in CAPABLE[policy]]
    for system in lacking[:2]:
        result = planned(scenario(policy__id=policy, system__id=system))
        unfit_laws(result)
        assert result.memory is None and result.placement is None
        assert "needs" in result.headline.reasons[0]


def test_each_policy_runs_somewhere_and_only_all_gpu_and_host_policies_everywhere() -> None:
    assert set(CAPABLE["trimoe"]) == {"trimoe-server", "trimoe-cxl-server"}
    assert set(CAPABLE["context-aware"]) == {"trimoe-cxl-server", "h100-cxl-ndp"}
    assert set(CAPABLE["monde"]) == {"trimoe-server", "trimoe-cxl-server", "h100-cxl-ndp"}
    assert set(CAPABLE["all-gpu"]) == set(SYSTEMS)


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"policy__id": "al-gpu"}, "all-gpu"),
    (
        {"policy__options": {"alpah": 0.5}, "policy__id": "context-aware", "system__id": "h100-cxl-ndp"},
        "alpha",
    ),
    (
        {"policy__options": {"alpha": 2.0}, "policy__id": "context-aware", "system__id": "h100-cxl-ndp"},
        "0 to 1",
    ),
    ({"policy__options": {"cuda": True}}, "options"),
    (
        {"policy__options": {"ndp_compute": "fast"}, "policy__id": "monde", "system__id": "h100-cxl-ndp"},
        "gemv, padded, scaled",
    ),
    (
        {"policy__options": {"hot_experts": 1.5}, "policy__id": "monde", "system__id": "h100-cxl-ndp"},
        "whole number",
    ),
    (
        {"policy__options": {"hot_experts": True}, "policy__id": "monde", "system__id": "h100-cxl-ndp"},
        "hot_experts",
    ),
    ({"policy__tensor_parallel": 3}, "2 GPUs"),
    (
        {"policy__tensor_parallel": 1, "policy__pipeline_parallel": 1, "policy__data_parallel": 1},
        "must be 2",
    ),
    ({"policy__pipeline_parallel": 1024}, "2 GPUs"),
    (
        {"policy__expert_parallel": True, "policy__tensor_parallel": 16, "system__id": "16x-h100-sxm"},
        "policy.expert_parallel",
    ),
    ({"policy__gpu_experts_per_layer": 9}, "8 routed experts"),
    ({"policy__kv_location": "host"}, "policy.kv_location"),
    ({"policy__attention_device": "cpu"}, "policy.attention_device"),
    ({"policy__prefill": "cpu"}, "policy.prefill"),
    ({"policy__prefill": "ndp", "policy__id": "cpu-experts"}, "auto, cpu, stream"),
    ({"model__weight_format": "int3"}, "model.weight_format"),
    ({"policy__expert_format": "int3"}, "policy.expert_format"),
    (
        {"policy__expert_format": "gguf-q4_k", "policy__id": "monde", "system__id": "h100-cxl-ndp"},
        "policy.expert_format",
    ),
    (
        {"model__weight_format": "gguf-iq2_xs", "policy__id": "trimoe", "system__id": "trimoe-server"},
        "model.weight_format",
    ),
    ({"model__id": "mistralai/Mixtral-8x7B"}, "mistralai/Mixtral-8x7B-v0.1"),
    ({"model__id": "google/switch-base-128"}, "cannot|not planned|encoder"),
    ({"model__config": {"model_type": "llama", "hidden_size": 64}}, "llama"),
    ({"model__config": {"model_type": "mixtral"}}, "hidden_size|num_"),
    ({"system__id": "2x-h100"}, "2x-h100-sxm"),
    ({"system__overrides": {"gpu.power_limit": 300.0}}, "gpu.power_limit_w"),
    ({"system__overrides": {"gpu.power_limit_w": -1.0}}, "gpu.power_limit_w"),
    ({"system__overrides": {"dram.dimms": 1.5}}, "dram.dimms"),
    ({"routing__source": "trace", "routing__trace": "gpt-oss-20b"}, "gpt-oss-20b-decode"),
    ({"routing__source": "trace", "routing__trace": "gpt-oss-20b-decode"}, "openai/gpt-oss-20b"),
)


@pytest.mark.parametrize(("parts", "names"), BAD, ids=lambda v: str(v)[:40] if isinstance(v, dict) else "")
def test_bad_input_is_refused_with_one_sentence_that_names_it(parts: dict[str, Any], names: str) -> None:
    with pytest.raises(ValueError, match=names) as caught:
        planned(scenario(**parts))
    is_a_sentence(caught.value)


def test_a_trace_of_this_model_is_taken_and_says_how_it_was_split() -> None:
    chosen = scenario(
        model__id="openai/gpt-oss-20b",
        system__id="1x-h100-sxm",
        routing__source="trace",
        routing__trace="gpt-oss-20b-decode",
        workload__batch=8,
    )
    result = planned(chosen)
    assert result.headline.fits and result.placement is not None
    assert result.placement.learned_on and result.decode is not None and result.decode.samples >= 32


def test_a_context_beyond_what_the_model_states_is_warned_of() -> None:
    chosen = scenario(system__id="8x-h200-sxm", workload__prompt_tokens=100_000, workload__batch=1)
    result = planned(chosen)
    assert result.headline.fits
    assert any("32,768" in w for w in result.warnings)


def test_a_figure_at_the_end_of_its_bounds_has_no_one_more_unit() -> None:
    for path, value in (("gpu.int8_op_per_s", 1e18), ("pcie.bandwidth_bytes_per_s", 1e13)):
        chosen = scenario(
            model__id="deepseek-ai/DeepSeek-V2-Lite",
            system__id="h100-amx-server",
            policy__id="cpu-experts",
            workload__batch=2,
            routing__steps=1,
            system__overrides={path: value},
        )
        rows = marginals(evaluate(chosen, quick=True))
        assert rows and path not in {m.resource for m in rows}


def test_a_capacity_that_the_user_sets_is_the_one_that_counts() -> None:
    base = scenario(model__id="deepseek-ai/DeepSeek-V2-Lite", system__id="h100-amx-server", policy__id="cpu-experts")
    assert in_memory(base)
    small = changed(base, system__overrides={"dram.capacity_bytes": 20e9})
    assert not in_memory(small)
    result = planned(small)
    assert result.memory is not None
    assert next(t for t in result.memory.tiers if t.tier == "host").capacity_bytes == 20e9
