"""CPU experts: Expert Deferral and the choice of experts kept in HBM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.policies.cpu_experts import hot_experts
from planner.step import time_pass
from tests.policies.policy_cases import DRAM, EXPERTS, LAYERS, LINK, Case, W, case, every_layer, routed_s, tiny

FOUR = {"num_experts_per_tok": 4}
READ = W / DRAM


def cpu(deferred: int, **chosen: Any) -> Case:
    return case(tiny("cpu-experts", {"deferred_experts": deferred}, config=FOUR, **chosen))


def test_deferral_by_hand() -> None:
    """Four experts of one token, two of them late: the CPU is busy from the first router to the end."""
    row = every_layer([1, 1, 1, 1, 0, 0, 0, 0])
    plain, late = cpu(0).step(row), cpu(2).step(row)
    there_and_back = 2 * 512 / LINK
    assert routed_s(plain) == pytest.approx(LAYERS * (4 * READ + there_and_back), rel=1e-6)
    # What is deferred hides the attention (and router) of the layers that follow: all but the first, and the head.
    attention = sum(p.exposed_s for p in plain.parts if p.part == "attention")
    router = sum(p.exposed_s for p in plain.parts if p.part == "dense_shared") - 512 * 256 * 2 / 1e12
    gained = (attention + router) * (LAYERS - 1) / LAYERS
    assert plain.total_s - late.total_s == pytest.approx(gained, rel=1e-3)
    assert gained > 0


def test_deferral_hides_no_more_than_there_is() -> None:
    """Attention longer than the deferred work (a slow GPU): every late expert but the last layer's disappears."""
    over = {"gpu.memory_bandwidth_bytes_per_s": 1e9, "gpu.bf16_flop_per_s": 1e15}
    row = every_layer([1, 1, 1, 1, 0, 0, 0, 0])
    plain = case(tiny("cpu-experts", {"deferred_experts": 0}, config=FOUR, over=over)).step(row)
    late = case(tiny("cpu-experts", {"deferred_experts": 2}, config=FOUR, over=over)).step(row)
    assert plain.total_s - late.total_s == pytest.approx((LAYERS - 1) * 2 * READ, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 2),
    st.integers(1, 16),
    st.sampled_from([1e9, 1e10, 1e12]),
    st.sampled_from([0, 3]),
    st.sampled_from(["gpu", "host"]),
    st.integers(0, 2**32 - 1),
)
def test_deferral_is_never_slower(deferred: int, batch: int, hbm: float, kept: int, kv: str, seed: int) -> None:
    over = {"gpu.memory_bandwidth_bytes_per_s": hbm, "cpu.vector_flop_per_s": 1e12}
    chosen: dict[str, Any] = {"batch": batch, "over": over, "gpu_experts_per_layer": kept, "kv_location": kv}
    rng = np.random.default_rng(seed)
    order = rng.random((3, LAYERS, batch, EXPERTS)).argsort(axis=3)
    counts = (order < 4).sum(axis=2).astype(np.int32)  # four experts of each token
    before, after = cpu(0, **chosen).step(counts), cpu(deferred, **chosen).step(counts)
    assert after.total_s <= before.total_s * (1 + 1e-12)
    # The same bytes and FLOP, only earlier or later.
    assert after.byte_floor_s == pytest.approx(before.byte_floor_s, rel=1e-9)
    assert after.flop_floor_s == pytest.approx(before.flop_floor_s, rel=1e-9)


def test_an_expert_with_several_tokens_is_late_only_if_all_of_them_are() -> None:
    """Two tokens each, half of a token's experts late: a quarter of the reads in the mean, a half at one token."""
    over = {"gpu.memory_bandwidth_bytes_per_s": 1e9, "gpu.bf16_flop_per_s": 1e15}
    row = every_layer([2, 2, 2, 2, 0, 0, 0, 0])
    times = [
        case(tiny("cpu-experts", {"deferred_experts": d}, batch=2, config=FOUR, over=over)).step(row).total_s
        for d in (0, 2)
    ]
    assert times[0] - times[1] == pytest.approx((LAYERS - 1) * 4 * READ / 4, rel=1e-6)


def test_prefill_does_not_defer() -> None:
    found = [cpu(d).found.prefill for d in (0, 2)]
    assert found[0] is not None and found[1] is not None
    assert found[0].alternatives == found[1].alternatives


def test_too_many_deferred_is_one_sentence() -> None:
    with pytest.raises(PlanError, match="deferred_experts is 3; of the 4 experts of a token at least 2 stay"):
        evaluate(tiny("cpu-experts", {"deferred_experts": 3}, config=FOUR))
    with pytest.raises(PlanError, match="it takes 0 to 0"):
        evaluate(tiny("cpu-experts", {"deferred_experts": 1}))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("layers", [[0, 0, 1], [1, 0, 0]]),
        ("frequency", [[0, 1, 1], [0, 0, 0]]),
        ("dynamic", [[1, 0, 0], [0, 1, 0]]),
        ("uniform", [[1, 0, 0], [1, 0, 0]]),
        ("front-loading", [[1, 1, 0], [0, 0, 0]]),
    ],
)
def test_placements_by_hand(strategy: str, expected: list[list[int]]) -> None:
    c = case(tiny("cpu-experts"))
    profile = np.array([[1.0, 8.0, 9.0], [5.0, 4.0, 3.0]])
    context = np.array([[9.0, 8.0, 1.0], [1.0, 5.0, 4.0]])
    routing = c.with_counts(np.zeros((1, 2, 3)), profile=profile, context=context)
    assert hot_experts(strategy, 1, routing).astype(int).tolist() == expected


def test_learnt_placements_catch_more_than_those_without_statistics() -> None:
    shares = {}
    for strategy in ("layers", "frequency", "dynamic", "uniform", "front-loading"):
        c = case(tiny("cpu-experts", {"hot_placement": strategy}, gpu_experts_per_layer=2))
        assert c.placed.resident.sum() == 2 * LAYERS
        shares[strategy] = float(c.routing.counts[:, c.placed.resident].sum() / c.routing.counts.sum())
    assert min(shares["layers"], shares["frequency"]) > max(shares["uniform"], shares["front-loading"])


def test_step_of_the_deferred_pass_adds_up() -> None:
    step = time_pass(cpu(2, gpu_experts_per_layer=2).decode(every_layer([1, 1, 1, 1, 0, 0, 0, 0])), cpu(2).ctx.machine)
    assert sum(p.exposed_s for p in step.step.parts) == pytest.approx(step.step.total_s)


def test_details_tell_hits_and_what_is_late() -> None:
    """One token's four experts: half of the CPU's are late, but none in the last of four layers."""
    c = cpu(2, gpu_experts_per_layer=2)
    placed, routing = c.resident([1, 0, 0, 0, 0, 0, 0, 0]), c.with_counts(every_layer([1, 1, 1, 1, 0, 0, 0, 0]))
    details = c.policy.details(c.ctx, c.ready, placed, routing)
    assert details is not None
    facts = dict(details.facts)
    assert facts["Hit rate"].startswith("25.0%")
    assert facts["Deferred"].startswith("37.5%")
    plain = cpu(0)
    assert plain.policy.details(plain.ctx, plain.ready, plain.placed, plain.routing) is None
