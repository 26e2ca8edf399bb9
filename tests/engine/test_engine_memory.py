"""The ledger of a tiny model, added up by hand, under every layout and in every tier."""

from __future__ import annotations

import math
from typing import Any

import pytest

import models
from planner.evaluate import evaluate
from planner.physics.memory import Tier
from planner.scenario import Scenario
from tests.engine.engine_scenarios import scenario
from tests.engine.engine_tiny import (
    EXPERT_BYTES,
    EXPERTS,
    HEAD,
    HIDDEN,
    INNER,
    KV_BYTES,
    KV_HEADS,
    LAYERS,
    MIXER,
    PLAIN,
    PLAIN_CXL,
    PLAIN_HOST,
    ROUTER,
    TOP_K,
    VOCABULARY,
    tiny,
)

CONTEXT = 108  # prompt and output
GB = 1e9


def tier(chosen: Scenario, ident: str = "gpu") -> Tier:
    found = evaluate(chosen, stop_at="memory")
    assert found.ready is not None
    return next(t for t in found.ready.ledger if t.id == ident)


def totals(chosen: Scenario, ident: str = "gpu") -> dict[str, float]:
    return {name: total for name, (total, _) in tier(chosen, ident).items.items()}


def activations(rows: int, decode: int, ranks: int) -> float:
    """Six hidden vectors and the up and gate outputs of k experts for each row; logits at 32 bit."""
    row = 6 * 2 * HIDDEN + 2 * TOP_K * INNER * 2 / ranks
    return rows * row + decode * VOCABULARY * 4 / ranks


@pytest.mark.parametrize(("system", "ranks"), [("1x-h100-sxm", 1), ("2x-h100-sxm", 2), ("4x-h100-sxm", 4)])
def test_tensor_parallel_holds_everything_once_but_routers_and_divided_heads(system: str, ranks: int) -> None:
    batch = 10
    items = totals(tiny(system, PLAIN, batch))
    assert items == pytest.approx(
        {
            "attention": 2 * LAYERS * MIXER,
            "dense and shared": 2 * LAYERS * ROUTER * ranks,
            "embedding and head": 2 * 2 * HEAD,
            "experts": LAYERS * EXPERTS * EXPERT_BYTES,
            # Two KV heads: on four cards each half lies on two of them.
            "KV cache": LAYERS * KV_BYTES * CONTEXT * batch * max(1, ranks / KV_HEADS),
            "activations": activations(100 * batch, batch, ranks) * ranks,
        },
        rel=1e-12,
    )


def test_replicas_hold_everything_each() -> None:
    one, two = totals(tiny("1x-h100-sxm", PLAIN, 5)), totals(tiny("2x-h100-sxm", PLAIN, 10, policy__data_parallel=2))
    for name in ("attention", "experts", "embedding and head", "KV cache"):
        assert two[name] == pytest.approx(2 * one[name], rel=1e-12)


def test_an_odd_batch_fills_one_replica_more_than_the_other() -> None:
    """The fullest replica holds four of seven sequences."""
    held = tier(tiny("2x-h100-sxm", PLAIN, 7, policy__data_parallel=2))
    assert held.items["KV cache"][1] == pytest.approx(4 * LAYERS * KV_BYTES * CONTEXT, rel=1e-12)


def test_experts_that_do_not_divide_fill_one_gpu_more() -> None:
    """Four whole experts on three cards: one card holds two of each layer."""
    chosen = tiny(
        "4x-h100-sxm", {**PLAIN, "gpu.count_per_node": 3}, 6, policy__expert_parallel=True, policy__tensor_parallel=3
    )
    total, fullest = tier(chosen).items["experts"]
    assert total == pytest.approx(LAYERS * EXPERTS * EXPERT_BYTES)
    assert fullest == pytest.approx(LAYERS * 2 * EXPERT_BYTES)


def test_attention_data_parallel_copies_weights_and_keeps_whole_sequences() -> None:
    chosen = tiny(
        "4x-h100-sxm",
        PLAIN,
        6,
        policy__expert_parallel=True,
        policy__tensor_parallel=4,
        policy__options={"attention_data_parallel": True},
    )
    items = tier(chosen).items
    assert items["attention"][0] == pytest.approx(4 * 2 * LAYERS * MIXER)
    total, fullest = items["KV cache"]
    assert total == pytest.approx(6 * LAYERS * KV_BYTES * CONTEXT)
    assert fullest == pytest.approx(2 * LAYERS * KV_BYTES * CONTEXT)  # two of six sequences on the fullest of four


def test_a_latent_cache_lies_on_every_rank_and_recurrent_state_on_one_each() -> None:
    """DeepSeek's latent is copied to all ranks; Jamba's state divides, and its few KV heads as far as they go."""
    latent = scenario(model__id="deepseek-ai/DeepSeek-V2-Lite", system__id="4x-h100-sxm", workload__batch=10)
    context = latent.workload.prompt_tokens + latent.workload.output_tokens
    arch = models.load(latent.model.id)
    each = float(models.kv_bytes_held(arch, "bf16", context).sum())
    assert totals(latent)["KV cache"] == pytest.approx(4 * 10 * each)
    jamba = scenario(model__id="ai21labs/AI21-Jamba-Mini-1.5", system__id="8x-h200-sxm", workload__batch=10)
    arch = models.load(jamba.model.id)
    held = float(models.kv_bytes_held(arch, "bf16", context).sum() + models.recurrent_state_bytes(arch).sum())
    assert totals(jamba)["KV cache"] == pytest.approx(10 * held)


