"""Expert caches: kernel = plain twin = stored vector, the rule on traces written by hand, more slots never worse."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from planner.cache_kernel import LFU, LRU, CacheRun, simulate, stack_positions
from planner.prefetch_kernel import simulate_prefetch
from tests.policies.make_cache_vectors import make, plain

VECTORS = json.loads((Path(__file__).parent / "vectors" / "caches.json").read_text("utf-8"))
MIXED = (0.1, 0.2, 0.3, 0.4)


@st.composite
def traces(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Wishes [passes, layers, experts] of 0, 1 or 2, and a load [layers, experts]."""
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 12)))
    wanted = draw(hnp.arrays(np.uint8, shape, elements=st.sampled_from((0, 0, 0, 1, 2))))
    load = draw(hnp.arrays(np.float64, shape[1:], elements=st.integers(0, 4).map(float)))
    return wanted, load


def hits(run: CacheRun, wanted: np.ndarray) -> int:
    return int((run.present & (wanted > 0)).sum())


def test_lru_of_one_layer_by_hand() -> None:
    # two slots:       a hit? content after     0 -> {0}, 1 -> {1,0}, 0 hit, 2 drives out 1, 1 drives out 0, 2 hit
    wanted = np.eye(3, dtype=np.uint8)[[0, 1, 0, 2, 1, 2]][:, None]
    run = simulate(wanted, [2])
    found = [bool(run.present[t, 0, e]) for t, e in enumerate((0, 1, 0, 2, 1, 2))]
    assert found == [False, False, True, False, False, True]
    assert run.content.tolist() == [[False, True, True]]


def test_lfu_keeps_what_was_used_most_by_hand() -> None:
    # 0 three times, then 1 and 2 in turn: LFU never gives 0 up, LRU does
    wanted = np.eye(3, dtype=np.uint8)[[0, 0, 0, 1, 2, 0]][:, None]
    assert simulate(wanted, [2], weights=LFU).present[5, 0, 0]
    assert not simulate(wanted, [2], weights=LRU).present[5, 0, 0]


def test_experts_of_one_pass_do_not_drive_each_other_out() -> None:
    # {0, 1} are there; {1, 2} are wanted: 1 is a hit whatever the order, 0 goes
    wanted = np.array([[[1, 1, 0]], [[0, 1, 1]], [[1, 0, 0]]], np.uint8)
    run = simulate(wanted, [2])
    assert run.present[1, 0, 1]
    assert not run.present[2, 0, 0]
    # three wanted, two slots: the lower ones of equal score stay, the third was passed through
    run = simulate(np.array([[[1, 1, 1]], [[1, 1, 1]]], np.uint8), [2])
    assert run.present[1, 0].tolist() == [True, True, False]


def test_distance_keeps_the_layer_that_comes_next() -> None:
    # one slot for both layers: while layer 1 runs, layer 0 is next, so its expert stays until its turn
    wanted = np.array([[[1], [1]], [[1], [1]]], np.uint8)
    assert hits(simulate(wanted, 1, weights=(0.0, 0.0, 0.0, 1.0)), wanted) == 0  # the used one must be let in
    wanted = np.array([[[1, 0], [1, 1]], [[1, 0], [0, 0]]], np.uint8)
    run = simulate(wanted, 2, weights=(0.0, 0.0, 0.0, 1.0))
    assert not run.present[1, 0, 0]  # two used ones of layer 1 fill both slots
    run = simulate(wanted, 3, weights=(0.0, 0.0, 0.0, 1.0))
    assert run.present[1, 0, 0]


def test_the_start_holds_the_largest_shares() -> None:
    load = np.array([[5.0, 1.0, 4.0], [1.0, 1.0, 98.0]])
    nothing = np.zeros((1, 2, 3), np.uint8)
    assert simulate(nothing, [2, 1], start=load).content.tolist() == [[True, False, True], [False, False, True]]
    # shared by both layers: shares .98, .5, .4
    assert simulate(nothing, 2, start=load).content.tolist() == [[True, False, False], [False, False, True]]


