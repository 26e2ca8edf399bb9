"""MoE-Lightning: attention on the CPU, weights once for all micro-batches, and the policy tuple."""

from __future__ import annotations

import numpy as np
import pytest

from planner.errors import PlanError
from planner.policies.even_load import even_counts
from tests.policies.cache_cases import (
    B_DRAM,
    B_HBM,
    B_LINK,
    HIDDEN,
    LOAD_S,
    READ_S,
    W,
    attention_bytes,
    decode_step,
    head_s,
    kv_bytes,
    parts,
    prefill_s,
    tiny,
    weights_s,
    written,
)

# Micro-batches of two tokens, top-2: one token on each of the four experts.
TWO = np.ones((2, 2, 4), np.int32)


def lightning(mu: int = 0, batch: int = 8, machine: dict[str, float] | None = None, **chosen: object):  # type: ignore[no-untyped-def]
    options = {"micro_batch": mu, **chosen.pop("options", {})}  # type: ignore[dict-item]
    kept = chosen.pop("gpu_experts_per_layer", 0)
    return tiny(
        "moe-lightning", top_k=2, batch=batch, machine=machine, gpu_experts_per_layer=kept, options=options, **chosen
    )


def routing(counts: np.ndarray = TWO):  # type: ignore[no-untyped-def]
    return written(counts, top_k=2)


STATE = HIDDEN * 2.0
"""Bytes of a token's hidden state, one way."""


def attention_s(sequences: int, dram: float = B_DRAM) -> float:
    """On the CPU: the KV caches from host memory, then hidden states there and back over the link."""
    return sequences * (kv_bytes() / dram + 2 * STATE / B_LINK)


def channels_s(sequences: int, dram: float) -> float:
    """The same on the host channels alone, which hidden states cross too."""
    return sequences * (kv_bytes() + 2 * STATE) / dram


def test_defaults_of_the_source() -> None:
    ctx, policy, ready, placed = parts(lightning(2), routing())
    assert (ready.kv_location, ready.attention_device) == ("host", "cpu")
    details = policy.details(ctx, ready, placed, routing())
    assert details is not None
    words = details.facts[0][1]
    assert words == "N = 8, mu = 2 (4 micro-batches), A_g = 0, F_g = 1, r_w = 0, r_c = 0."


def test_step_by_hand_where_weights_take_longest() -> None:
    """A layer crosses once for all four micro-batches; attention and experts hide behind it."""
    step = decode_step(lightning(2), routing())
    hidden = 8 * STATE / B_LINK  # on their way to the GPU they share the link with the weights
    assert step.total_s == pytest.approx(2 * (4 * LOAD_S + hidden) + 4 * head_s(), rel=1e-12)


def test_step_by_hand_where_the_cpu_takes_longest() -> None:
    slow = 1e8 * 4  # bytes per second of host memory
    machine = {"dram.bandwidth_bytes_per_s": slow, "pcie.bandwidth_bytes_per_s": 1e13}
    step = decode_step(lightning(2, machine=machine, gpu_experts_per_layer=4), routing())
    assert step.total_s == pytest.approx(4 * (2 * channels_s(2, slow) + head_s()), rel=1e-12)


def test_step_by_hand_where_the_gpu_takes_longest() -> None:
    machine = {"pcie.bandwidth_bytes_per_s": 1e13, "dram.bandwidth_bytes_per_s": 1e14}
    step = decode_step(lightning(2, machine=machine), routing())
    # each micro-batch reads attention weights and the four experts that it hits
    gpu = attention_bytes() / B_HBM + 4 * READ_S
    assert step.total_s == pytest.approx(4 * (2 * gpu + head_s()), rel=1e-12)


def test_one_micro_batch_cannot_hide_attention_and_two_hide_half() -> None:
    fast = {"pcie.bandwidth_bytes_per_s": 1e13, "dram.bandwidth_bytes_per_s": 2e8}
    cpu = channels_s(2, 2e8)
    gpu = attention_bytes() / B_HBM
    kept = {"machine": fast, "gpu_experts_per_layer": 4}
    one = decode_step(lightning(2, batch=2, **kept), routing())
    assert one.total_s == pytest.approx(2 * (max(cpu, gpu) + 4 * READ_S) + head_s(), rel=1e-12)
    two = decode_step(lightning(2, batch=4, **kept), routing())
    half = (cpu + (max(cpu, gpu) + 4 * READ_S)) / 2
    assert two.total_s == pytest.approx(2 * (2 * half + head_s()), rel=1e-12)
    three = decode_step(lightning(2, batch=6, **kept), routing())
    assert three.total_s == pytest.approx(3 * (2 * cpu + head_s()), rel=1e-12)


