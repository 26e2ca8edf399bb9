"""DAOP: residents swapped for each sequence, the CPU one layer early, replaced experts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.policies.daop import Daop, Swapped, swapped
from planner.split import CPU, HIT, NONE, STREAM
from planner.step import time_pass
from tests.policies.policy_cases import DRAM, EXPERTS, HBM, LAYERS, LINK, Case, W, case, every_layer, routed_s, tiny

TWO_HOT = [1, 1, 0, 0, 0, 0, 0, 0]
ROUND_TRIP = 2 * 512 / LINK  # the activation of one token


def daop(options: dict[str, object] | None = None, **chosen: object) -> Case:
    return case(tiny("daop", options, gpu_experts_per_layer=2, **chosen))


def kept(c: Case, row: list[int]) -> Swapped:
    placed = c.resident(row)
    assert isinstance(placed, Swapped)
    return placed


def test_swap_by_hand() -> None:
    """Hot outsiders 3 (40) and 4 (20), cold residents 2 (10) and 1 (19): 40 > 10.5 swaps, 20 > 19.95 swaps, then 0."""
    load = np.array([[30.0, 19.0, 10.0, 40.0, 20.0, 0.0]])
    inside = np.array([[True, True, True, False, False, False]])
    assert swapped(inside, load, 3)[0].tolist() == [True, False, False, True, True, False]
    load[0, 1] = 19.5  # 20 is not 5 % more
    assert swapped(inside, load, 3)[0].tolist() == [True, True, False, True, False, False]
    assert swapped(inside, load, 1)[0].tolist() == [True, True, False, True, False, False]
    assert swapped(inside, load, 0)[0].tolist() == inside[0].tolist()


def test_swap_keeps_the_number_and_never_loses_load() -> None:
    rng = np.random.default_rng(2)
    load, inside = rng.integers(0, 50, (20, 9)).astype(float), rng.random((20, 9)) < 0.4
    after = swapped(inside, load, 4)
    assert np.array_equal(after.sum(axis=1), inside.sum(axis=1))
    assert ((load * after).sum(axis=1) >= (load * inside).sum(axis=1)).all()


def test_decode_uses_the_swapped_residents_and_prefill_those_before() -> None:
    c = daop()
    assert isinstance(c.placed, Swapped)
    after = swapped(c.placed.before, c.routing.context, EXPERTS // 2)
    assert np.array_equal(c.placed.resident, after)
    assert np.array_equal(c.placed.tier == 0, after)
    assert not np.array_equal(after, c.placed.before)


def test_layer_time_by_hand() -> None:
    """From the first predicted layer on max(attention + GPU, CPU); before it the CPU waits for its router."""
    c = daop({"first_predicted_layer": 2, "degradation": False})
    run = c.decode(every_layer(TWO_HOT), kept(c, [1] + [0] * 7))
    plain = daop({"first_predicted_layer": 1000, "degradation": False})
    late = plain.decode(every_layer(TWO_HOT), kept(plain, [1] + [0] * 7))
    attention = time_pass(late, c.ctx.machine).step
    before = next(p.exposed_s for p in attention.parts if p.part == "attention")
    router = next(p.exposed_s for p in attention.parts if p.part == "dense_shared")
    assert routed_s(attention) == pytest.approx(LAYERS * max(W / HBM, W / DRAM + ROUND_TRIP), rel=1e-6)
    # Layers 2 and 3 hide their attention (and its router) behind the CPU; the LM head is not a layer's.
    step = time_pass(run, c.ctx.machine).step
    head = 512 * 256 * 2 / HBM
    hidden = 2 * (before + router - head) / LAYERS
    assert attention.total_s - step.total_s == pytest.approx(hidden, rel=1e-3)


def test_starting_earlier_is_never_slower() -> None:
    rng = np.random.default_rng(3)
    counts = rng.multinomial(6, np.ones(EXPERTS) / EXPERTS, (6, LAYERS)).astype(np.int32)
    times = [
        case(tiny("daop", {"first_predicted_layer": first}, batch=3, gpu_experts_per_layer=n)).step(counts).total_s
        for n in (1, 4)
        for first in (1, 2, 3, 100)
    ]
    assert times[:4] == sorted(times[:4])
    assert times[4:] == sorted(times[4:])


def test_replaced_by_hand() -> None:
    """Both experts of the token are on the CPU: one changes for the resident that prefill used more."""
    c = daop({"first_predicted_layer": 1})
    placed = kept(c, [1, 0, 1, 0, 0, 0, 0, 0])
    context = np.broadcast_to(np.array([5.0, 1.0, 9.0, 2.0, 0, 0, 0, 0]), (LAYERS, EXPERTS)).copy()
    routing = c.with_counts(every_layer([0, 1, 0, 1, 0, 0, 0, 0]), context=context)
    split = Daop().split(c.ctx, c.ready, placed, routing)
    assert split.counts[0, 0].tolist() == [0, 1, 0, 1, 0, 0, 0, 0]  # layer 0 is not predicted
    assert split.counts[0, 1].tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert split.place[0, 1].tolist() == [NONE, NONE, HIT, CPU, NONE, NONE, NONE, NONE]


def test_replacing_keeps_the_number_of_experts() -> None:
    c = daop({"first_predicted_layer": 1})
    split = Daop().split(c.ctx, c.ready, c.placed, c.routing)
    assert np.array_equal(split.counts.sum(axis=2), c.routing.counts.sum(axis=2))
    assert np.array_equal((split.counts > 0).sum(axis=2), (c.routing.counts > 0).sum(axis=2))
    assert ((split.place == CPU).sum(axis=2)[:, 1:] <= 1).all()


def test_no_replacement_above_one_token_and_it_says_so() -> None:
    c = daop(batch=4)
    split = Daop().split(c.ctx, c.ready, c.placed, c.routing)
    assert np.array_equal(split.counts, c.routing.counts)
    assert any("no expert is replaced" in w for w in c.found.warnings)


def test_prefill_chooses_by_cost() -> None:
    c = case(tiny("daop", gpu_experts_per_layer=0, over={"cpu.vector_flop_per_s": 1e11}))
    place = Daop().split_prefill(c.ctx, c.ready, c.placed, every_layer([5, 30, 0, 0, 0, 0, 0, 0]))
    assert place[0, 0, :3].tolist() == [CPU, STREAM, NONE]


def test_migration_adds_up_and_delays_the_first_token() -> None:
    c = daop()
    details = Daop().details(c.ctx, c.ready, c.placed, c.routing)
    assert details is not None and details.migration is not None
    m = details.migration
    assert isinstance(c.placed, Swapped)
    assert m.bytes == pytest.approx(float((c.placed.resident & ~c.placed.before).sum()) * W)
    assert m.fill_s == pytest.approx(m.bytes / LINK)
    assert m.hidden_s + m.exposed_s == pytest.approx(m.fill_s)
    assert c.found.prefill is not None
    assert c.found.prefill.extra_s == pytest.approx(m.exposed_s)
    still = replace(c.placed, before=c.placed.resident)
    assert Daop().prompt_extra_s(c.ctx, c.ready, still, 1.0) == 0.0


def test_every_expert_is_stored_once() -> None:
    c = daop()
    gpu, host = c.ready.ledger
    assert gpu.items["experts"][0] + host.items["experts"][0] == pytest.approx(LAYERS * EXPERTS * W)
