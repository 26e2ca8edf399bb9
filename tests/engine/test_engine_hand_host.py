"""CPU experts and layer streaming on a tiny model, computed by hand, with the host channels that all readers share."""

from __future__ import annotations

import pytest

from planner.evaluate import Evaluation
from tests.engine.engine_tiny import (
    ATTENTION_FLOP,
    CONTEXTS,
    EXPERT_BYTES,
    EXPERTS,
    KV_BYTES,
    LAYERS,
    MIXER,
    PLAIN,
    PLAIN_HOST,
    ROUTER,
    VECTOR_BYTES,
    Hand,
    cpu_expert,
    evaluated,
    mean,
    timed,
    tiny,
)

HOST = {**PLAIN, **PLAIN_HOST}
SERVER = "h100-amx-server"
PCIE, DRAM = HOST["pcie.bandwidth_bytes_per_s"], HOST["dram.bandwidth_bytes_per_s"]


def lane(found: Evaluation, name: str) -> float:
    """Busy seconds of a lane in a step."""
    assert found.decode is not None
    return sum(p.busy_s for p in found.decode.step.parts if p.lane == name)


def resident(found: Evaluation) -> list[list[bool]]:
    assert found.placed is not None
    return found.placed.resident.tolist()


# --- CPU experts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3, 9, 40])
def test_cpu_experts_run_beside_the_gpu(batch: int) -> None:
    """t_layer = t_attention + max(t_shared + t_hot, t_cpu + hand-over): no shared and no hot experts here."""
    counts, step = timed(evaluated(tiny(SERVER, HOST, batch, policy__id="cpu-experts")))
    hand = Hand(batch)
    hand_over = 2 * batch * VECTOR_BYTES / PCIE
    times = [
        hand.head() + sum(hand.attention(c) + sum(cpu_expert(int(n)) for n in layer) + hand_over for layer in sample)
        for c in CONTEXTS
        for sample in counts
    ]
    assert step == pytest.approx(mean(times), rel=1e-12)


@pytest.mark.parametrize("kept", [0, 1, 3, 4])
def test_hot_experts_in_hbm_leave_the_cpu_less(kept: int) -> None:
    found = evaluated(tiny(SERVER, HOST, 20, policy__id="cpu-experts", policy__gpu_experts_per_layer=kept))
    counts, step = timed(found)
    hot = resident(found)
    assert [sum(row) for row in hot] == [kept] * LAYERS
    hand = Hand(20)
    hand_over = 2 * 20 * VECTOR_BYTES / PCIE
    times = []
    for c in CONTEXTS:
        for sample in counts:
            total = hand.head()
            for layer, row in zip(sample, hot, strict=True):
                on_gpu = sum(hand.expert(int(n)) for n, here in zip(layer, row, strict=True) if here)
                on_cpu = sum(cpu_expert(int(n)) for n, here in zip(layer, row, strict=True) if not here)
                total += hand.attention(c) + max(on_gpu, on_cpu + hand_over)
            times.append(total)
    assert step == pytest.approx(mean(times), rel=1e-12)


def test_the_measured_round_trip_is_paid_once_per_moe_layer() -> None:
    slow = {**HOST, "cpu.layer_sync_s": 1e-4, "gpu.layer_launch_s": 3e-5, "pcie.latency_s": 1e-6}
    plain = evaluated(tiny(SERVER, HOST, 4, policy__id="cpu-experts"))
    found = evaluated(tiny(SERVER, slow, 4, policy__id="cpu-experts"))
    assert plain.decode is not None and found.decode is not None
    # A layer costs what was measured for it, launch included, and the latency of the link both ways.
    assert found.decode.step.fixed_s == pytest.approx(LAYERS * (1e-4 + 2e-6), rel=1e-12)
    assert found.decode.step.total_s == pytest.approx(plain.decode.step.total_s + found.decode.step.fixed_s, rel=1e-12)


