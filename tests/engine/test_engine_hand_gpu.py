"""All-GPU steps of a tiny model, computed by hand: one GPU, tensor, expert, data and pipeline parallel."""

from __future__ import annotations

import math

import pytest

from planner.deal import deal
from tests.engine.engine_tiny import (
    CONTEXTS,
    EXPERTS,
    LAYERS,
    PLAIN,
    TOP_K,
    VECTOR_BYTES,
    Hand,
    evaluated,
    mean,
    timed,
    tiny,
)


@pytest.mark.parametrize("batch", [1, 5, 40])
def test_one_gpu(batch: int) -> None:
    counts, step = timed(evaluated(tiny("1x-h100-sxm", PLAIN, batch)))
    hand = Hand(batch)
    times = [
        hand.head() + sum(hand.attention(c) + sum(hand.expert(int(n)) for n in layer) for layer in sample)
        for c in CONTEXTS
        for sample in counts
    ]
    assert step == pytest.approx(mean(times), rel=1e-12)


@pytest.mark.parametrize(("system", "ranks"), [("2x-h100-sxm", 2), ("4x-h100-sxm", 4)])
@pytest.mark.parametrize("batch", [3, 40])
def test_tensor_parallel_slices_everything_and_reduces_twice(system: str, ranks: int, batch: int) -> None:
    """Two KV heads: on four cards each half of the cache is read by two of them."""
    counts, step = timed(evaluated(tiny(system, PLAIN, batch)))
    hand = Hand(batch, ranks)
    times = [
        hand.head()
        + sum(hand.attention(c) + 2 * hand.all_reduce() + sum(hand.expert(int(n)) for n in layer) for layer in sample)
        for c in CONTEXTS
        for sample in counts
    ]
    assert step == pytest.approx(mean(times), rel=1e-12)


@pytest.mark.parametrize("batch", [3, 40])
def test_expert_parallel_waits_for_the_slowest_rank(batch: int) -> None:
    """Whole experts on two cards, dealt by learnt load; dispatch by the distinct cards of a token, then a gather."""
    found = evaluated(tiny("2x-h100-sxm", PLAIN, batch, policy__expert_parallel=True))
    counts, step = timed(found)
    assert found.routing is not None
    home = deal(found.routing.profile, 2)
    hand = Hand(batch, 2)
    reached = 2 * (1 - (1 - 1 / 2) ** TOP_K)
    dispatch = batch / 2 * reached * VECTOR_BYTES * (1 / 2) / hand.link
    gather = (1 / 2) * batch * VECTOR_BYTES / hand.link
    times = []
    for c in CONTEXTS:
        for sample in counts:
            total = hand.head()
            for index, layer in enumerate(sample):
                ranks = [
                    sum(hand.expert(int(layer[e]), 1) for e in range(EXPERTS) if home[index, e] == r) for r in (0, 1)
                ]
                total += hand.attention(c) + hand.all_reduce() + max(ranks) + dispatch + gather
            times.append(total)
    assert step == pytest.approx(mean(times), rel=1e-12)


def test_expert_parallel_is_slower_than_its_mean_rank_and_no_slower_than_one_card() -> None:
    found = evaluated(tiny("2x-h100-sxm", PLAIN, 40, policy__expert_parallel=True))
    counts, _ = timed(found)
    assert found.decode is not None
    routed = sum(p.exposed_s for p in found.decode.step.parts if p.part == "routed_gpu")
    hand = Hand(40, 2)
    everything = mean([sum(hand.expert(int(n), 1) for layer in sample for n in layer) for sample in counts])
    assert everything / 2 <= routed <= everything


