"""Dealing experts out to bins: the compiled kernel, its plain twin, a stored vector, and what makes a deal fair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from planner.deal import deal

# Loads of a layer over 3 bins, by hand: 9 -> 0, 7 -> 1, 6 -> 2, 5 -> 2 (11), 4 -> 1 (11), 3 -> 0 (12), the last out.
STORED_LOAD = np.array([[5.0, 9.0, 3.0, 6.0, 7.0, 4.0, -1.0]])
STORED_HOME = np.array([[2, 0, 0, 2, 1, 1, -1]], np.int16)


def test_the_stored_vector() -> None:
    for compiled in (True, False):
        home = deal(STORED_LOAD, 3, compiled=compiled)
        assert home.dtype == np.int16
        assert np.array_equal(home, STORED_HOME)


loads = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 24)),
    elements=st.one_of(st.just(-1.0), st.just(0.0), st.sampled_from((1.0, 2.0)), st.floats(0, 1e6)),
)


@settings(max_examples=150)
@given(loads, st.integers(1, 9))
def test_the_kernel_equals_its_plain_twin_and_the_deal_is_fair(load: np.ndarray, bins: int) -> None:
    home = deal(load, bins)
    assert np.array_equal(home, deal(load, bins, compiled=False))
    assert ((home == -1) == (load < 0)).all()
    assert home.max(initial=-1) < bins
    dealt = (load >= 0).sum(axis=1)
    room = max(1, -(-int(dealt.max()) // bins))
    for row, places in zip(load, home, strict=True):
        held = np.bincount(places[places >= 0], minlength=bins)
        assert held.max(initial=0) <= room
        sums = np.array([row[places == b].sum() for b in range(bins)])
        if (held < room).all():  # nothing was forced by room: the heaviest bin is within one expert of the lightest
            assert sums.max() - sums.min() <= row.max(initial=0.0) * (1 + 1e-12)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 50), min_size=4, max_size=8), st.integers(2, 3))
def test_longest_first_is_at_most_a_third_above_the_best_of_all_deals(loads: list[int], bins: int) -> None:
    """Graham's bound for longest processing time, 4/3 - 1/(3 m), where room does not bind."""
    room = -(-len(loads) // bins)
    load = np.array([loads], float)
    home = deal(load, bins)[0]
    makespan = max(load[0][home == b].sum() for b in range(bins))
    best = min(
        max(sum(n for n, b in zip(loads, places, strict=True) if b == which) for which in range(bins))
        for places in itertools.product(range(bins), repeat=len(loads))
        if max(places.count(b) for b in range(bins)) <= room
    )
    assert makespan >= best
    if max(int((home == b).sum()) for b in range(bins)) < room:
        assert makespan <= best * (4 / 3 - 1 / (3 * bins)) + 1e-9


def test_ties_go_to_the_lower_bin_and_one_bin_takes_all() -> None:
    assert deal(np.ones((1, 4)), 2).tolist() == [[0, 1, 0, 1]]
    assert deal(np.ones((2, 3)), 1).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert deal(np.full((1, 3), -1.0), 2).tolist() == [[-1, -1, -1]]


@pytest.mark.parametrize("bins", [2, 8, 16])
def test_equal_loads_are_dealt_evenly(bins: int) -> None:
    home = deal(np.ones((3, 64)), bins)
    for row in home:
        assert set(np.bincount(row, minlength=bins)) == {64 // bins}
