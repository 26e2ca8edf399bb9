"""FreeToken: a cache of all layers, misses divided between the link and the CPU."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.policies.freetoken import FreeToken, shared_seconds
from planner.split import CPU, HIT, STREAM
from planner.split_lru import best_share, replay, replay_reference
from tests.policies.policy_cases import DRAM, EXPERTS, LAYERS, LINK, W, case, every_layer, routed_s, tiny


@given(st.integers(0, 64), st.floats(1e-6, 10.0), st.floats(1e-6, 10.0))
def test_q_star_minimises_the_longer_side(misses: int, link_s: float, cpu_s: float) -> None:
    best = min(max(q * link_s, (misses - q) * cpu_s) for q in range(misses + 1))
    q = best_share(misses, link_s, cpu_s)
    assert max(q * link_s, (misses - q) * cpu_s) == best


def test_without_a_cpu_everything_is_sent() -> None:
    assert best_share(7, 1.0, math.inf) == 7


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_kernel_and_twin_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps, layers, experts = rng.integers(1, 7), rng.integers(1, 5), rng.integers(1, 10)
    tokens = rng.integers(0, 4, (steps, layers, experts))
    slots = int(rng.integers(0, layers * experts + 1))
    start = rng.permutation(layers * experts)[:slots]
    link_s, cpu_s = rng.random() + 0.1, math.inf if seed % 3 == 0 else rng.random() + 0.1
    found = replay(tokens, start, slots, link_s, cpu_s)
    assert np.array_equal(found, replay_reference(tokens, start, slots, link_s, cpu_s))


def test_cache_by_hand() -> None:
    """One layer, two slots, link three times as fast as the CPU; the older of the two makes room."""
    tokens = np.array([[[1, 1, 0, 0]], [[0, 1, 1, 0]], [[1, 0, 1, 0]]])
    place = replay(tokens, np.array([0, 1]), 2, 1.0, 3.0)
    assert place[:, 0].tolist() == [[HIT, HIT, 0, 0], [0, HIT, STREAM, 0], [STREAM, 0, HIT, 0]]


def test_the_most_loaded_misses_are_sent() -> None:
    tokens = np.array([[[1, 5, 2, 9]]])
    assert replay(tokens, np.array([], np.int64), 4, 1.0, 1.0)[0, 0].tolist() == [CPU, STREAM, CPU, STREAM]


def test_the_cpu_gets_what_the_link_leaves_of_the_host_channels() -> None:
    c = case(tiny("freetoken", gpu_experts_per_layer=0))
    assert shared_seconds(c.ctx, c.placed) == pytest.approx((W / LINK, W / (DRAM - LINK)))


def test_layer_time_by_hand() -> None:
    """Four misses: one over a link of 10 GB/s while the CPU reads three at the other 30 GB/s."""
    c = case(tiny("freetoken", {"backend": "hybrid"}, gpu_experts_per_layer=0))
    step = c.step(every_layer([1, 1, 1, 1, 0, 0, 0, 0]))
    there_and_back = 2 * 2 * 512 / LINK  # two rows, each sent once
    link = W / LINK + W / 1e12 + there_and_back / 2
    channels = 4 * W / DRAM + 2 * 2 * 512 / DRAM
    assert routed_s(step) == pytest.approx(LAYERS * max(link, channels), rel=1e-6)


@pytest.mark.parametrize(("dram", "backend"), [(19e9, "offload"), (21e9, "hybrid")])
def test_backend_rule(dram: float, backend: str) -> None:
    """Hybrid from twice the link's rate on."""
    c = case(tiny("freetoken", over={"dram.bandwidth_bytes_per_s": dram}, gpu_experts_per_layer=0))
    assert FreeToken().backend(c.ctx, c.placed) == backend


def test_all_in_hbm_is_all_hits() -> None:
    c = case(tiny("freetoken"))
    assert c.placed.resident.all()
    details = FreeToken().details(c.ctx, c.ready, c.placed, c.routing)
    assert details.caches[0].hit_rate == 1.0
    assert details.caches[0].bytes_per_step == 0.0
    assert details.caches[0].slots_per_layer == EXPERTS


def test_cache_in_the_ledger() -> None:
    """Slots hold the stored form; host memory keeps all experts, the cached ones as duplicates."""
    c = case(tiny("freetoken", gpu_experts_per_layer=2, expert_format="int8"))
    each = c.placed.widths[0].expert_bytes
    assert each < W
    gpu, host = c.ready.ledger
    assert gpu.items["experts"][0] == pytest.approx(2 * LAYERS * each)
    kept = host.items["experts"][0] + host.items["duplicates of experts in HBM"][0]
    assert kept == pytest.approx(LAYERS * EXPERTS * each)
