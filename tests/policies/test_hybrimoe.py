"""HybriMoE: the three-timeline schedule, its prefetch and its score cache."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import split, split_reference
from planner.policies.hybrimoe import HybriMoe
from planner.policies.prediction import predicted
from planner.split import CPU, HIT, NONE, STREAM, Tables
from tests.policies.policy_cases import DRAM, EXPERTS, HBM, LAYERS, LINK, W, case, every_layer, routed_s, tiny
from tests.policies.split_cases import FIELDS, FILE, drawn, hybrimoe_of, recorded

# Two seconds a token on the CPU, one second an expert on the GPU, three seconds a transfer.
ROUND = Tables(2.0 * np.arange(10.0)[None], np.minimum(np.arange(10.0), 1.0)[None], np.array([3.0]))
FLAT = {"form": np.zeros((1, 4), np.int64), "tables": ROUND, "window_s": np.zeros(1), "alpha": 0.0, "top_p": 4}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_kernel_and_twin_agree(seed: int) -> None:
    fast, plain = hybrimoe_of(drawn(seed), split.hybrimoe), hybrimoe_of(drawn(seed), split_reference.hybrimoe)
    for name in FIELDS:
        assert np.array_equal(getattr(fast, name), getattr(plain, name)), name


def test_vectors() -> None:
    for vector in json.loads(FILE.read_text("utf-8")):
        found = recorded(hybrimoe_of(drawn(vector["seed"]), split.hybrimoe))
        for name in FIELDS:
            assert np.allclose(found[name], vector["hybrimoe"][name], rtol=1e-12, atol=0), name


def test_schedule_by_hand() -> None:
    """Queue 0 (cached), 1, 2, 3. GPU 0 at 1 s; CPU 3 at 2; GPU 1, sent by 3, at 4; CPU 2 at 6, before the GPU at 7."""
    gpu, cpu, link, place = split_reference.three_timelines(
        np.array([4, 3, 2, 1]), np.zeros(4, int), np.array([True, False, False, False]), np.zeros(4), ROUND
    )
    assert (gpu, cpu, link) == (4.0, 6.0, 3.0)
    assert place.tolist() == [HIT, STREAM, CPU, CPU]


def test_the_makespan_is_never_longer_than_all_on_the_cpu() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        tokens = rng.integers(0, 9, 6)
        cached = rng.random(6) < 0.5
        gpu, cpu, _, _ = split_reference.three_timelines(tokens, np.zeros(6, int), cached, np.zeros(6), ROUND)
        assert max(gpu, cpu) <= ROUND.cpu_s[0, tokens].sum() + 1e-12


def test_sent_experts_enter_for_lower_scores() -> None:
    """Expert 1 (score 0.6) takes the place of 3 (0.1); expert 2 (0.2) is computed by the CPU and does not enter."""
    found = split.hybrimoe(
        np.array([[[4, 3, 0, 0]]]),
        np.zeros((0, 1, 1, 4)),
        cached=np.array([[True, False, False, True]]),
        score=np.array([[0.9, 0.6, 0.2, 0.1]]),
        **FLAT,
    )
    assert found.place[0, 0].tolist() == [HIT, STREAM, NONE, NONE]
    assert found.cached[0].tolist() == [True, True, False, False]


def test_prefetch_by_hand() -> None:
    """Layer 0 leaves the link idle for 4 s; of layer 1's experts 1 (5 tokens) and 2 (1 token), the larger one moves."""
    tokens = np.array([[[1, 0, 0, 0], [0, 5, 1, 0]]])
    found = split.hybrimoe(
        tokens,
        tokens[None],
        np.zeros((2, 4), np.int64),
        ROUND,
        np.array([3.0, 0.0]),
        cached=np.array([[True, False, False, False], [False, False, False, True]]),
        score=np.zeros((2, 4)),
        alpha=0.0,
        top_p=4,
    )
    # Layer 0: expert 0 on the GPU, 1 s, nothing sent; idle 1 + 3 s: three seconds move expert 1, one starts expert 2.
    assert found.background_s[0].tolist() == [3.0, 0.0]
    assert found.place[0, 1].tolist() == [NONE, HIT, CPU, NONE]
    assert found.span_s[0].tolist() == [1.0, 2.0]


