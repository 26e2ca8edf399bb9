"""Klotski: n batches pass a layer together; its constraints 4 to 7 and the choice of n."""

from __future__ import annotations

import numpy as np
import pytest

from planner.errors import PlanError
from planner.policies.klotski import Klotski
from tests.policies.cache_cases import (
    B_HBM,
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

# Eight tokens, top-2: four on each expert of each layer.
ALL = np.full((2, 2, 4), 4, np.int32)
FAST = {"pcie.bandwidth_bytes_per_s": 1e13, "dram.bandwidth_bytes_per_s": 1e14}


def klotski(n: int = 0, machine: dict[str, float] | None = None, **options: object):  # type: ignore[no-untyped-def]
    return tiny(
        "klotski", top_k=2, batch=8, gpu_experts_per_layer=0, machine=machine, options={"batches": n, **options}
    )


def eight(load: object = None):  # type: ignore[no-untyped-def]
    return written(ALL, top_k=2, load=load)


def group_s(n: int) -> float:
    """Attention of n batches of 8 / n sequences: weights n times, every KV cache once."""
    return n * attention_bytes() / B_HBM + 8 * kv_bytes() / B_HBM


def test_step_by_hand_where_transfers_take_longer() -> None:
    for n in (1, 2, 4):
        step = decode_step(klotski(n), eight())
        # all four experts cross; attention and experts hide behind them
        assert step.total_s == pytest.approx(2 * 4 * LOAD_S + head_s(), rel=1e-12)


def test_step_by_hand_where_work_takes_longer() -> None:
    for n in (1, 2, 4):
        step = decode_step(klotski(n, FAST), eight())
        # an expert is read once for all batches; attention weights once for each
        assert step.total_s == pytest.approx(2 * (group_s(n) + 4 * READ_S) + head_s(), rel=1e-12)


def test_cold_experts_wait_for_the_first_gate() -> None:
    """With one hot expert, the link is idle from its arrival to the first gate."""
    middle = {"pcie.bandwidth_bytes_per_s": W / 4e-6, "dram.bandwidth_bytes_per_s": 1e14}  # 4 us an expert
    routing = eight(load=[[9, 1, 1, 1], [1, 1, 9, 1]])
    for n in (1, 8):
        first = group_s(n) / n
        by_hand = first + max(group_s(n) - first + 4 * READ_S, 16e-6 - min(4e-6, first))
        step = decode_step(klotski(n, middle, hot_experts=1), routing)
        assert step.total_s == pytest.approx(2 * by_hand + head_s(), rel=1e-12)


def test_a_wrong_hot_expert_costs_its_transfer() -> None:
    counts = np.array([[[8, 8, 0, 0], [8, 8, 0, 0]]] * 2, np.int32)
    right = written(counts, top_k=2, load=[[9, 9, 1, 1]] * 2)
    wrong = written(counts, top_k=2, load=[[1, 1, 9, 9]] * 2)
    assert decode_step(klotski(2), right).total_s == pytest.approx(2 * 2 * LOAD_S + head_s(), rel=1e-12)
    assert decode_step(klotski(2), wrong).total_s == pytest.approx(2 * 4 * LOAD_S + head_s(), rel=1e-12)


def test_residents_do_not_cross() -> None:
    scenario = tiny("klotski", top_k=2, batch=8, gpu_experts_per_layer=3, options={"batches": 2})
    step = decode_step(scenario, eight())
    assert step.total_s == pytest.approx(2 * LOAD_S + head_s(), rel=1e-12)


def test_constraints_by_hand() -> None:
    scenario = klotski(2, FAST)
    ctx, policy, ready, placed = parts(scenario, eight())
    assert isinstance(policy, Klotski)
    sides = policy.sides(ctx, ready, 2, ALL, placed)  # type: ignore[arg-type]
    t_io, t_a = W / 1e13, group_s(2)
    assert sides.work_s.tolist() == pytest.approx([t_a, t_a, t_a + 2 * READ_S, t_a + 4 * READ_S])
    # K = top-k = 2 hot ones, 2 cold ones
    assert sides.transfer_s.tolist() == pytest.approx([0.0, 2 * t_io, 3 * t_io, 4 * t_io], abs=1e-15)
    assert sides.satisfied.all()


def test_smallest_n_that_satisfies_all_is_chosen() -> None:
    """n t_A >= 2 t_IO(E): attention weights are read n times, so n has to make up for the transfers."""
    one = attention_bytes() / B_HBM
    for wanted in (2, 3, 5):
        rate = 2 * W / ((wanted - 0.5) * one + 8 * kv_bytes() / B_HBM)
        machine = {"pcie.bandwidth_bytes_per_s": rate, "dram.bandwidth_bytes_per_s": 1e14}
        ready = parts(klotski(0, machine), eight())[2]
        assert ready.batches == wanted  # type: ignore[attr-defined]
        assert ready.sides.satisfied.all()  # type: ignore[attr-defined]


def test_without_a_bubble_free_n_the_shortest_layer_is_chosen_and_told() -> None:
    ctx, policy, ready, placed = parts(klotski(), eight())
    assert ready.batches == 1  # type: ignore[attr-defined]
    details = policy.details(ctx, ready, placed, eight())
    assert details is not None
    facts = dict(details.facts)
    assert "does not hold" in facts["Constraint 7"]
    assert facts["Constraint 4"].endswith("it holds.")
    # 4 LOAD_S = n t_A + 4 READ_S, all with batches of eight
    needed = -(-(4 * LOAD_S - 4 * READ_S) // weights_s(8))
    assert facts["Bubble-free at"].startswith(f"About {needed:,.0f} batches of 8")


def test_streamed_attention_weights() -> None:
    plain, streamed = (parts(klotski(2, stream_attention=s), eight()) for s in (False, True))
    step = decode_step(klotski(2, stream_attention=True), eight())
    crossing = attention_bytes() / 1e10
    assert step.total_s == pytest.approx(2 * (4 * LOAD_S + crossing) + head_s(), rel=1e-12)
    gpu, host = streamed[2].ledger
    assert gpu.items["attention"] == plain[2].ledger[0].items["attention"]  # two layers: both fit the window
    assert host.items["attention"][0] == pytest.approx(2 * attention_bytes())
    sides = streamed[1].sides(streamed[0], streamed[2], 2, ALL, streamed[3])  # type: ignore[attr-defined]
    assert sides.transfer_s[0] == pytest.approx(crossing)


def test_kv_in_host_memory_shares_the_link() -> None:
    scenario = tiny("klotski", top_k=2, batch=8, gpu_experts_per_layer=0, kv_location="host", options={"batches": 2})
    step = decode_step(scenario, eight())
    assert step.total_s == pytest.approx(2 * (4 * LOAD_S + 8 * kv_bytes() / 1e10) + head_s(), rel=1e-12)
    ctx, policy, ready, placed = parts(scenario, eight())
    assert ready.attention_device == "gpu"
    sides = policy.sides(ctx, ready, 2, ALL, placed)  # type: ignore[attr-defined]
    assert sides.transfer_s[3] == pytest.approx(4 * LOAD_S + 8 * kv_bytes() / 1e10)


def test_prefill_moves_each_hit_expert_once() -> None:
    prefill = np.array([[[100, 50, 50, 0], [200, 0, 0, 0]]])
    routing = written(ALL, top_k=2, prefill=prefill)
    head = 1000 * 1024 * 2 / B_HBM
    assert prefill_s(klotski(2), routing, "stream") == pytest.approx(4 * LOAD_S + head, rel=1e-6)


def test_micro_batches_are_the_batches() -> None:
    scenario = tiny("klotski", top_k=2, batch=8, micro_batches=4, gpu_experts_per_layer=0)
    assert parts(scenario, eight())[2].batches == 4  # type: ignore[attr-defined]
    with pytest.raises(PlanError, match="give one of them"):
        parts(tiny("klotski", top_k=2, batch=8, micro_batches=4, options={"batches": 2}), eight())


def test_more_batches_than_sequences_are_as_many() -> None:
    assert parts(klotski(4000), eight())[2].batches == 8  # type: ignore[attr-defined]


def test_ledger_by_hand() -> None:
    ready = parts(klotski(2), eight())[2]
    gpu, host = ready.ledger
    assert gpu.items["KV cache"][0] == pytest.approx(8 * 2 * kv_bytes(101))
    assert gpu.items["streaming buffers"][0] == 4 * W  # two hot ones, one in use, one on its way
    assert gpu.items["hidden states"][0] == 4 * 1024 * 2  # the other batch of four
    assert host.items["experts"][0] == 8 * W
