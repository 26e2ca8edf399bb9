"""Weighting, the report of both selectors, and one budget over all layers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp

from planner.bitwidth import increments, select_exact, select_layers
from planner.importance import by_importance
from planner.losses import surrogate_losses
from planner.selection import select_global, weighted


def falling(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Losses that fall with bits, not convex."""
    return -np.sort(-rng.exponential(size=(*shape, 4)), axis=-1)


def test_weighting_is_relative_to_the_mean_of_the_layer() -> None:
    losses = np.ones((2, 3, 4))
    found = weighted(losses, np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))
    assert found[0, :, 0].tolist() == [0.5, 1.0, 1.5]
    assert (found[1] == 1).all(), "a layer without importance stays"
    assert np.array_equal(weighted(losses, np.full((2, 3), 7.0)), losses)


@pytest.mark.parametrize("importance", [np.ones((2, 2)), np.full((2, 3), -1.0), np.full((2, 3), np.nan)])
def test_importance_that_is_none_is_refused(importance: np.ndarray) -> None:
    with pytest.raises(ValueError, match="importance"):
        weighted(np.ones((2, 3, 4)), importance)


def test_the_prefix_leaves_loss_on_the_table_where_the_important_expert_is_not_the_sensitive_one() -> None:
    """Two experts, one increment."""
    losses = np.array([[[0.5, 0.4, 0.3, 0.2], [0.9, 0.3, 0.2, 0.1]]])
    importance = np.array([[0.8, 0.2]])
    prefix = select_layers(losses, by_importance(importance), 1.5, "prefix")
    exact = select_layers(losses, None, 1.5, "exact")
    assert prefix.counts.tolist() == exact.counts.tolist() == [[0, 0, 1, 1]]
    assert prefix.bits.tolist() == [[2, 1]] and exact.bits.tolist() == [[1, 2]]
    assert (prefix.loss[0], exact.loss[0]) == (pytest.approx(1.3), pytest.approx(0.8))
    by_weight = select_layers(weighted(losses, np.array([[0.95, 0.05]])), None, 1.5, "exact")
    assert by_weight.bits.tolist() == [[2, 1]], "the sensitive one is hardly used"


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 12), st.floats(1, 4))
def test_the_prefix_is_never_below_the_optimum(seed: int, experts: int, bits: float) -> None:
    rng = np.random.default_rng(seed)
    losses, importance = falling(rng, 3, experts), rng.random((3, experts))
    prefix = select_layers(losses, by_importance(importance), bits, "prefix")
    exact = select_layers(losses, None, bits, "exact")
    assert (prefix.loss >= exact.loss * (1 - 1e-12)).all()
    assert (exact.bits.sum(axis=1) - experts <= increments(experts, bits)).all()


@settings(max_examples=80)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 7), st.floats(1, 4))
def test_one_budget_is_within_its_proven_gap_of_the_optimum(seed: int, layers: int, experts: int, bits: float) -> None:
    losses = falling(np.random.default_rng(seed), layers, experts)
    found = select_global(losses, bits)
    optimum = select_exact(losses.reshape(-1, 4), bits).loss
    rounding = 1 + 1e-9
    assert found.bound <= optimum * rounding
    assert optimum <= found.loss * rounding
    assert found.loss <= optimum * (1 + found.gap) * rounding
    assert found.loss <= found.per_layer_loss * rounding and found.gain >= -1e-9
    assert found.budget == increments(layers * experts, bits)
    assert 0 <= (found.bits.astype(int) - 1).sum() <= found.budget
    chosen = np.take_along_axis(losses, found.bits[:, :, None].astype(int) - 1, axis=2)
    assert found.loss == pytest.approx(chosen.sum())


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 7), st.floats(1, 4))
def test_for_convex_losses_one_budget_is_the_optimum(seed: int, layers: int, experts: int, bits: float) -> None:
    losses = surrogate_losses(layers, experts, 1.0, seed).values
    found = select_global(losses, bits)
    assert found.loss == pytest.approx(select_exact(losses.reshape(-1, 4), bits).loss, rel=1e-12)
    assert found.gap < 1e-12


def test_layers_that_differ_gain_from_one_budget_and_equal_ones_do_not() -> None:
    losses = surrogate_losses(1, 16, 0.4).values
    alike = select_global(np.repeat(losses, 3, axis=0), 2.0)
    assert alike.gain == pytest.approx(0.0, abs=1e-9)
    differ = select_global(np.concatenate([losses, 0.1 * losses, 0.01 * losses]), 2.0)
    assert differ.gain > 0.2
    assert differ.bits[0].mean() > differ.bits[2].mean()


def test_a_solver_agrees() -> None:
    """HiGHS on 8 x 64 experts with one budget."""
    losses = falling(np.random.default_rng(3), 8, 64)
    flat = losses.reshape(-1, 4)
    count = len(flat)
    one_each = np.kron(np.eye(count), np.ones(4))
    cost = np.tile(np.arange(4.0), count)[None]
    solved = milp(
        flat.ravel(),
        constraints=[LinearConstraint(one_each, 1, 1), LinearConstraint(cost, -np.inf, increments(count, 2.3))],
        integrality=np.ones(4 * count),
        bounds=(0, 1),
        options={"mip_rel_gap": 0},
    )
    found = select_global(losses, 2.3)
    assert found.bound <= solved.fun * (1 + 1e-9)
    assert found.loss <= solved.fun * (1 + 1e-4)
    assert found.gap < 1e-3


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="accepted is \\[layers, experts, 4\\]"):
        select_global(np.ones((3, 4)), 2.0)
    with pytest.raises(ValueError, match="average bit-width is 5"):
        select_global(np.ones((1, 3, 4)), 5)
    with pytest.raises(ValueError, match="not a finite number"):
        select_global(np.full((1, 3, 4), np.nan), 2)


def test_equal_budgets_are_what_the_paper_has() -> None:
    losses = falling(np.random.default_rng(1), 4, 9)
    assert select_global(losses, 2.5).per_layer_loss == pytest.approx(select_layers(losses, None, 2.5).loss.sum())