def test_experts_on_the_cpu_by_hand() -> None:
    step = decode_step(lightning(2, options={"ffn_device": "cpu"}), routing())
    round_trip = 2 * (2 * HIDDEN * 2.0) / B_LINK
    cpu = attention_s(2) + 4 * W / B_DRAM + round_trip
    assert step.total_s == pytest.approx(4 * (2 * cpu + head_s()), rel=1e-12)


def test_attention_on_the_gpu_and_the_share_of_kv_there() -> None:
    for share in (0.0, 0.25, 1.0):
        scenario = lightning(2, attention_device="gpu", options={"kv_gpu_share": share})
        step = decode_step(scenario, routing())
        link = 8 * (1 - share) * kv_bytes() / B_LINK + 4 * LOAD_S
        assert step.total_s == pytest.approx(2 * link + 4 * head_s(), rel=1e-12)
        gpu, host = parts(scenario, routing())[2].ledger
        whole = 8 * 2 * kv_bytes(101)
        assert gpu.items.get("KV cache", (0.0, 0.0))[0] == pytest.approx(share * whole, abs=1e-6)
        assert host.items.get("KV cache", (0.0, 0.0))[0] == pytest.approx((1 - share) * whole, abs=1e-6)


def test_ledger_by_hand() -> None:
    ready = parts(lightning(2, gpu_experts_per_layer=1), routing())[2]
    gpu, host = ready.ledger
    assert gpu.items["experts"][0] == 2 * W
    assert gpu.items["streaming buffers"][0] == 2 * 3 * W  # two layers of what streams
    assert host.items["experts"][0] == 6 * W
    assert host.items["hidden states"][0] == 8 * HIDDEN * 2


def test_residents_fill_hbm() -> None:
    machine = {"gpu.memory_capacity_bytes": 8e8, "gpu.reserve_bytes": 0.0}
    counts = written(np.full((1, 8, 16), 1, np.int32), top_k=8)
    chosen = {"top_k": 2, "batch": 8, "experts": 16, "layers": 8, "machine": machine, "options": {"micro_batch": 2}}
    ready = parts(tiny("moe-lightning", **chosen), counts)[2]
    assert 0 < ready.resident_per_layer < 16
    assert ready.ledger[0].short_bytes <= 0
    more = tiny("moe-lightning", **chosen, gpu_experts_per_layer=ready.resident_per_layer + 1)
    assert parts(more, counts)[2].ledger[0].short_bytes > 0


def test_search_takes_more_micro_batches_only_where_they_shorten_the_step() -> None:
    # the link sets the step whatever mu: the fewest micro-batches
    assert parts(lightning(), routing())[2].layout.micro_batches == 1
    # one micro-batch: 12 + 4 readings of an expert, one after the other; three: 12 beside 3 x 4
    slow = {"dram.bandwidth_bytes_per_s": channels_s(16, 1.0) / (12 * READ_S), "pcie.bandwidth_bytes_per_s": 1e13}
    ready = parts(lightning(machine=slow, batch=16, gpu_experts_per_layer=4), routing())[2]
    assert ready.layout.micro_batches >= 3


def test_prefill_streams_the_layer_once() -> None:
    routed = written(TWO, top_k=2, prefill=np.array([[[100, 50, 50, 0], [200, 0, 0, 0]]]))
    head = 1000 * HIDDEN * 2 / B_HBM
    assert prefill_s(lightning(2), routed, "stream") == pytest.approx(2 * 4 * LOAD_S + head, rel=1e-6)


def test_even_load() -> None:
    ctx = parts(lightning(2), routing())[0]
    counts = even_counts(ctx, 1)
    assert counts.shape == (1, 1, 4)
    assert counts[0, 0].tolist() == [1, 1, 0, 0]
    assert even_counts(ctx, 2)[0, 0].tolist() == [2, 1, 1, 0]  # 4 (1 - (1/2)^2) = 3 of 4
    assert (even_counts(ctx, 4000)[0] == 2000).all()


def test_bad_input() -> None:
    with pytest.raises(PlanError, match="give one of them"):
        parts(lightning(2, micro_batches=2), routing())
    with pytest.raises(PlanError, match="4 routed experts"):
        parts(lightning(2, gpu_experts_per_layer=5), routing())
    with pytest.raises(PlanError, match="from -1 to 1"):
        parts(lightning(2, options={"kv_gpu_share": 2.0}), routing())
    assert weights_s() > 0