def test_against_an_ordered_dictionary() -> None:
    rng = np.random.default_rng(3)
    sequence = rng.integers(0, 9, 400)
    for slots in (1, 3, 8):
        cache: OrderedDict[int, None] = OrderedDict()
        found = 0
        for expert in sequence.tolist():
            found += expert in cache
            cache[expert] = None
            cache.move_to_end(expert)
            if len(cache) > slots:
                cache.popitem(last=False)
        wanted = np.eye(9, dtype=np.uint8)[sequence][:, None]
        assert hits(simulate(wanted, [slots]), wanted) == found


@settings(max_examples=60)
@given(traces(), st.integers(0, 30), st.booleans(), st.sampled_from((LRU, LFU, MIXED)), st.booleans())
def test_kernel_equals_twin(
    trace: tuple[np.ndarray, np.ndarray],
    slots: int,
    shared: bool,
    weights: tuple[float, float, float, float],
    filled: bool,
) -> None:
    wanted, load = trace
    room = slots if shared else np.arange(wanted.shape[1]) % 3 + slots // 4
    start = load if filled else None
    runs = [simulate(wanted, room, weights=weights, start=start, compiled=c) for c in (True, False)]
    assert np.array_equal(runs[0].present, runs[1].present)
    assert np.array_equal(runs[0].content, runs[1].content)
    assert runs[0].content.sum() <= np.sum(room)


@settings(max_examples=40)
@given(traces(), st.sampled_from((LRU, LFU, MIXED)), st.booleans())
def test_a_larger_cache_holds_what_a_smaller_one_holds(
    trace: tuple[np.ndarray, np.ndarray], weights: tuple[float, float, float, float], shared: bool
) -> None:
    wanted, load = trace
    layers, experts = load.shape
    smaller = None
    for slots in range(layers * experts + 1 if shared else experts + 1):
        run = simulate(wanted, slots if shared else np.full(layers, slots), weights=weights, start=load)
        if smaller is not None:
            assert not (smaller.present & ~run.present).any()
            assert hits(smaller, wanted) <= hits(run, wanted)
        smaller = run
    assert smaller is not None
    assert hits(smaller, wanted) == (wanted > 0).sum()  # room for everything, all there from the start


@settings(max_examples=40)
@given(traces(), st.integers(0, 3))
def test_stack_positions_are_the_hits_of_every_size(trace: tuple[np.ndarray, np.ndarray], first: int) -> None:
    wanted, load = trace
    layers, experts = load.shape
    positions = stack_positions(wanted, load, first)
    assert np.array_equal(positions, stack_positions(wanted, load, first, compiled=False))
    for slots in range(experts + 1):
        run = simulate(wanted, np.full(layers, slots), start=load)
        found = (run.present & (wanted > 0))[first:].sum(axis=(0, 2))
        assert np.array_equal(found, positions[:, :slots].sum(axis=1))


def test_many_victims_at_once_equal_the_twin() -> None:
    rng = np.random.default_rng(1)
    wanted = (rng.random((6, 3, 60)) < 0.5).astype(np.uint8)
    load = rng.integers(0, 5, (3, 60)).astype(float)
    for slots in (20, 70, 100):
        runs = [simulate(wanted, slots, weights=MIXED, start=load, compiled=c) for c in (True, False)]
        assert np.array_equal(runs[0].present, runs[1].present)


# --- prefetch by predicted activation ---------------------------------------------------------------------------------