def test_low_bit_kernels_read_as_if_weights_had_more_bits() -> None:
    """INT4 with 1.2 extra bits: the kernel takes (4.16 + 1.2) / 8 bytes a weight, the channels carry 4.16 / 8."""
    overrides = {**HOST, "cpu.low_bit_extra_bits": 1.2, "cpu.vector_flop_per_s": 1e15, "cpu.bf16_flop_per_s": 1e15}
    found = evaluated(tiny(SERVER, overrides, 1, policy__id="cpu-experts", policy__expert_format="int4-g128"))
    counts, _ = timed(found)
    weights = EXPERT_BYTES / 2
    # INT4 in groups of 128: 4 bits, a 16-bit scale and a 4-bit zero point for each group.
    stored = weights * (4 + 20 / 128) / 8
    hits = mean([float((sample > 0).sum()) for sample in counts])
    assert found.placed is not None
    assert found.placed.stored.bytes == pytest.approx(stored)
    kernel = hits * (stored + weights * 1.2 / 8) / DRAM
    hand_over = LAYERS * 2 * VECTOR_BYTES / PCIE
    assert lane(found, "cpu") == pytest.approx(kernel + hand_over, rel=1e-9)
    activations = LAYERS * 2 * VECTOR_BYTES
    assert lane(found, "dram") == pytest.approx((hits * stored + activations) / DRAM, rel=1e-9)


def test_host_channels_carry_experts_activations_and_kv_once_each() -> None:
    """Cache in host memory, attention on the CPU: every byte crosses the channels once, and is counted once."""
    batch = 6
    found = evaluated(tiny(SERVER, HOST, batch, policy__id="cpu-experts", policy__attention_device="cpu"))
    assert found.ready is not None and found.decode is not None
    assert (found.ready.kv_location, found.ready.attention_device) == ("host", "cpu")
    counts, step = timed(found)
    experts = mean([float((sample > 0).sum()) for sample in counts]) * EXPERT_BYTES
    kv = LAYERS * batch * KV_BYTES * mean(CONTEXTS)
    # Out and back, for attention and for the experts; each passes through a buffer in host memory.
    activations = 2 * LAYERS * 2 * batch * VECTOR_BYTES
    expected = experts + kv + activations
    assert found.decode.flows.dram_bytes == pytest.approx(expected, rel=1e-12)
    assert lane(found, "dram") == pytest.approx(expected / DRAM, rel=1e-12)
    domain = next(d for d in found.decode.step.domains if d.id == "dram")
    assert domain.bytes == pytest.approx(expected) and domain.achieved_share == pytest.approx(expected / DRAM / step)


def test_attention_on_the_cpu_waits_for_the_slower_of_flop_and_channels() -> None:
    batch = 6
    found = evaluated(tiny(SERVER, HOST, batch, policy__id="cpu-experts", policy__attention_device="cpu"))
    counts, step = timed(found)
    hand = Hand(batch)
    hand_over = 2 * batch * VECTOR_BYTES / PCIE
    vector = HOST["cpu.vector_flop_per_s"]
    times = []
    for c in CONTEXTS:
        core = max(ATTENTION_FLOP * c * batch / vector, KV_BYTES * c * batch / DRAM) + hand_over
        gpu = hand.product(MIXER, batch) + hand.product(ROUTER, batch)
        channels = (KV_BYTES * c * batch + 2 * batch * VECTOR_BYTES) / DRAM
        for sample in counts:
            experts = [sum(cpu_expert(int(n)) for n in layer) + hand_over for layer in sample]
            times.append(hand.head() + LAYERS * max(gpu, core, channels) + sum(experts))
    assert step == pytest.approx(mean(times), rel=1e-12)


def test_a_cache_in_host_memory_crosses_the_link_when_the_gpu_attends() -> None:
    batch = 6
    chosen = tiny(
        SERVER, HOST, batch, policy__id="cpu-experts", policy__kv_location="host", policy__attention_device="gpu"
    )
    found = evaluated(chosen)
    _, step = timed(found)
    near = timed(evaluated(tiny(SERVER, HOST, batch, policy__id="cpu-experts")))[1]
    hand = Hand(batch)
    shipped = mean([LAYERS * max(KV_BYTES * c * batch / PCIE, hand.attention(c)) for c in CONTEXTS])
    there = mean([LAYERS * hand.attention(c) for c in CONTEXTS])
    assert step == pytest.approx(near + shipped - there, rel=1e-12)
    assert found.decode is not None
    kv = LAYERS * batch * KV_BYTES * mean(CONTEXTS)
    assert found.decode.flows.pcie_bytes == pytest.approx(kv + LAYERS * batch * VECTOR_BYTES, rel=1e-12)


