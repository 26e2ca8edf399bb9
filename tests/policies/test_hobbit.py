"""HOBBIT: the precision rule on gate weights, two caches, misses over the link or on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import models
from planner.context import resolve
from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.policies.precision_rule import HIGH, LOW, SKIPPED, UNWANTED, pass_classes, token_classes
from tests.engine.engine_scenarios import scenario as engine_scenario
from tests.policies.cache_cases import (
    B_DRAM,
    B_HBM,
    B_LINK,
    HIDDEN,
    LOAD_S,
    READ_S,
    W,
    decode_step,
    head_s,
    parts,
    tiny,
    weights_s,
    written,
)

# One token wants experts 0 and 1 in each of the two layers; which one weighs more is drawn.
PAIR = np.array([[[1, 1, 0, 0], [1, 1, 0, 0]]] * 8, np.int32)
GATES = [[0.7, 0.3]]
W_LOW = models.expert_bytes(resolve(tiny("hobbit")).arch, "int4-g128")


def hobbit(**options: object):  # type: ignore[no-untyped-def]
    return tiny("hobbit", top_k=2, gpu_experts_per_layer=0, options={"prefetch": False, **options})


def pair(gates: object = GATES):  # type: ignore[no-untyped-def]
    return written(PAIR, top_k=2, gates=gates)


def test_rule_by_hand() -> None:
    gates = np.array([[0.5, 0.3, 0.2], [0.7, 0.25, 0.05], [0.95, 0.04, 0.01]], np.float32)
    classes = token_classes(gates, 0.6, 0.9)
    # weight before: 0, .5, .8; 0, .7, .95; 0, .95, .99
    assert classes.tolist() == [[HIGH, HIGH, LOW], [HIGH, LOW, SKIPPED], [HIGH, SKIPPED, SKIPPED]]
    assert (token_classes(gates, 0.0, 0.0)[:, 0] == HIGH).all()  # the first is never skipped
    assert (token_classes(gates, 1.0, 1.0) == HIGH).all()


def test_one_token_gives_each_class_once() -> None:
    classes = token_classes(np.array([[0.7, 0.25, 0.05]], np.float32), 0.6, 0.9)
    counts = np.array([[[1, 0, 1, 1], [0, 1, 1, 1]]] * 50, np.int32)
    found = pass_classes(counts, classes, 1, seed=3)
    assert ((found > 0) == (counts > 0)).all()
    for code in (HIGH, LOW, SKIPPED):
        assert ((found == code).sum(axis=2) == 1).all()
    assert len(np.unique(found[:, 0].argmax(axis=1))) > 1  # which one is drawn
    assert np.array_equal(found, pass_classes(counts, classes, 1, seed=3))
    assert not np.array_equal(found, pass_classes(counts, classes, 1, seed=4))


def test_an_expert_of_many_tokens_is_wanted_as_well_as_any_wants_it() -> None:
    gates = np.array([[0.7, 0.25, 0.05]], np.float32)  # a third high, low, skipped
    classes = token_classes(gates, 0.6, 0.9)
    counts = np.full((4000, 1, 2), 2, np.int32)
    counts[:, :, 1] = 40
    found = pass_classes(counts, classes, 100, seed=0)
    few, many = found[:, 0, 0], found[:, 0, 1]
    assert np.mean(few == HIGH) == pytest.approx(1 - (2 / 3) ** 2, abs=0.03)
    assert np.mean(few == SKIPPED) == pytest.approx((1 / 3) ** 2, abs=0.03)
    assert (many == HIGH).all()
    assert (pass_classes(np.zeros((1, 1, 2), np.int32), classes, 100, 0) == UNWANTED).all()


def test_step_of_misses_by_hand() -> None:
    step = decode_step(hobbit(), pair())
    low_load, low_read = W_LOW / B_LINK, W_LOW / B_HBM
    # high and low copy cross; the high one is computed meanwhile, the low one last
    by_hand = 2 * (weights_s() + LOAD_S + low_load + low_read) + head_s()
    assert step.total_s == pytest.approx(by_hand, rel=1e-12)


def test_skipped_experts_are_neither_fetched_nor_computed() -> None:
    step = decode_step(hobbit(t1=0.6, t2=0.6), pair())
    assert step.total_s == pytest.approx(2 * (weights_s() + LOAD_S + READ_S) + head_s(), rel=1e-12)
    whole = decode_step(hobbit(t1=1.0, t2=1.0), pair())
    assert whole.total_s == pytest.approx(2 * (weights_s() + 2 * LOAD_S + READ_S) + head_s(), rel=1e-12)


def test_misses_on_the_cpu_by_hand() -> None:
    step = decode_step(hobbit(miss_path="cpu"), pair())
    round_trip = 2 * HIDDEN * 2.0 / B_LINK
    by_hand = 2 * (weights_s() + (W + W_LOW) / B_DRAM + round_trip) + head_s()
    assert step.total_s == pytest.approx(by_hand, rel=1e-12)


def test_foreseen_misses_cross_during_attention_and_wrong_guesses_cost_their_bytes() -> None:
    perfect = decode_step(hobbit(prefetch=True, prefetch_accuracy=1.0), pair())
    low_read = W_LOW / B_HBM
    both = LOAD_S + W_LOW / B_LINK
    assert perfect.total_s == pytest.approx(2 * (both + low_read) + head_s(), rel=1e-12)  # attention hides
    wrong = decode_step(hobbit(prefetch=True, prefetch_accuracy=0.75), pair())
    assert wrong.total_s == pytest.approx(2 * (1.25 * both + low_read) + head_s(), rel=1e-12)


def test_a_high_copy_serves_a_low_wish() -> None:
    # everything in high precision in HBM, no low-precision slots: nothing crosses, all is read at 16 bit
    scenario = tiny("hobbit", top_k=2, gpu_experts_per_layer=4, options={"low_slots": 0.0, "prefetch": False})
    step = decode_step(scenario, pair())
    assert step.total_s == pytest.approx(2 * (weights_s() + 2 * READ_S) + head_s(), rel=1e-12)


def test_ledger_holds_both_precisions() -> None:
    scenario = tiny("hobbit", top_k=2, gpu_experts_per_layer=1, options={"low_slots": 1.5})
    ready = parts(scenario, pair())[2]
    gpu, host = ready.ledger
    assert gpu.items["experts"][0] == 2 * W
    assert gpu.items["experts, low precision"][0] == pytest.approx(3 * W_LOW)
    assert gpu.items["streaming buffers"][0] == 2 * W
    whole = sum(host.items[n][0] for n in ("experts", "duplicates of experts in HBM"))
    assert whole == pytest.approx(8 * W)
    assert host.items["experts, low precision"][0] == pytest.approx(8 * W_LOW)


def test_report_of_both_caches_and_the_rule() -> None:
    scenario = tiny("hobbit", top_k=2, gpu_experts_per_layer=1, options={"prefetch": False})
    ctx, policy, ready, placed = parts(scenario, pair())
    details = policy.details(ctx, ready, placed, pair())
    assert details is not None
    high, low = details.caches
    assert high.slots_per_layer == low.slots_per_layer == 1.0
    assert 0 <= high.hit_rate <= 1 and 0 <= low.hit_rate <= 1
    moved = high.bytes_per_step / W + low.bytes_per_step / W_LOW
    assert moved == pytest.approx(2 * (1 - high.hit_rate) + 2 * (1 - low.hit_rate))
    assert details.facts[0][1] == "Of the expert reads of a pass: 50.0% high, 50.0% low, 0.0% skipped."


def test_published_shares_of_mixtral() -> None:
    """67 % high, 30 % low, 3 % skipped on Mixtral (arXiv 2411.01433); nothing here is fitted to them."""
    found = evaluate(engine_scenario(system__id="h100-amx-server", workload__batch=1, policy__id="hobbit"))
    assert found.placed is not None
    wanted = found.placed.wanted  # type: ignore[attr-defined]
    share = [float((wanted == code).sum() / (wanted > 0).sum()) for code in (HIGH, LOW, SKIPPED)]
    assert share[0] == pytest.approx(0.67, abs=0.08)
    assert share[1] == pytest.approx(0.30, abs=0.08)
    assert share[2] == pytest.approx(0.03, abs=0.05)
    assert any("Skipping changes what the model computes" in note for note in found.policy.notes)


@pytest.mark.parametrize(
    ("chosen", "word"),
    [
        ({"options": {"t1": 0.9, "t2": 0.6}}, "cross"),
        ({"options": {"recency": 0.0, "frequency": 0.0, "high": 0.0, "near": 0.0}}, "at least one"),
        ({"weight_bits": 16.0}, "fewer bits"),
        ({"options": {"t1": 1.5}}, "from 0 to 1"),
        ({"options": {"miss_path": "disk"}}, "one of load, cpu"),
    ],
)
def test_bad_input(chosen: dict[str, object], word: str) -> None:
    with pytest.raises(PlanError, match=word) as error:
        parts(tiny("hobbit", top_k=2, **chosen), pair())
    assert "\n" not in str(error.value) and str(error.value).endswith(".")


def test_routing_without_scores_is_refused() -> None:
    with pytest.raises(PlanError, match="router scores"):
        parts(hobbit(), pair(np.empty((0, 0))))
