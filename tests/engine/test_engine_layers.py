"""Layers that are not all alike: collectives where there is something to combine, drafting modules, odd stages."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import models
from planner.evaluate import Evaluation, evaluate
from planner.scenario import Scenario
from tests.engine.engine_scenarios import changed, scenario


def flows(chosen: Scenario) -> tuple[Evaluation, Any]:
    found = evaluate(chosen, quick=True)
    assert found.decode is not None, found.reasons
    return found, found.decode.flows


def all_reduces(found: Evaluation, moved: float, ranks: int) -> float:
    """How many ring all-reduces of the whole batch these bytes are."""
    w = found.ctx.scenario.workload
    return moved / (2 * (ranks - 1) * w.batch * 2 * found.ctx.arch.hidden_size)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("mistralai/Mixtral-8x7B-v0.1", 2 * 32),  # attention and experts of every layer
        ("deepseek-ai/DeepSeek-V2-Lite", 2 * 27),  # the first layer's dense MLP too
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 52),  # each layer is a mixer or an MoE block
    ],
)
def test_each_block_is_reduced_once(model: str, expected: int) -> None:
    found, moved = flows(scenario(model__id=model, system__id="4x-h100-sxm", workload__batch=8))
    assert all_reduces(found, moved.scaleup_bytes, 4) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("policy", ["layer-streaming", "cpu-experts"])
def test_policies_with_host_memory_reduce_as_often(policy: str) -> None:
    found, moved = flows(
        scenario(
            model__id="deepseek-ai/DeepSeek-V2-Lite", system__id="4x-h100-sxm", policy__id=policy, workload__batch=8
        )
    )
    assert all_reduces(found, moved.scaleup_bytes, 4) == pytest.approx(2 * 27, rel=1e-12)


def test_two_gpus_of_a_trimoe_server_reduce_too() -> None:
    chosen = scenario(
        model__id="deepseek-ai/DeepSeek-V2-Lite",
        system__id="trimoe-server",
        system__overrides={"gpu.count_per_node": 2.0},
        policy__id="trimoe",
        workload__batch=8,
    )
    found, moved = flows(chosen)
    assert all_reduces(found, moved.scaleup_bytes, 2) == pytest.approx(2 * 27, rel=1e-12)


def test_sequences_of_their_own_gather_and_scatter_once_per_block() -> None:
    """Attention data parallel, experts sliced: an all-gather before and a reduce-scatter after each feed-forward."""
    base = scenario(model__id="deepseek-ai/DeepSeek-V2-Lite", system__id="4x-h100-sxm", workload__batch=8)
    found, moved = flows(changed(base, policy__options={"attention_data_parallel": True}))
    assert all_reduces(found, moved.scaleup_bytes, 4) == pytest.approx(27, rel=1e-12)


def test_a_drafting_module_reads_its_distinct_experts_and_the_head() -> None:
    """DeepSeek-V3's MTP layer at batch 32: 256 (1 - (1 - 8/256)^32) experts of 44 M weights in FP8, once per draft."""
    base = scenario(
        model__id="deepseek-ai/DeepSeek-V3",
        system__id="16x-h200-sxm",
        policy__tensor_parallel=16,
        workload__batch=32,
        workload__draft_acceptance=0.0,
        routing__source="uniform",
        routing__steps=8,
    )
    arch = models.load("deepseek-ai/DeepSeek-V3")
    counts = models.parameters(arch).by_component
    read = {}
    for drafts in (1, 2):
        found, moved = flows(changed(base, workload__draft_tokens=drafts))
        assert found.routing is not None
        distinct = float((found.routing.counts[:4] > 0).sum(axis=(1, 2)).mean())
        expert = models.expert_bytes(arch)
        read[drafts] = moved.hbm_bytes - distinct * expert
    hit = 256 * (1 - (1 - 8 / 256) ** 32)
    head = 2.0 * counts["lm_head"]
    rest = counts["mtp"] - 256 * arch.expert_parameters
    each = read[2] - read[1]
    # The module's own weights are FP8 with scales, a little 16 bit; the head is 16 bit.
    expected = head + (hit * arch.expert_parameters + rest) * 1.0
    assert each == pytest.approx(expected, rel=0.05)


def test_a_fuller_stage_is_one_with_more_experts_not_only_more_layers() -> None:
    """DeepSeek-V3 has three dense layers in front: of two stages the second holds 31 of the 58 MoE layers."""
    chosen = scenario(model__id="deepseek-ai/DeepSeek-V3", system__id="16x-h200-sxm", policy__pipeline_parallel=2)
    found = evaluate(chosen, stop_at="memory")
    assert found.ready is not None
    total, fullest = found.ready.ledger[0].items["experts"]
    moe = np.asarray(found.ctx.work.is_moe)
    bounds = np.linspace(0, 61, 3).round().astype(int)
    most = max(int(moe[a:b].sum()) for a, b in itertools.pairwise(bounds))
    assert most == 31
    assert fullest == pytest.approx(total * most / 58 / 8)