@pytest.mark.parametrize("micro_batches", [1, 2, 4, 8])
def test_pipeline_runs_micro_batches_through_two_equal_stages(micro_batches: int) -> None:
    """Stages of one layer each: m micro-batches take m stages, but never less than one whole pass."""
    link = 1e13  # hand-over between stages costs nothing
    overrides = {**PLAIN, "scaleup.bandwidth_bytes_per_s": link}
    chosen = tiny("2x-h100-sxm", overrides, 8, policy__pipeline_parallel=2, policy__micro_batches=micro_batches)
    found = evaluated(chosen)
    counts, step = timed(found)
    passes = max(micro_batches, 2)
    hand = Hand(8 // passes)
    assert found.routing is not None and found.routing.tokens_per_pass == 8 // passes
    samples = range(len(counts))
    layer_s = [
        mean([hand.attention(c) + sum(hand.expert(int(n)) for n in counts[s][i]) for c in CONTEXTS for s in samples])
        for i in range(LAYERS)
    ]
    factor = max(1.0, passes * max(layer_s) / sum(layer_s))
    hand_over = hand.batch * VECTOR_BYTES / link
    expected = (sum(layer_s) + hand.head() + hand_over) * factor
    assert step == pytest.approx(expected, rel=1e-9)


def test_replicas_share_the_batch_and_the_fullest_sets_the_time() -> None:
    three, four, one = (
        timed(evaluated(tiny(system, PLAIN, batch, policy__data_parallel=data)))[1]
        for system, batch, data in (("2x-h100-sxm", 7, 2), ("2x-h100-sxm", 8, 2), ("1x-h100-sxm", 4, 1))
    )
    assert three == four == one


def test_launch_is_per_layer_and_more_when_it_is_not_captured() -> None:
    launches = {
        **PLAIN,
        "gpu.layer_launch_s": 3e-5,
        "gpu.layer_launch_tp_s": 1e-5,
        "gpu.layer_launch_eager_s": 8e-4,
        "gpu.layer_uncaptured_s": 1.6e-3,
        "gpu.captured_batch_max": 16,
    }
    for batch, graphs, each in ((16, True, 3e-5), (17, True, 1.6e-3), (16, False, 8e-4), (17, False, 1.6e-3)):
        found = evaluated(tiny("4x-h100-sxm", launches, batch, policy__cuda_graphs=graphs))
        assert found.decode is not None
        assert found.decode.step.fixed_s == pytest.approx(LAYERS * (each + 1e-5 * math.log2(4)), rel=1e-12)
        bare = timed(evaluated(tiny("4x-h100-sxm", PLAIN, batch, policy__cuda_graphs=graphs)))[1]
        assert found.decode.step.total_s == pytest.approx(bare + found.decode.step.fixed_s, rel=1e-12)


def test_a_step_is_the_mean_over_samples_not_the_time_of_the_mean_load() -> None:
    """Half a token on each of two experts costs two reads; one token here or there costs one."""
    found = evaluated(tiny("1x-h100-sxm", PLAIN, 1, routing__steps=64, routing__sigma=0.0, routing__sigma_request=0.0))
    assert found.decode is not None and found.routing is not None
    hand = Hand(1)
    assert sum(p.exposed_s for p in found.decode.step.parts if p.part == "routed_gpu") == pytest.approx(
        LAYERS * TOP_K * hand.expert(1), rel=1e-12
    )
    of_the_mean = sum(hand.expert(1) for load in found.routing.counts.mean(axis=0).ravel() if load > 0)
    assert of_the_mean > 1.5 * LAYERS * TOP_K * hand.expert(1)


def test_overlap_adds_the_shorter_of_compute_and_bytes() -> None:
    """max(c, b) + (1 - o) min(c, b): with o = 0 the two add up, in between they go linearly."""
    steps = [timed(evaluated(tiny("1x-h100-sxm", {**PLAIN, "gpu.overlap": o}, 40)))[1] for o in (0.0, 0.25, 1.0)]
    assert steps[0] > steps[2]
    assert steps[1] == pytest.approx(0.75 * steps[0] + 0.25 * steps[2], rel=1e-12)
