"""All on GPUs, expert parallel: EPLB's copies, their packing, and how even the GPUs become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.deal import deal
from planner.eplb import UNUSED, balanced, imbalance, in_order, replicate, tokens_of
from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.routing import routing_state
from planner.scenario import RoutingChoice, Scenario


def test_copies_by_hand() -> None:
    """12, 6, 3: the first two further slots go to the 12 (12, then 6 per copy, before the 6 of lower rank), then 6."""
    load = np.array([[12.0, 6.0, 3.0]])
    assert replicate(load, 0).tolist() == [[1, 1, 1]]
    assert replicate(load, 1).tolist() == [[2, 1, 1]]
    assert replicate(load, 2).tolist() == [[3, 1, 1]]
    assert replicate(load, 3).tolist() == [[3, 2, 1]]


def test_packing_by_hand() -> None:
    """Loads 8, 2, 1, 1 on two GPUs: 8 against 4 without copies, 6 and 6 with two of them."""
    load = np.array([[8.0, 2.0, 1.0, 1.0]])
    counts = np.array([[[8, 2, 1, 1]]], np.int32)
    assert imbalance(counts, balanced(load, 2), 2)[0, 0] == pytest.approx(9 / 6 - 1)  # two slots a GPU: 8 + 1, 2 + 1
    slots = balanced(load, 2, 2)
    assert sorted(tokens_of(counts, slots)[0, 0].tolist()) == [1, 1, 2, 2, 3, 3]
    assert imbalance(counts, slots, 2)[0, 0] == 0.0
    assert np.bincount(slots.rank[0]).tolist() == [3, 3]


def test_tokens_divide_evenly_over_copies_and_none_is_lost() -> None:
    load = np.array([[9.0, 1.0]])
    slots = balanced(load, 2, 2)
    tokens = tokens_of(np.array([[[7, 2]]], np.int32), slots)[0, 0]
    assert tokens.sum() == 9
    of_first = np.sort(tokens[slots.expert[0] == 0])
    assert of_first.tolist() == [2, 2, 3]


def test_without_copies_it_is_the_plain_deal() -> None:
    load = np.random.default_rng(0).random((5, 24))
    assert np.array_equal(balanced(load, 4).rank, deal(load, 4))
    assert in_order(1, 6, 3).rank[0].tolist() == [0, 0, 1, 1, 2, 2]


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 8), st.integers(1, 8), st.integers(1, 8), st.floats(0.1, 2.0), st.integers(0, 2**32 - 1))
def test_copies_never_make_the_learnt_load_less_even(ranks: int, each: int, more: int, sigma: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = np.exp(rng.normal(0.0, sigma, (3, ranks * each)))
    # Whole tokens, fine enough to stand for the load.
    counts = np.round(load / load.max() * 1e6).astype(np.int32)[None]
    slots = balanced(load, ranks, min(ranks * more, ranks * each))
    before = imbalance(counts, balanced(load, ranks), ranks)
    assert (imbalance(counts, slots, ranks) <= before + 1e-3).all()
    assert np.array_equal(tokens_of(counts, slots).sum(axis=2), counts.sum(axis=2))
    for row in slots.rank:
        held = np.bincount(row[row != UNUSED], minlength=ranks)
        assert held.max() <= -(-slots.rank.shape[1] // ranks)


def test_published_imbalance_of_deepseek_r1() -> None:
    """TensorRT-LLM's figures: 1.56 with 32 GPUs and experts in order, 0.115 with 288 slots on 36 (4,096 tokens a pass).

    On generated routing, nothing tuned, placement learnt on other requests. At the skew documented for mixed traffic
    (0.7) the experts in order are half as uneven as on their data set, at that of one domain (1.0) two thirds. With
    copies the GPUs come out about as even as published at either skew.
    """
    layers = 20
    before = {}
    for sigma in (0.7, 1.0):
        state = routing_state(RoutingChoice(sigma=sigma), "r1", layers, 256, 8, 4096, 1, 64, 512, 4)
        before[sigma] = float(imbalance(state.counts, in_order(layers, 256, 32), 32).mean())
        after = float(imbalance(state.counts, balanced(state.profile, 36, 32), 36).mean())
        assert abs(after / 0.115 - 1) < 0.30
        assert after < before[sigma] / 5
    assert 0.55 < before[0.7] < 0.9
    assert 0.9 < before[1.0] < 1.564


def scenario(options: dict[str, Any] | None = None, **chosen: Any) -> Scenario:
    policy = {"id": "all-gpu", "options": options or {}, "expert_parallel": True, **chosen}
    return Scenario.model_validate(
        {
            "model": {"id": "Qwen/Qwen3-30B-A3B"},
            "system": {"id": "8x-h100-sxm"},
            "workload": {"batch": 2048, "prompt_tokens": 256, "output_tokens": 64},
            "policy": policy,
        }
    )


def test_copies_take_memory_and_are_told() -> None:
    plain, more = evaluate(scenario()), evaluate(scenario({"redundant_experts": 32}))
    assert plain.ready is not None and more.ready is not None
    before, after = (f.ready.ledger[0].items["experts"][0] for f in (plain, more) if f.ready)
    assert after / before == pytest.approx((128 + 32) / 128)
    assert more.placed is not None and more.routing is not None
    details = more.policy.details(more.ctx, more.ready, more.placed, more.routing)
    assert details is not None
    sentence = details.facts[0][1]
    values = [float(word) for word in sentence.replace(",", " ").split() if word[0].isdigit() and "." in word]
    in_order_, dealt, eplb = values[-3:]
    assert in_order_ > dealt > eplb


def test_the_order_of_experts_matters_and_copies_cost_reads() -> None:
    """In order the slowest GPU is slower; with copies the same tokens read more experts."""
    found = {name: evaluate(scenario(o)) for name, o in (("balanced", {}), ("in-order", {"expert_order": "in-order"}))}
    steps = {name: f.decode.step for name, f in found.items() if f.decode}
    assert steps["in-order"].total_s > steps["balanced"].total_s
    copies = evaluate(scenario({"redundant_experts": 64})).decode
    assert copies is not None
    bytes_of = [d.bytes for s in (steps["balanced"], copies.step) for d in s.domains if d.id == "gpu"]
    assert bytes_of[1] is not None and bytes_of[0] is not None and bytes_of[1] > bytes_of[0]
    assert copies.step.flop_floor_s == pytest.approx(steps["balanced"].flop_floor_s)


@pytest.mark.parametrize(
    ("chosen", "options", "text"),
    [
        ({"expert_parallel": False}, {"redundant_experts": 8}, "needs policy.expert_parallel on"),
        ({}, {"redundant_experts": 8, "expert_order": "in-order"}, "needs policy.options.expert_order 'balanced'"),
        ({}, {"redundant_experts": 897}, "take at most 896"),
    ],
)
def test_bad_options_are_sentences(chosen: dict[str, Any], options: dict[str, Any], text: str) -> None:
    with pytest.raises(PlanError, match=text):
        evaluate(scenario(options, **chosen))