def test_what_is_not_prefetched_in_time_is_sent_for_the_rest() -> None:
    """One second of idle link: two seconds of the transfer are left when the layer begins."""
    tokens = np.array([[[1, 0, 0, 0], [0, 9, 0, 0]]])
    found = split.hybrimoe(
        tokens,
        tokens[None],
        np.zeros((2, 4), np.int64),
        ROUND,
        np.zeros(2),
        cached=np.array([[True, False, False, False], [False, False, False, True]]),
        score=np.zeros((2, 4)),
        alpha=0.0,
        top_p=4,
    )
    assert found.background_s[0, 0] == 1.0
    assert found.place[0, 1, 1] == STREAM
    assert found.link_s[0, 1] == 2.0


def test_predictions_keep_the_tokens_and_are_right_as_often_as_said() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (50, 10, 64)).astype(np.int32)
    ahead = predicted(counts, (1.0, 0.7), seed=3)
    assert np.array_equal(ahead[0], counts)
    assert np.array_equal(ahead[1].sum(axis=2), counts.sum(axis=2))
    seen = (ahead[1] >= counts)[counts > 0].mean()
    assert 0.7 < seen < 0.75  # some wrong guesses fall on another expert that is hit


def test_a_table_that_is_too_short_is_refused() -> None:
    """A wrong guess can pile more tokens on an expert than any expert really has."""
    tokens = np.array([[[1, 1, 0, 0]]])
    piled = np.array([[[[10, 0, 0, 0]]]])
    with pytest.raises(ValueError, match="10 tokens; the tables reach to 9"):
        split.hybrimoe(tokens, piled, cached=np.zeros((1, 4), bool), score=np.zeros((1, 4)), **FLAT)


def test_wrong_guesses_change_nothing_but_transfers() -> None:
    """Gates that are always wrong: more tokens meet on an expert than there are in the pass; the plan still adds up."""
    c = case(tiny("hybrimoe", {"gate_accuracy": 0.0, "gate_accuracy_farther": 0.0}, batch=16, gpu_experts_per_layer=2))
    found = HybriMoe().split(c.ctx, c.ready, c.placed, c.routing)
    assert np.array_equal(found.counts, c.routing.counts[c.routing.counts.shape[0] // 3 :])
    assert ((found.place != NONE) == (found.counts > 0)).all()


def test_pass_by_hand_without_cache() -> None:
    """Two experts with a token each: the CPU reads both, 39 us each, in less time than the link takes for one."""
    c = case(tiny("hybrimoe", gpu_experts_per_layer=0))
    step = c.step(every_layer([1, 1, 0, 0, 0, 0, 0, 0]))
    assert routed_s(step) == pytest.approx(LAYERS * (2 * W / DRAM + 2 * 512 / LINK), rel=1e-6)


def test_pass_by_hand_with_cache() -> None:
    """Both in HBM: the second goes to the CPU only if that is faster, which it is not."""
    c = case(tiny("hybrimoe", gpu_experts_per_layer=2))
    step = c.step(every_layer([1, 1, 0, 0, 0, 0, 0, 0]), c.resident([1, 1, 0, 0, 0, 0, 0, 0]))
    assert routed_s(step) == pytest.approx(LAYERS * 2 * W / HBM, rel=1e-6)


def test_reported_hit_rate_is_that_of_the_timed_steps() -> None:
    c = case(tiny("hybrimoe", gpu_experts_per_layer=3))
    report = HybriMoe().details(c.ctx, c.ready, c.placed, c.routing).caches[0]
    split_ = HybriMoe().split(c.ctx, c.ready, c.placed, c.routing)
    assert report.warm_up_steps + report.steps == c.routing.counts.shape[0]
    assert report.steps == split_.place.shape[0] == c.found.decode.step.samples if c.found.decode else False
    assert 0.0 < report.hit_rate < 1.0
    assert report.slots_per_layer == 3.0
    assert report.bytes_per_step > 0


def test_a_larger_cache_hits_more() -> None:
    rates = [
        HybriMoe().details(c.ctx, c.ready, c.placed, c.routing).caches[0].hit_rate
        for c in (case(tiny("hybrimoe", gpu_experts_per_layer=n)) for n in (1, 3, 6, EXPERTS))
    ]
    assert rates == sorted(rates)
    assert rates[-1] == 1.0
