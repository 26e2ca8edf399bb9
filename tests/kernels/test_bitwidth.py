"""Bit-width selection: the paper's search, the exact optimum, and references that share no code with them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp

from planner.bitwidth import (
    BitChoice,
    exact_reference,
    feasible_tuples,
    increments,
    prefix_reference,
    select_exact,
    select_layers,
    select_prefix,
)
from planner.losses import LLOYD_MAX_MSE, surrogate_losses

# (n4, n3, n2, n1) that satisfy n4+n3+n2+n1 = N and 3 n4 + 2 n3 + n2 = N (average - 1), enumerated by hand
FEASIBLE = {
    (4, 2.0): {(0, 0, 4, 0), (0, 1, 2, 1), (0, 2, 0, 2), (1, 0, 1, 2)},
    (4, 3.0): {(0, 4, 0, 0), (1, 2, 1, 0), (2, 0, 2, 0), (2, 1, 0, 1)},
    (6, 2.0): {(0, 0, 6, 0), (0, 1, 4, 1), (0, 2, 2, 2), (0, 3, 0, 3), (1, 0, 3, 2), (1, 1, 1, 3), (2, 0, 0, 4)},
    (6, 3.0): {(0, 6, 0, 0), (1, 4, 1, 0), (2, 2, 2, 0), (2, 3, 0, 1), (3, 0, 3, 0), (3, 1, 1, 1), (4, 0, 0, 2)},
}


def decreasing(seed: int, n: int) -> np.ndarray:
    return -np.sort(-np.random.default_rng(seed).random((n, 4)), axis=1)


def brute_force(losses: np.ndarray, budget: int) -> float:
    """Least loss over all 4^n assignments of at most ``budget`` increments."""
    n = len(losses)
    return min(
        sum(losses[i, b] for i, b in enumerate(widths))
        for widths in itertools.product(range(4), repeat=n)
        if sum(widths) <= budget
    )


@pytest.mark.parametrize(("n", "average"), FEASIBLE)
def test_feasible_tuples_of_the_paper(n: int, average: float) -> None:
    found = [tuple(row) for row in feasible_tuples(n, increments(n, average)).tolist()]
    assert len(found) == len(set(found))
    assert set(found) == FEASIBLE[n, average]


@pytest.mark.parametrize(("n", "average"), FEASIBLE)
def test_every_feasible_tuple_can_win_the_prefix_search(n: int, average: float) -> None:
    """A loss table whose only good assignment is the tuple makes the search return it."""
    for wanted in FEASIBLE[n, average]:
        bits = np.repeat([4, 3, 2, 1], wanted)
        losses = np.ones((n, 4))
        losses[np.arange(n), bits - 1] = 0.0
        choice = select_prefix(losses, average)
        assert choice.counts == wanted
        assert choice.bits.tolist() == bits.tolist()
        assert choice.loss == 0


@given(st.integers(0, 10**6), st.integers(0, 7), st.floats(1, 4))
def test_prefix_is_the_best_feasible_tuple(seed: int, n: int, average: float) -> None:
    losses, budget = decreasing(seed, n), increments(n, average)
    choice = select_prefix(losses, average)
    assert int((choice.bits - 1).sum()) == budget
    assert (np.diff(choice.bits) <= 0).all(), "more important experts never get fewer bits"
    tuples = feasible_tuples(n, budget)
    assert list(choice.counts) in tuples.tolist()
    totals = [losses[np.arange(n), np.repeat([4, 3, 2, 1], counts) - 1].sum() for counts in tuples]
    assert choice.loss == pytest.approx(min(totals), abs=1e-12)


@given(st.integers(0, 10**6), st.integers(0, 6), st.floats(1, 4))
def test_exact_is_the_optimum_by_brute_force(seed: int, n: int, average: float) -> None:
    losses, budget = decreasing(seed, n), increments(n, average)
    choice = select_exact(losses, average)
    assert int((choice.bits - 1).sum()) <= budget
    assert choice.loss == pytest.approx(brute_force(losses, budget), abs=1e-12)
    unordered = np.random.default_rng(seed).random((n, 4))
    assert select_exact(unordered, average).loss == pytest.approx(brute_force(unordered, budget), abs=1e-12)


@pytest.mark.parametrize(("n", "average"), [(16, 2.0), (40, 2.5), (40, 3.3)])
def test_exact_agrees_with_a_mixed_integer_solver(n: int, average: float) -> None:
    losses, budget = decreasing(n, n), increments(n, average)
    one_each = np.kron(np.eye(n), np.ones(4))
    used = np.tile(np.arange(4.0), n)[None]
    constraints = [LinearConstraint(one_each, 1, 1), LinearConstraint(used, -np.inf, budget)]
    solved = milp(losses.ravel(), constraints=constraints, integrality=np.ones(4 * n), bounds=(0, 1))
    assert solved.status == 0
    assert select_exact(losses, average).loss == pytest.approx(solved.fun, rel=1e-6)


@given(st.integers(0, 10**6), st.integers(0, 40), st.floats(1, 4))
def test_exact_is_never_worse_than_prefix_and_both_equal_their_twins(seed: int, n: int, average: float) -> None:
    losses = decreasing(seed, n)
    prefix, exact = select_prefix(losses, average), select_exact(losses, average)
    assert exact.loss <= prefix.loss + 1e-12
    assert exact.gain >= prefix.gain - 1e-12
    for ours, twin in ((prefix, prefix_reference(losses, average)), (exact, exact_reference(losses, average))):
        assert ours.bits.tolist() == twin.bits.tolist()
        assert (ours.counts, ours.loss, ours.gain) == (twin.counts, twin.loss, twin.gain)


@given(st.integers(0, 10**6), st.integers(1, 12), st.lists(st.floats(1, 4), min_size=2, max_size=6))
def test_more_budget_never_costs_loss(seed: int, n: int, averages: list[float]) -> None:
    losses = decreasing(seed, n)
    found = [select_exact(losses, average).loss for average in sorted(averages)]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(found))


def test_prefix_is_optimal_for_equal_sensitivities_and_not_for_different_ones() -> None:
    same = np.tile(LLOYD_MAX_MSE, (12, 1))
    assert select_prefix(same, 2.5).loss == pytest.approx(select_exact(same, 2.5).loss)
    sensitivity = np.linspace(0.2, 3.0, 12)[:, None]
    against = sensitivity * LLOYD_MAX_MSE  # most important first, but the last ones suffer most
    assert select_prefix(against, 2.5).loss > 1.05 * select_exact(against, 2.5).loss


def test_prefix_gain_by_hand() -> None:
    """N = 2, average 2: R = 2, tuples (0,0,2,0) and (0,1,0,1)."""
    losses = np.array([[10.0, 7.0, 1.0, 0.0], [5.0, 4.0, 3.0, 2.0]])
    choice = select_prefix(losses, 2.0)
    assert choice.bits.tolist() == [3, 1]
    assert choice.counts == (0, 1, 0, 1)
    assert (choice.loss, choice.gain) == (6.0, 9.0)


def test_layers_follow_their_order_and_equal_single_selections() -> None:
    losses = surrogate_losses(5, 24, 0.8, seed=2).values
    order = np.argsort(np.random.default_rng(0).random((5, 24)), axis=1)
    for method, select in (("prefix", select_prefix), ("exact", select_exact)):
        batch = select_layers(losses, order, 2.3, method)  # type: ignore[arg-type]
        for layer in range(5):
            single: BitChoice = select(losses[layer, order[layer]], 2.3)
            assert batch.bits[layer, order[layer]].tolist() == single.bits.tolist()
            assert tuple(batch.counts[layer]) == single.counts
            assert batch.loss[layer] == pytest.approx(single.loss)
            assert batch.gain[layer] == pytest.approx(single.gain)


def test_floor_of_the_budget_is_not_lost_to_rounding() -> None:
    assert increments(5, 1.2) == 1
    assert increments(10, 2.3) == 13
    assert increments(5, 2.2) == 6
    assert increments(10, 1.3) == 3
    assert increments(7, 2.5) == 10
    assert increments(3, 4.0) == 9


def test_equal_gains_keep_the_first_tuple_tried() -> None:
    assert select_prefix(np.zeros((4, 4)), 2.0).counts == prefix_reference(np.zeros((4, 4)), 2.0).counts == (0, 0, 4, 0)
    assert select_exact(np.zeros((4, 4)), 2.0).bits.tolist() == [1, 1, 1, 1], "exact takes the fewer bits"


def test_edges() -> None:
    for select in (select_prefix, select_exact):
        none = select(np.empty((0, 4)), 2.5)
        assert (none.bits.size, none.counts, none.loss, none.gain) == (0, (0, 0, 0, 0), 0.0, 0.0)
        one = np.array([[8.0, 4.0, 2.0, 1.0]])
        assert [int(select(one, b).bits[0]) for b in (1.0, 1.9, 2.0, 3.0, 4.0)] == [1, 1, 2, 3, 4]
    assert select_layers(np.empty((3, 0, 4)), None, 2.0).bits.shape == (3, 0)
    assert select_layers(np.empty((0, 3, 4)), None, 2.0).loss.shape == (0,)


@pytest.mark.parametrize("average", [0.99, 4.01, 16.0, float("nan"), float("inf"), -1.0])
def test_a_budget_outside_one_to_four_bits_is_refused(average: float) -> None:
    for select in (select_prefix, select_exact):
        with pytest.raises(ValueError, match=f"the average bit-width is {average}; accepted is 1 to 4"):
            select(np.ones((3, 4)), average)


def test_bad_tables_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"accepted is \[experts, 4\]"):
        select_exact(np.ones(4), 2.0)
    with pytest.raises(ValueError, match=r"losses have shape \(1, 3, 5\)"):
        select_exact(np.ones((3, 5)), 2.0)
    with pytest.raises(ValueError, match="a loss is not a finite number"):
        select_exact(np.full((3, 4), np.nan), 2.0)
    with pytest.raises(ValueError, match="method is 'greedy'; accepted are prefix and exact"):
        select_layers(np.ones((1, 3, 4)), None, 2.0, "greedy")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="order must be a permutation of 3 experts"):
        select_layers(np.ones((1, 3, 4)), np.array([[0, 1, 1]]), 2.0)
