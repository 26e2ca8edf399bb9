"""The surrogate loss table says what it is, and behaves like a loss."""

import numpy as np
import pytest
from scipy.stats import norm

from planner.calibrate.experts import Activation, Expert, output, relative_error
from planner.calibrate.experts import hidden as hidden_of
from planner.losses import DEFAULT_SPREAD, EXPERT_LOSS, LLOYD_MAX_MSE, surrogate_losses


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
    sensitivity = surrogate_losses(100, 256).values[:, :, 0] / EXPERT_LOSS[0]
    assert np.log(sensitivity).std() == pytest.approx(DEFAULT_SPREAD, rel=0.02)
    assert np.array_equal(surrogate_losses(2, 3, 0.0).values, np.broadcast_to(EXPERT_LOSS, (2, 3, 4)))


def lloyd_max(bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels of the optimal scalar quantiser of a unit Gaussian, and their probabilities."""
    levels = norm.ppf((np.arange(2**bits) + 0.5) / 2**bits)
    for _ in range(800):
        edges = np.concatenate(([-np.inf], (levels[:-1] + levels[1:]) / 2, [np.inf]))
        mass = np.diff(norm.cdf(edges))
        levels = -np.diff(norm.pdf(edges)) / mass
    return levels, mass


def test_lloyd_max_errors_are_the_fixed_point_of_the_algorithm() -> None:
    for bits, published in enumerate(LLOYD_MAX_MSE, start=1):
        levels, mass = lloyd_max(bits)
        assert 1 - (mass * levels**2).sum() == pytest.approx(published, rel=2e-3)


def test_the_loss_of_an_expert_is_that_of_three_quantised_matrices() -> None:
    """A Gaussian SwiGLU expert, each matrix quantised by Lloyd-Max: 1 - (1 - D)^3 within 6 %."""
    rng = np.random.default_rng(0)
    hidden, inner = 384, 256
    exact = Expert(
        gate=rng.standard_normal((inner, hidden)).astype(np.float32) / hidden**0.5,
        up=rng.standard_normal((inner, hidden)).astype(np.float32) / hidden**0.5,
        down=rng.standard_normal((hidden, inner)).astype(np.float32) / inner**0.5,
    )
    x = rng.standard_normal((256, hidden)).astype(np.float32)
    silu = Activation("silu")
    reference = output(exact, hidden_of(exact, x, silu))
    for bits, predicted in enumerate(EXPERT_LOSS, start=1):
        levels = lloyd_max(bits)[0].astype(np.float32)
        edges = (levels[:-1] + levels[1:]) / 2

        def coarse(w: np.ndarray, levels: np.ndarray = levels, edges: np.ndarray = edges) -> np.ndarray:
            return levels[np.searchsorted(edges, w / w.std())] * w.std()

        assert exact.gate is not None
        quantised = exact.with_weights(coarse(exact.gate), coarse(exact.up), coarse(exact.down))
        measured = relative_error(output(quantised, hidden_of(quantised, x, silu)), reference)
        assert measured == pytest.approx(predicted, rel=0.06)


def test_the_table_says_that_it_is_a_surrogate() -> None:
    table = surrogate_losses(1, 2)
    assert table.surrogate
    assert "Lloyd-Max" in table.source
    assert "not measured on this model" in table.source


def test_a_spread_outside_its_range_is_refused() -> None:
    for spread in (-0.1, 4.1, float("nan")):
        with pytest.raises(ValueError, match=f"spread of the sensitivities is {spread}; accepted is 0 to 4"):
            surrogate_losses(1, 2, spread)
