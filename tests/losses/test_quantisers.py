"""Round-to-nearest and GPTQ: kernels against twins, vectors and the textbook; what quantisation must obey."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibrate.errors import CalibrationError
from planner.calibrate.gptq import gptq, gptq_reference, hessian_factor
from planner.calibrate.quantise import (
    SHRINK,
    grid_reference,
    nearest_reference,
    round_to_nearest,
    round_to_nearest_reference,
)
from planner.losses import LLOYD_MAX_MSE

VECTORS = json.loads((Path(__file__).parent / "vectors" / "quantisers.json").read_text())
BITS = (1, 2, 3, 4)


def error(weights: np.ndarray, quantised: np.ndarray, inputs: np.ndarray | None = None) -> float:
    """Relative error of the weights, or of their product with the inputs."""
    a, b = weights.astype(np.float64), (weights - quantised).astype(np.float64)
    if inputs is not None:
        a, b = inputs @ a.T, inputs @ b.T
    return float((b**2).sum() / (a**2).sum())


def correlated(rng: np.random.Generator, samples: int, width: int, rho: float = 0.9) -> np.ndarray:
    x = rng.standard_normal((samples, width))
    for i in range(1, width):
        x[:, i] = rho * x[:, i - 1] + (1 - rho**2) ** 0.5 * x[:, i]
    return x.astype(np.float32)


@pytest.mark.parametrize("bits", BITS)
def test_vectors_pin_both_quantisers_and_their_twins(bits: int) -> None:
    weights = np.array(VECTORS["weights"], np.float32)
    factor = np.array(VECTORS["factor"], np.float32)
    for twin in (round_to_nearest, round_to_nearest_reference):
        assert np.array_equal(twin(weights, bits, 8), np.array(VECTORS["rtn"][str(bits)], np.float32))
    for both in (gptq, gptq_reference):
        assert np.array_equal(both(weights, factor, bits, 8), np.array(VECTORS["gptq"][str(bits)], np.float32))


def test_vectors_pin_the_factor() -> None:
    factor = hessian_factor(np.array(VECTORS["inputs"], np.float32))
    np.testing.assert_allclose(factor, np.array(VECTORS["factor"], np.float32), rtol=1e-5, atol=1e-6)


@settings(max_examples=25)
@given(
    st.integers(1, 70),
    st.integers(1, 300),
    st.sampled_from((0, 8, 64, 128, 256)),
    st.sampled_from(BITS),
    st.integers(0, 2**31),
)
def test_kernels_equal_their_twins_bit_for_bit(rows: int, columns: int, group: int, bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = (rng.standard_normal((rows, columns)) * 10.0 ** rng.integers(-4, 3, (rows, 1))).astype(np.float32)
    weights[rng.random(weights.shape) < 0.1] = 0
    assert np.array_equal(round_to_nearest(weights, bits, group), round_to_nearest_reference(weights, bits, group))
    factor = np.triu(rng.standard_normal((columns, columns)) * 0.1).astype(np.float32)
    np.fill_diagonal(factor, 1.0)
    assert np.array_equal(gptq(weights, factor, bits, group), gptq_reference(weights, factor, bits, group))


def test_the_factor_is_the_upper_root_of_the_inverse_hessian() -> None:
    x = correlated(np.random.default_rng(0), 500, 150)
    hessian = x.T.astype(np.float64) @ x / len(x)
    hessian += np.eye(150) * 0.01 * np.diagonal(hessian).mean()
    factor = hessian_factor(x).astype(np.float64)
    assert np.array_equal(factor, np.triu(factor))
    np.testing.assert_allclose(factor.T @ factor @ hessian, np.eye(150), atol=2e-4)


def test_fewer_samples_than_channels_and_silent_channels_are_damped() -> None:
    x = correlated(np.random.default_rng(1), 20, 150)
    x[:, 40:50] = 0
    assert np.isfinite(hessian_factor(x)).all()
    assert np.isfinite(hessian_factor(np.zeros((3, 5), np.float32))).all()


def textbook(weights: np.ndarray, inputs: np.ndarray, bits: int, group: int) -> np.ndarray:
    """Optimal brain surgeon one column at a time, float64: after each column the inverse loses its row and column."""
    w = weights.astype(np.float64)
    hessian = inputs.T.astype(np.float64) @ inputs / len(inputs)
    inverse = np.linalg.inv(hessian + np.eye(len(hessian)) * 0.01 * np.diagonal(hessian).mean())
    out = np.zeros_like(w)
    for j in range(w.shape[1]):
        if j % group == 0:
            scale, zero = grid_reference(w[:, j : j + group].astype(np.float32), 2**bits - 1)
        out[:, j] = nearest_reference(w[:, j].astype(np.float32), scale, zero, 2**bits - 1)
        step = (w[:, j] - out[:, j]) / inverse[j, j]
        w -= step[:, None] * inverse[j]
        inverse = inverse - np.outer(inverse[:, j], inverse[j]) / inverse[j, j]
    return out


@pytest.mark.parametrize("bits", BITS)
def test_gptq_is_the_textbook_update(bits: int) -> None:
    rng = np.random.default_rng(3)
    x, weights = correlated(rng, 300, 160, 0.7), rng.standard_normal((24, 160)).astype(np.float32)
    ours, theirs = gptq(weights, hessian_factor(x), bits, 32), textbook(weights, x, bits, 32)
    # float32 against float64 may tip a weight that lies between two levels, and what follows in its row
    same = np.isclose(ours, theirs, rtol=1e-4, atol=1e-5).all(axis=1)
    assert same.mean() > 0.7
    assert error(weights, ours, x) == pytest.approx(error(weights, theirs, x), rel=0.02)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("rho", "at_most"), [(0.5, 0.97), (0.9, 0.6)])
def test_gptq_beats_rounding_where_channels_go_together(bits: int, rho: float, at_most: float) -> None:
    rng = np.random.default_rng(5)
    x, weights = correlated(rng, 4000, 256, rho), rng.standard_normal((64, 256)).astype(np.float32)
    fresh = correlated(rng, 600, 256, rho)
    factor = hessian_factor(x)
    better, plain = gptq(weights, factor, bits), round_to_nearest(weights, bits)
    assert error(weights, better, fresh) < at_most * error(weights, plain, fresh), "on inputs that it has not seen"


def test_on_samples_that_it_was_fitted_to_gptq_looks_better_than_it_is() -> None:
    """The reason why a calibration compares over other samples."""
    rng = np.random.default_rng(5)
    x, weights = correlated(rng, 128, 256, 0.5), rng.standard_normal((64, 256)).astype(np.float32)
    fresh = correlated(rng, 600, 256, 0.5)
    found = gptq(weights, hessian_factor(x), 4)
    assert error(weights, found, x) < 0.5 * error(weights, found, fresh)


def test_gptq_on_independent_channels_is_rounding() -> None:
    """With a diagonal Hessian nothing can be made up for."""
    weights = np.random.default_rng(6).standard_normal((16, 200)).astype(np.float32)
    for bits in BITS:
        assert np.array_equal(gptq(weights, np.eye(200, dtype=np.float32), bits), round_to_nearest(weights, bits))


def test_errors_of_gaussian_weights_are_near_the_optimum_of_a_scalar_quantiser() -> None:
    """Lloyd-Max with one scale for all; a uniform grid is a little worse, a scale per group a little better."""
    weights = np.random.default_rng(8).standard_normal((256, 512)).astype(np.float32)
    for bits in BITS:
        found = error(weights, round_to_nearest(weights, bits))
        assert 0.8 * LLOYD_MAX_MSE[bits - 1] < found < 1.2 * LLOYD_MAX_MSE[bits - 1]


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.sampled_from((8, 32, 0)))
def test_more_bits_and_smaller_groups_do_not_hurt_rounded_weights(seed: int, group: int) -> None:
    weights = np.random.default_rng(seed).standard_normal((20, 64)).astype(np.float32)
    losses = [error(weights, round_to_nearest(weights, bits, group)) for bits in BITS]
    assert (np.diff(losses) < 0).all()
    assert error(weights, round_to_nearest(weights, 2, 8)) <= error(weights, round_to_nearest(weights, 2, 0))


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.sampled_from(BITS))
def test_a_group_has_at_most_two_to_the_bits_values_and_scales_with_its_weights(seed: int, bits: int) -> None:
    weights = np.random.default_rng(seed).standard_normal((6, 128)).astype(np.float32)
    quantised = round_to_nearest(weights, bits)
    assert all(len(np.unique(row)) <= 2**bits for row in quantised)
    assert np.array_equal(round_to_nearest(weights * np.float32(4), bits), quantised * np.float32(4))


def test_weights_on_a_grid_come_back() -> None:
    levels = np.tile(np.arange(16, dtype=np.float32) * 0.25 - 1.5, (3, 8))
    np.testing.assert_allclose(round_to_nearest(levels, 4), levels, atol=1e-6)
    signs = np.where(np.arange(128) % 3, 0.5, -0.5).astype(np.float32)[None]
    assert np.array_equal(round_to_nearest(signs, 1), signs)


def test_zeros_stay_zeros() -> None:
    zeros = np.zeros((3, 130), np.float32)
    for bits in BITS:
        assert not round_to_nearest(zeros, bits).any()
        assert not gptq(zeros, np.eye(130, dtype=np.float32), bits).any()


def test_the_range_is_only_ever_shrunk() -> None:
    assert SHRINK[0] == 1.0 and list(SHRINK) == sorted(SHRINK, reverse=True) and SHRINK[-1] > 0


@pytest.mark.parametrize("group", [-1, 7, 100, 2048])
def test_other_group_sizes_are_refused(group: int) -> None:
    with pytest.raises(CalibrationError, match=f"The group size is {group}; accepted are 8, 16"):
        round_to_nearest(np.ones((2, 256), np.float32), 2, group)


@pytest.mark.parametrize("bits", [0, 5, 16])
def test_other_bit_widths_are_refused(bits: int) -> None:
    with pytest.raises(CalibrationError, match=f"bit-width is {bits}; accepted are 1, 2, 3 and 4"):
        round_to_nearest(np.ones((2, 8), np.float32), bits)
