"""Fiddler: popular experts fixed in HBM, every other one where it costs less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.evaluate import evaluate
from planner.policies.fiddler import Fiddler
from planner.split import CPU, HIT, NONE, STREAM
from tests.policies.policy_cases import (
    DRAM,
    EXPERTS,
    HBM,
    LAYERS,
    LINK,
    PARAMETERS,
    Case,
    W,
    busy,
    case,
    every_layer,
    routed_s,
    tiny,
)

RATE = 1e11  # FLOP/s of the CPU: a token takes 15.7 us, an expert is read in 39.3 us and sent in 157.3 us
SLOW = {"cpu.vector_flop_per_s": RATE}


def t_cpu(n: int) -> float:
    return max(2.0 * PARAMETERS * n / RATE, W / DRAM)


T_LINK, T_HBM = W / LINK, W / HBM


def fiddler(**options: object) -> Case:
    return case(tiny("fiddler", options, over=SLOW, gpu_experts_per_layer=1))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=EXPERTS, max_size=EXPERTS).filter(any))
def test_each_expert_goes_where_it_costs_less(row: list[int]) -> None:
    c = fiddler()
    counts = every_layer(row)
    place = Fiddler().split_prefill(c.ctx, c.ready, c.placed, counts)
    for (s, layer, e), code in np.ndenumerate(place):
        n = int(counts[s, layer, e])
        if n == 0:
            assert code == NONE
        elif c.placed.resident[layer, e]:
            assert code == HIT
        else:
            assert code == (CPU if t_cpu(n) < T_LINK + T_HBM else STREAM)


def test_the_crossover_can_be_given_in_tokens() -> None:
    c = case(tiny("fiddler", {"crossover_tokens": 10}, over=SLOW, gpu_experts_per_layer=0))
    place = Fiddler().split_prefill(c.ctx, c.ready, c.placed, every_layer([9, 10, 11, 0, 0, 0, 0, 0]))
    assert place[0, 0, :4].tolist() == [CPU, STREAM, STREAM, NONE]


@pytest.mark.parametrize("overlap", ["serial", "beside"])
def test_layer_time_by_hand(overlap: str) -> None:
    """Expert 0 in HBM, 1 on the CPU with 3 tokens, 2 sent with 20."""
    c = fiddler(overlap=overlap)
    placed = c.resident([1, 0, 0, 0, 0, 0, 0, 0])
    step = c.step(every_layer([3, 3, 20, 0, 0, 0, 0, 0]), placed)
    there_and_back = 2 * 3 * 512 / LINK  # three activations of 256 values at 16 bit
    if overlap == "serial":
        layer = T_HBM + T_LINK + T_HBM + t_cpu(3) + there_and_back
    else:
        layer = max(2 * T_HBM, T_LINK + T_HBM + there_and_back / 2, t_cpu(3) + there_and_back, 2 * W / DRAM)
    assert routed_s(step) == pytest.approx(LAYERS * layer, rel=1e-6)


def test_serial_is_never_faster() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 20, (5, LAYERS, EXPERTS)).astype(np.int32)
    assert fiddler(overlap="beside").step(counts).total_s <= fiddler(overlap="serial").step(counts).total_s


def test_the_most_popular_pairs_of_the_whole_model_are_kept() -> None:
    c = case(tiny("fiddler", gpu_experts_per_layer=2))
    kept = c.placed.resident
    assert kept.sum() == 2 * LAYERS
    assert c.routing.profile[kept].min() >= c.routing.profile[~kept].max()


def test_room_for_part_of_a_layer_is_used_and_every_byte_is_in_the_ledger() -> None:
    """HBM for all but the experts, and for ten and a half of these: ten are kept, two and a half per layer."""
    empty = evaluate(tiny("fiddler", gpu_experts_per_layer=0)).ready
    assert empty is not None
    gpu = empty.ledger[0]
    reserve = gpu.device_capacity_bytes - (gpu.fullest_bytes - gpu.items["framework reserve"][1]) - 10.5 * W
    c = case(tiny("fiddler", over={"gpu.reserve_bytes": reserve}))
    assert c.placed.resident.sum() == 10
    tiers = {t.id: t for t in c.ready.ledger}
    assert tiers["gpu"].items["experts"][0] == pytest.approx(10 * W)
    assert tiers["host"].items["experts"][0] == pytest.approx((LAYERS * EXPERTS - 10) * W)
    assert tiers["gpu"].short_bytes == pytest.approx(-0.5 * W)


def test_transfers_and_cpu_reads_share_the_host_channels() -> None:
    """With slow host memory, beside each other takes at least what both read over its rate."""
    c = case(tiny("fiddler", {"overlap": "beside", "crossover_tokens": 2}, over={"dram.bandwidth_bytes_per_s": LINK}))
    step = c.step(every_layer([0, 1, 2, 1, 2, 0, 0, 0]), c.resident([0] * EXPERTS))
    assert busy(step, "dram") >= LAYERS * 4 * W / LINK
    assert routed_s(step) >= LAYERS * 4 * W / LINK
