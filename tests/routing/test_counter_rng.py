"""The random source: known words, the same bits in NumPy and Numba, the right distributions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.stats import norm

from planner.routing.counter_rng import (
    child,
    child_key,
    exponential_table,
    lognormal_table,
    normal_quantile,
    uniform,
)

compiled_child = njit(lambda key, index: child_key(key, index))
WORDS = st.integers(0, 2**64 - 1)


def test_published_words_of_splitmix64() -> None:
    # first outputs for seed 1234567 of the reference implementation (prng.di.unimi.it/splitmix64.c)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert child(1234567, np.arange(4)).tolist() == expected


@settings(deadline=None)
@given(WORDS, WORDS)
def test_numba_and_numpy_give_the_same_word(key: int, index: int) -> None:
    assert int(compiled_child(np.uint64(key), np.uint64(index))) == int(child(np.uint64(key), np.uint64(index)))


def test_uniform_numbers_stay_inside_the_open_interval_and_are_uniform() -> None:
    assert 0 < uniform(np.array([0], np.uint64))[0] < uniform(np.array([2**63], np.uint64))[0] < 1
    u = uniform(child(7, np.arange(200_000)))
    assert abs(u.mean() - 0.5) < 4 * np.sqrt(1 / 12 / u.size)
    assert np.corrcoef(u[:-1], u[1:])[0, 1] < 4 / np.sqrt(u.size)


def test_normal_quantile_against_scipy() -> None:
    p = np.concatenate([np.linspace(1e-9, 1 - 1e-9, 20_001), [1e-300, 1e-40, 0.5]])
    np.testing.assert_allclose(normal_quantile(p), norm.ppf(p), rtol=1e-13, atol=1e-13)


def test_table_of_exponentials_has_mean_one_and_variance_one() -> None:
    table = exponential_table()
    assert np.all(np.diff(table) > 0)
    assert abs(table.mean() - 1) < 1e-12
    assert abs(table.var() - 1) < 1e-3


def test_table_of_lognormal_factors_has_the_moments_of_a_lognormal() -> None:
    for sigma in (0.1, 0.5, 1.0):
        table = lognormal_table(sigma)
        assert abs(np.log(table).std() - sigma) < 1e-12
        assert abs(table.mean() / np.exp(sigma**2 / 2) - 1) < 5e-3