def test_the_fullest_stage_of_a_pipeline_holds_the_odd_layer() -> None:
    """Mixtral's 32 layers in three stages: eleven on the fullest."""
    chosen = scenario(
        system__id="4x-h100-sxm",
        system__overrides={"gpu.count_per_node": 3.0},
        policy__pipeline_parallel=3,
        policy__tensor_parallel=1,
    )
    total, fullest = tier(chosen).items["experts"]
    assert fullest == pytest.approx(total * 11 / 32)


HOST = {**PLAIN, **PLAIN_HOST}


def test_cpu_experts_keep_all_experts_in_host_memory_and_name_the_duplicates() -> None:
    chosen = tiny("h100-amx-server", HOST, 6, policy__id="cpu-experts", policy__gpu_experts_per_layer=1)
    everything = LAYERS * EXPERTS * EXPERT_BYTES
    assert totals(chosen, "host") == pytest.approx(
        {
            "experts": everything * 3 / 4,
            "duplicates of experts in HBM": everything / 4,
            "load peak": EXPERTS * EXPERT_BYTES,
        }
    )
    assert totals(chosen)["experts"] == pytest.approx(LAYERS * EXPERT_BYTES)


def test_a_cache_in_host_memory_is_in_that_ledger_and_in_no_other() -> None:
    chosen = tiny("h100-amx-server", HOST, 6, policy__id="cpu-experts", policy__kv_location="host")
    assert totals(chosen, "host")["KV cache"] == pytest.approx(6 * LAYERS * KV_BYTES * CONTEXT)
    assert "KV cache" not in totals(chosen)


def test_layer_streaming_moves_experts_from_one_ledger_to_the_other() -> None:
    for kept in (0, 1, 4):
        chosen = tiny("h100-amx-server", HOST, 6, policy__id="layer-streaming", policy__gpu_experts_per_layer=kept)
        gpu, host = totals(chosen), totals(chosen, "host")
        assert gpu.get("experts", 0.0) == pytest.approx(LAYERS * kept * EXPERT_BYTES)
        assert host.get("experts", 0.0) == pytest.approx(LAYERS * (EXPERTS - kept) * EXPERT_BYTES)
        # Two layers on their way: one arrives while the other is computed.
        assert gpu.get("streaming buffers", 0.0) == pytest.approx(2 * (EXPERTS - kept) * EXPERT_BYTES)


def test_what_fits_beside_the_cache_is_filled_with_experts() -> None:
    """As many resident experts as HBM has room for, and not one more."""
    for capacity in (0.3 * GB, 0.31 * GB, 0.32 * GB):
        overrides = {**HOST, "gpu.memory_capacity_bytes": capacity, "gpu.reserve_bytes": 0.287 * GB}
        chosen = tiny("h100-amx-server", overrides, 1, policy__id="layer-streaming")
        found = evaluate(chosen, stop_at="memory")
        assert found.ready is not None
        kept = found.ready.resident_per_layer
        assert found.ready.ledger[0].short_bytes <= 0
        if kept < EXPERTS:
            more = tier(
                tiny(
                    "h100-amx-server",
                    overrides,
                    1,
                    policy__id="layer-streaming",
                    policy__gpu_experts_per_layer=kept + 1,
                )
            )
            assert more.short_bytes > 0


CXL = {**PLAIN, **PLAIN_HOST, **PLAIN_CXL}


@pytest.mark.parametrize("originals", [True, False])
def test_context_aware_keeps_four_replicas_and_the_originals(originals: bool) -> None:
    options: dict[str, Any] = {"keep_originals": originals}
    items = totals(tiny("h100-cxl-ndp", CXL, 1, policy__id="context-aware", policy__options=options), "cxl_ndp")
    expert = EXPERT_BYTES / 2
    # Groups of 128 weights: a 16-bit scale, and a zero point of as many bits as the weights.
    stored = {f"replicas at {b} bit": LAYERS * EXPERTS * expert * (b + (16 + b) / 128) / 8 for b in (4, 3, 2, 1)}
    if originals:
        stored["native originals"] = LAYERS * EXPERTS * EXPERT_BYTES
    assert items == pytest.approx(stored, rel=1e-9)


def test_whole_experts_lie_on_cxl_devices_and_whole_sequences_on_nodes() -> None:
    held = tier(tiny("h100-cxl-ndp", {**CXL, "cxl.count": 3}, 1, policy__id="monde"), "cxl_ndp")
    assert held.items["experts"] == pytest.approx((LAYERS * EXPERTS * EXPERT_BYTES, LAYERS * 2 * EXPERT_BYTES))
    overrides = {**HOST, "node.count": 2}
    host = tier(tiny("h100-amx-server", overrides, 5, policy__id="cpu-experts", policy__kv_location="host"), "host")
    each = LAYERS * KV_BYTES * CONTEXT
    assert host.items["KV cache"] == pytest.approx((5 * each, 3 * each))


def test_drafting_loads_the_mtp_module() -> None:
    base: dict[str, Any] = {"model__id": "deepseek-ai/DeepSeek-V3", "system__id": "16x-h200-sxm"}
    plain, drafted = totals(scenario(**base)), totals(scenario(workload__draft_tokens=1, **base))
    mtp = models.parameters(models.load("deepseek-ai/DeepSeek-V3")).by_component["mtp"]
    more = drafted["drafting module"] - plain.get("drafting module", 0.0)
    assert mtp * 0.99 < more < mtp * 1.1  # FP8 with its scales


def test_the_largest_item_of_the_tier_that_is_short_is_named() -> None:
    found = evaluate(scenario(system__id="1x-h100-sxm"), stop_at="memory")
    assert found.reasons and found.reasons[0].startswith("GPU HBM: ")
    assert math.isclose(tier(scenario(system__id="1x-h100-sxm")).device_capacity_bytes, 85520809984)