def test_prefetch_takes_the_likeliest_of_the_nearest_layers_by_hand() -> None:
    counts = np.zeros((1, 2, 2), np.int32)
    counts[0, 0, 1] = counts[0, 1, 1] = 1
    own = np.array([[1.0, 3.0], [1.0, 3.0]])
    # one slot, empty shares at the start: it holds (0, 1); before layer 0 nothing beats it; layer 0 hits;
    # before layer 1, (1, 1) at priority .75 x 1 beats (0, 1), whose turn is a layer away: .75 x (1 - 1/2)
    run = simulate_prefetch(counts, 1, own, own, np.array([0.5, 0.5]))
    assert run.fetched.tolist() == [[0, 1]]
    assert run.present[0, 0].tolist() == [False, True]
    assert run.present[0, 1].tolist() == [False, True]
    # without idle link nothing is fetched ahead, and layer 1 misses
    run = simulate_prefetch(counts, 1, own, own, np.zeros(2))
    assert run.fetched.sum() == 0
    assert not run.present[0, 1].any()


def test_a_transfer_that_fits_partly_is_still_begun() -> None:
    counts = np.ones((1, 1, 4), np.int32)
    # 0 and 1 are there, with 1/6 of the prediction each; 2 and 3 have 1/3
    prior, own = np.array([[0.0, 0.0, 1.0, 1.0]]), np.array([[2.0, 2.0, 1.0, 1.0]])
    for idle, begun in ((0.0, 0), (0.01, 1), (1.0, 1), (1.01, 2), (9.0, 2)):
        run = simulate_prefetch(counts, 2, prior, own, np.array([idle]))
        assert run.fetched[0, 0] == begun
        assert run.present[0, 0, 2:].sum() == begun
        assert simulate_prefetch(counts, 4, prior, own, np.array([idle])).fetched.sum() == 0  # all there


@settings(max_examples=60)
@given(traces(), st.integers(0, 30), st.lists(st.floats(0, 3), min_size=4, max_size=4))
def test_prefetch_kernel_equals_twin(trace: tuple[np.ndarray, np.ndarray], slots: int, idle: list[float]) -> None:
    counts, load = trace
    window = np.array(idle[: counts.shape[1]])
    runs = [simulate_prefetch(counts, slots, load + 1.0, load, window, compiled=c) for c in (True, False)]
    assert np.array_equal(runs[0].present, runs[1].present)
    assert np.array_equal(runs[0].fetched, runs[1].fetched)
    assert np.array_equal(runs[0].content, runs[1].content)
    assert runs[0].content.sum() <= slots


def test_arguments_are_not_changed() -> None:
    counts, own = np.ones((2, 1, 3), np.int32), np.arange(3.0)[None]
    simulate_prefetch(counts, 1, own, own, np.ones(1))
    simulate(counts, [1], start=own)
    assert own.tolist() == [[0.0, 1.0, 2.0]]


# --- stored vectors ---------------------------------------------------------------------------------------------------


def test_stored_vectors() -> None:
    assert json.loads(json.dumps(plain(make()))) == VECTORS


@pytest.mark.parametrize("compiled", [True, False])
def test_kernels_and_twins_give_the_stored_vectors(compiled: bool) -> None:
    for case in VECTORS["caches"]:
        wanted, load = np.array(case["wanted"], np.uint8), np.array(case["load"])
        run = simulate(wanted, case["slots"], weights=tuple(case["weights"]), start=load, compiled=compiled)
        assert run.present.astype(int).tolist() == case["present"]
        assert run.content.astype(int).tolist() == case["content"]
    for case in VECTORS["stacks"]:
        positions = stack_positions(np.array(case["wanted"], np.uint8), np.array(case["load"]), compiled=compiled)
        assert positions.tolist() == case["positions"]
    for case in VECTORS["prefetches"]:
        run = simulate_prefetch(
            np.array(case["counts"], np.int32), case["slots"], np.array(case["prior"]), np.array(case["own"]),
            np.array(case["idle"]), compiled=compiled,
        )  # fmt: skip
        assert run.present.astype(int).tolist() == case["present"]
        assert run.fetched.tolist() == case["fetched"]
