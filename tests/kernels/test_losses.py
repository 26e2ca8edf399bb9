"""The surrogate loss table says what it is, and behaves like a loss."""

import numpy as np
import pytest
from scipy.stats import norm

from planner.losses import DEFAULT_SPREAD, LLOYD_MAX_MSE, surrogate_losses


def test_losses_fall_with_bits_and_follow_the_seed() -> None:
    table = surrogate_losses(4, 64, seed=3)
    assert table.values.shape == (4, 64, 4)
    assert (np.diff(table.values, axis=2) < 0).all()
    assert np.array_equal(table.values, surrogate_losses(4, 64, seed=3).values)
    assert not np.array_equal(table.values, surrogate_losses(4, 64, seed=4).values)
    assert np.array_equal(table.values[:2, :8], surrogate_losses(2, 8, seed=3).values), (
        "an expert keeps its sensitivity"
    )


def test_sensitivity_has_the_stated_spread_and_zero_spread_is_the_gaussian_itself() -> None:
    sensitivity = surrogate_losses(100, 256).values[:, :, 0] / LLOYD_MAX_MSE[0]
    assert np.log(sensitivity).std() == pytest.approx(DEFAULT_SPREAD, rel=0.02)
    assert np.array_equal(surrogate_losses(2, 3, 0.0).values, np.broadcast_to(LLOYD_MAX_MSE, (2, 3, 4)))


def test_lloyd_max_errors_are_the_fixed_point_of_the_algorithm() -> None:
    """Recomputed from the definition: the optimal scalar quantiser of a unit Gaussian with 2^b levels."""
    for bits, published in enumerate(LLOYD_MAX_MSE, start=1):
        levels = norm.ppf((np.arange(2**bits) + 0.5) / 2**bits)
        for _ in range(800):
            edges = np.concatenate(([-np.inf], (levels[:-1] + levels[1:]) / 2, [np.inf]))
            mass = np.diff(norm.cdf(edges))
            levels = -np.diff(norm.pdf(edges)) / mass
        assert 1 - (mass * levels**2).sum() == pytest.approx(published, rel=2e-3)


def test_the_table_says_that_it_is_a_surrogate() -> None:
    table = surrogate_losses(1, 2)
    assert table.surrogate
    assert "Lloyd-Max" in table.source
    assert "not measured on this model" in table.source


def test_a_spread_outside_its_range_is_refused() -> None:
    for spread in (-0.1, 4.1, float("nan")):
        with pytest.raises(ValueError, match=f"spread of the sensitivities is {spread}; accepted is 0 to 4"):
            surrogate_losses(1, 2, spread)
