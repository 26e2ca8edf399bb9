"""Sampling of k distinct experts: the law, the twin, and what must hold for any input."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from planner.routing.counter_rng import lognormal_table
from planner.routing.sampler import gumbel_top_k, request_factors, sample_counts, sample_counts_reference

NONE = np.empty(0)
SETS = [frozenset(s) for s in itertools.combinations(range(5), 2)]


def plackett_luce(weights: np.ndarray) -> np.ndarray:
    """Exact probability of every set of two experts."""
    total = weights.sum()
    return np.array(
        [
            sum(weights[a] / total * weights[b] / (total - weights[a]) for a, b in itertools.permutations(s))
            for s in SETS
        ]
    )


def test_kernel_and_gumbel_top_k_follow_the_same_exact_law() -> None:
    weights, n = np.array([5.0, 2.0, 1.0, 0.5, 0.1]), 60_000
    expected = plackett_luce(weights) * n
    counts, _ = sample_counts(weights[None], NONE, np.uint64(11), 1, np.zeros(1), np.ones(1), n, 2)
    ours = [frozenset(np.flatnonzero(row[0])) for row in counts]
    literal = [frozenset(row) for row in gumbel_top_k(np.random.default_rng(5), np.log(weights), n, 2)]
    for drawn in (ours, literal):
        assert chisquare([drawn.count(s) for s in SETS], expected).pvalue > 1e-4


def test_guided_search_draws_the_same_law_and_the_same_experts_as_plain_search() -> None:
    rng = np.random.default_rng(0)
    weights = np.exp(rng.normal(size=(3, 300)))
    many = sample_counts(weights, NONE, np.uint64(3), 1, np.arange(2), np.full(2, 200), 1, 4)[0]
    plain = sample_counts_reference(weights, NONE, np.uint64(3), 1, np.arange(2), np.full(2, 200), 1, 4)[0]
    assert np.array_equal(many, plain)


def test_scores_are_the_softmax_of_the_noisy_logits_of_the_chosen() -> None:
    weights, n, k = np.array([4.0, 2.0, 1.0, 1.0, 0.2]), 100_000, 3
    _, scores = sample_counts(weights[None], NONE, np.uint64(2), 1, np.zeros(1), np.full(1, n), 1, k, True)
    rng = np.random.default_rng(1)
    noisy = np.log(weights) + rng.gumbel(size=(n, 5))
    top = np.argsort(-noisy, axis=1)[:, :k]
    share = np.exp(np.take_along_axis(noisy, top, 1))
    share /= share.sum(axis=1, keepdims=True)
    literal = np.bincount(top.ravel(), share.ravel(), 5)
    assert scores.sum() == pytest.approx(n)
    np.testing.assert_allclose(scores[0] / n, literal / n, atol=4 * 0.5 / np.sqrt(n))


@settings(max_examples=25, deadline=None)
@given(
    experts=st.integers(2, 40),
    layers=st.integers(1, 3),
    requests=st.integers(1, 4),
    steps=st.integers(1, 3),
    sigma=st.sampled_from([0.0, 0.5, 6.0]),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_kernel_equals_its_twin_bit_for_bit(experts, layers, requests, steps, sigma, seed, data) -> None:
    top_k = data.draw(st.integers(1, experts))
    weights = np.exp(sigma * np.random.default_rng(seed).normal(size=(layers, experts)))
    factors = lognormal_table(0.7) if seed % 2 else NONE
    numbers = np.arange(requests) * 7 + 2**41
    tokens = 1 + np.arange(requests) % 3
    arguments = (weights, factors, np.uint64(seed), 2, numbers, tokens, steps, top_k, True)
    counts, scores = sample_counts(*arguments)
    twin_counts, twin_scores = sample_counts_reference(*arguments)
    assert np.array_equal(counts, twin_counts)
    assert np.array_equal(scores, twin_scores)
    assert (counts.sum(axis=2) == tokens.sum() * top_k).all()
    assert counts.max() <= tokens.sum()
    assert scores.sum() == pytest.approx(tokens.sum() * steps * layers)


def test_draws_do_not_depend_on_which_other_requests_or_steps_are_drawn() -> None:
    weights, factors = np.exp(np.random.default_rng(0).normal(size=(2, 16))), lognormal_table(0.5)

    def draw(numbers: list[int], steps: int) -> np.ndarray:
        return sample_counts(weights, factors, np.uint64(4), 1, np.array(numbers), np.full(len(numbers), 2), steps, 3)[
            0
        ]

    assert np.array_equal(draw([3, 9], 5), draw([9], 5) + draw([3], 5))
    assert np.array_equal(draw([3, 9], 5)[:2], draw([3, 9], 2))


def test_a_request_keeps_its_factors_over_streams_and_steps() -> None:
    factors = lognormal_table(0.5)
    first = request_factors(np.uint64(1), 0, 5, 33, factors)
    assert np.array_equal(first, request_factors(np.uint64(1), 0, 5, 33, factors))
    assert not np.array_equal(first, request_factors(np.uint64(1), 1, 5, 33, factors))
    spread = np.log([request_factors(np.uint64(1), 0, r, 33, factors) for r in range(400)]).std()
    assert spread == pytest.approx(0.5, rel=0.03)


def test_every_expert_can_be_chosen_even_when_one_has_nearly_all_weight() -> None:
    weights = np.array([[1.0, 1e-26, 1e-26, 1e-26]])
    counts, scores = sample_counts(weights, NONE, np.uint64(1), 1, np.zeros(1), np.ones(1), 50, 4, True)
    assert (counts == 1).all()
    assert np.isfinite(scores).all()


def test_more_choices_than_experts_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k is 9; a layer of 8 experts takes 1 to 8"):
        sample_counts(np.ones((1, 8)), NONE, np.uint64(1), 1, np.zeros(1), np.ones(1), 1, 9)