# --- layer streaming -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 2])
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("link_rate", [4e9, 1e12])
def test_streaming_takes_the_longer_of_link_and_gpu_or_both(kept: int, buffered: bool, link_rate: float) -> None:
    """A link that is faster than the host channels waits for them: then the transfer takes their time, once."""
    batch = 12
    found = evaluated(
        tiny(
            SERVER,
            {**HOST, "pcie.bandwidth_bytes_per_s": link_rate},
            batch,
            policy__id="layer-streaming",
            policy__gpu_experts_per_layer=kept,
            policy__options={"double_buffer": buffered},
        )
    )
    counts, step = timed(found)
    hand = Hand(batch)
    link = (EXPERTS - kept) * EXPERT_BYTES / link_rate
    channels = (EXPERTS - kept) * EXPERT_BYTES / DRAM
    times = []
    for c in CONTEXTS:
        for sample in counts:
            total = hand.head()
            for layer in sample:
                gpu = hand.attention(c) + sum(hand.expert(int(n)) for n in layer)
                total += max(gpu, link, channels) if buffered else gpu + max(link, channels)
            times.append(total)
    assert step == pytest.approx(mean(times), rel=1e-12)


def test_a_zig_zag_group_crosses_the_link_once() -> None:
    """Four micro-batches: the link carries a layer once, each reads what it hits from HBM."""
    one = evaluated(tiny(SERVER, HOST, 16, policy__id="layer-streaming", policy__gpu_experts_per_layer=0))
    four = evaluated(
        tiny(
            SERVER,
            HOST,
            16,
            policy__id="layer-streaming",
            policy__gpu_experts_per_layer=0,
            policy__micro_batches=4,
        )
    )
    assert one.decode is not None and four.decode is not None
    assert one.decode.flows.pcie_bytes == pytest.approx(LAYERS * EXPERTS * EXPERT_BYTES, rel=1e-12)
    assert four.decode.flows.pcie_bytes == pytest.approx(one.decode.flows.pcie_bytes, rel=1e-12)
    assert four.decode.flows.hbm_bytes > one.decode.flows.hbm_bytes
    counts, step = timed(four)
    assert counts.sum(axis=2).max() == 4 * 2
    hand = Hand(4)
    link = EXPERTS * EXPERT_BYTES / PCIE / 4
    times = [
        4 * (hand.head() + sum(max(hand.attention(c) + sum(hand.expert(int(n)) for n in y), link) for y in sample))
        for c in CONTEXTS
        for sample in counts
    ]
    assert step == pytest.approx(mean(times), rel=1e-12)


def test_streaming_only_the_experts_that_are_hit() -> None:
    """One pass: exactly those that it hits. A group: what any of its passes hits, at least one pass's, at most all."""
    common = {
        "policy__id": "layer-streaming",
        "policy__gpu_experts_per_layer": 0,
        "policy__options": {"stream_set": "hit"},
    }
    one = evaluated(tiny(SERVER, HOST, 2, **common))
    counts, _ = timed(one)
    assert one.decode is not None
    hits = mean([float((sample > 0).sum()) for sample in counts])
    assert one.decode.flows.pcie_bytes == pytest.approx(hits * EXPERT_BYTES, rel=1e-12)
    group = evaluated(tiny(SERVER, HOST, 8, policy__micro_batches=4, routing__steps=16, **common))
    counts, _ = timed(group)
    each = float((counts > 0).sum(axis=(1, 2)).mean()) * EXPERT_BYTES
    assert group.decode is not None
    assert each < group.decode.flows.pcie_bytes <= LAYERS * EXPERTS * EXPERT_BYTES
    assert group.decode.flows.pcie_bytes < 4 * each


def test_streamed_prefill_of_cpu_experts_overlaps_as_told() -> None:
    """Link and GPU of a layer add up at overlap 0, hide at 1; the planner takes the CPU where that is faster."""
    seconds = {}
    for overlap in (0.0, 0.5, 1.0):
        found = evaluated(
            tiny(
                SERVER,
                HOST,
                1,
                policy__id="cpu-experts",
                policy__prefill="stream",
                policy__options={"prefill_overlap": overlap},
            )
        )
        assert found.prefill is not None and found.prefill.mode == "stream"
        seconds[overlap] = found.prefill.prompt_s
    assert seconds[0.0] > seconds[0.5] > seconds[1.0]
    assert seconds[0.5] == pytest.approx((seconds[0.0] + seconds[1.0]) / 2, rel=1e-12)
    assert seconds[1.0] > LAYERS * EXPERTS * EXPERT_BYTES / PCIE
