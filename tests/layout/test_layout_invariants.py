"""Whatever the loads: memory and slots are never exceeded, no link carries more than it can, no byte is lost."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.layout.decide import decide
from planner.layout.reference import reservations
from planner.layout.state import KINDS, PREFETCH, State, begin, task_bytes
from planner.layout.tasks import empty_moved, run_tasks
from tests.layout.layout_cases import Case, case


def check_memory(given: Case) -> None:
    state, sizes = given.state, given.sizes
    coming = (state.kind == PREFETCH) & state.started
    assert ((state.resident | coming).sum(axis=1) <= sizes.slots).all()
    assert not (state.resident & coming).any()
    assert ((state.home >= -1) & (state.home < sizes.dimms)).all(), "every expert is in exactly one layout"
    lies = begin(state.resident, state.home, sizes).held
    for n, e in np.argwhere(state.kind > 0):
        for d, amount in reservations(state, sizes, n, e, state.kind[n, e], int(state.target[n, e])).items():
            lies[d] += amount
    np.testing.assert_allclose(state.held, lies, rtol=1e-9, atol=1e-3)
    assert (state.held <= sizes.dimm_bytes * (1 + 1e-12)).all()
    leavers = state.target[(state.kind == PREFETCH) & ~state.started & (state.target >= 0)]
    assert state.leaving.sum() == leavers.size


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    dimms=st.integers(2, 6),
    chain=st.booleans(),
    tight=st.booleans(),
    window=st.sampled_from([1e-6, 1e-4, 1e-3, 3e-2]),
    margin=st.sampled_from([0.0, 0.01]),
)
def test_memory_links_and_bytes_add_up_in_every_step(seed, dimms, chain, tight, window, margin) -> None:
    drawn = case(seed, layers=3, experts=20, dimms=dimms, rounds=6, chain=chain, tight=tight, window_s=window)
    state, sizes, moved = drawn.state, drawn.sizes, empty_moved(drawn.sizes, drawn.rates)
    for step in range(6):
        decide(state, sizes, drawn.predicted[step], np.ascontiguousarray(drawn.cost[step]), drawn.base_s, margin)
        check_memory(drawn)
        before = State(*(array.copy() for array in state))
        run_tasks(state, sizes, drawn.rates, drawn.free_s, moved)
        check_memory(drawn)
        assert (moved.used <= drawn.free_s * (1 + 1e-12)).all()
        expected, ended = np.zeros(4), np.zeros(4, int)
        for n, e in np.argwhere(before.kind > 0):
            kind = before.kind[n, e] - 1
            done = state.kind[n, e] == 0
            expected[kind] += before.left[n, e] - (0.0 if done else state.left[n, e])
            ended[kind] += done
            if done and kind > 0:
                assert state.home[n, e] == before.target[n, e]
        np.testing.assert_allclose(moved.bytes, expected, rtol=1e-9, atol=1e-6)
        assert moved.done.tolist() == ended.tolist()
        sent, received = moved.used[dimms : 2 * dimms].sum(), moved.used[:dimms].sum()
        np.testing.assert_allclose(sent, received, rtol=1e-9, atol=1e-12)
        if not chain:  # every byte between DIMMs leaves one and enters one
            np.testing.assert_allclose(sent * drawn.rates.link, moved.bytes[1:].sum(), rtol=1e-9, atol=1e-3)
        np.testing.assert_allclose(moved.used[-1] * drawn.rates.pcie, moved.bytes[0], rtol=1e-9, atol=1e-3)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_without_work_to_gain_nothing_moves_and_with_time_everything_ends(seed) -> None:
    drawn = case(seed, rounds=1, window_s=10.0)
    cost = np.ascontiguousarray(drawn.cost[0])
    moved = empty_moved(drawn.sizes, drawn.rates)
    for _ in range(40):
        fresh = decide(drawn.state, drawn.sizes, drawn.predicted[0], cost, drawn.base_s, 0.001)
        run_tasks(drawn.state, drawn.sizes, drawn.rates, drawn.free_s, moved)
        assert not (drawn.state.kind > 0).any()
        if not fresh.any():
            return
    raise AssertionError("under the same loads the decisions do not come to rest")


def test_every_kind_of_task_moves_the_bytes_that_its_name_says() -> None:
    assert [task_bytes(kind, 12.0, 20.0, 4) for kind in range(1, 5)] == [20.0, 9.0, 9.0, 12.0]
    assert KINDS == ("prefetch", "localise", "stripe", "rebalance")
