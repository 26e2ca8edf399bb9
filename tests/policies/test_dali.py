"""DALI: greedy assignment, few prefetches, a cache that follows the load."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import split, split_reference
from planner.policies.dali import Dali
from planner.split import CPU, HIT, STREAM, Tables
from tests.policies.policy_cases import DRAM, HBM, LAYERS, LINK, W, case, every_layer, routed_s, tiny
from tests.policies.split_cases import FIELDS, FILE, dali_of, drawn, recorded

ROUND = Tables(2.0 * np.arange(10.0)[None], np.minimum(np.arange(10.0), 1.0)[None], np.array([3.0]))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_kernel_and_twin_agree(seed: int) -> None:
    fast, plain = dali_of(drawn(seed), split.dali), dali_of(drawn(seed), split_reference.dali)
    for name in FIELDS:
        assert np.array_equal(getattr(fast, name), getattr(plain, name)), name


def test_vectors() -> None:
    for vector in json.loads(FILE.read_text("utf-8")):
        found = recorded(dali_of(drawn(vector["seed"]), split.dali))
        for name in FIELDS:
            assert np.allclose(found[name], vector["dali"][name], rtol=1e-12, atol=0), name


def test_assignment_by_hand() -> None:
    """|CPU - GPU|: 0 (cached) 8-1 = 7, 1 6-4 = 2, 2 4-4 = 0, 3 2-4 = 2: in the order 0, 1, 3, 2."""
    place, gpu, cpu, link = split_reference.greedy(
        np.array([4, 3, 2, 1]), np.zeros(4, int), np.array([True, False, False, False]), np.zeros(4), ROUND
    )
    # 0: GPU at 1. 1: GPU at 5 before CPU at 6. 3: CPU at 2 before GPU at 9. 2: CPU at 6 before GPU at 9.
    assert place.tolist() == [HIT, STREAM, CPU, CPU]
    assert (gpu, cpu, link) == (5.0, 6.0, 3.0)


def test_greedy_is_near_the_best_of_all_assignments() -> None:
    """List scheduling on two unrelated machines by regret: here within twice the optimum, and mostly the optimum."""
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(60):
        tokens, cached = rng.integers(1, 9, 6), rng.random(6) < 0.5
        _, gpu, cpu, _ = split_reference.greedy(tokens, np.zeros(6, int), cached, np.zeros(6), ROUND)
        on_gpu, on_cpu = 1.0 + np.where(cached, 0.0, 3.0), 2.0 * tokens
        best = min(
            max(sum(on_gpu[i] for i in range(6) if side[i]), sum(on_cpu[i] for i in range(6) if not side[i]))
            for side in product((True, False), repeat=6)
        )
        assert max(gpu, cpu) >= best - 1e-12
        ratios.append(max(gpu, cpu) / best)
    assert max(ratios) < 2.0
    assert np.median(ratios) < 1.1


def test_cache_follows_the_load() -> None:
    """After two steps expert 2 (8 tokens) takes the place of expert 1 (0 tokens); expert 3 (1 token) stays out."""
    tokens = np.array([[[3, 0, 4, 1]], [[3, 0, 4, 0]], [[1, 0, 1, 0]]])
    found = split.dali(
        tokens, np.zeros_like(tokens), np.zeros((1, 4), np.int64), ROUND, np.zeros(1),
        np.array([[True, True, False, False]]), every=2, swaps=1, prefetch=0,
    )  # fmt: skip
    assert found.cached[0].tolist() == [True, False, True, False]
    assert found.place[2, 0].tolist() == [HIT, 0, HIT, 0]
    # The transfer of 3 s spreads over the two steps that follow.
    assert found.background_s[:, 0].tolist() == [0.0, 0.0, 1.5]


def test_no_change_without_a_gain() -> None:
    tokens = np.array([[[2, 2, 2, 2]]] * 2)
    cached = np.array([[True, True, False, False]])
    found = split.dali(tokens, np.zeros_like(tokens), np.zeros((1, 4), np.int64), ROUND, np.zeros(1), cached, 1, 2, 0)
    assert np.array_equal(found.cached, cached)


def test_a_prefetch_shortens_the_next_layer() -> None:
    """Two seconds of window: the transfer of expert 1 has one second left when its layer begins."""
    tokens = np.array([[[1, 0, 0, 0], [0, 9, 0, 0]]])
    cached = np.array([[True, False, False, False], [False, False, False, False]])
    window = np.array([1.0, 0.0])
    without, with_it = (
        split.dali(tokens, tokens, np.zeros((2, 4), np.int64), ROUND, window, cached, 1000, 0, n) for n in (0, 1)
    )
    assert without.link_s[0].tolist() == [0.0, 3.0]
    assert with_it.link_s[0].tolist() == [0.0, 1.0]
    assert with_it.background_s[0].tolist() == [2.0, 0.0]
    assert with_it.span_s[0, 1] == without.span_s[0, 1] - 2.0


def test_pass_by_hand() -> None:
    """One expert in HBM, one on the CPU."""
    c = case(tiny("dali", {"prefetch": 0}, gpu_experts_per_layer=1))
    step = c.step(every_layer([1, 1, 0, 0, 0, 0, 0, 0]), c.resident([1, 0, 0, 0, 0, 0, 0, 0]))
    assert routed_s(step) == pytest.approx(LAYERS * max(W / HBM, W / DRAM + 2 * 512 / LINK), rel=1e-6)


def test_reports_its_cache() -> None:
    c = case(tiny("dali", gpu_experts_per_layer=3))
    report = Dali().details(c.ctx, c.ready, c.placed, c.routing).caches[0]
    assert report.warm_up_steps + report.steps == c.routing.counts.shape[0]
    assert 0.0 < report.hit_rate < 1.0
