"""Importance scoring: formula, normalisations, ties, bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from planner.importance import hot_experts, importance, score_kernel, score_reference


@given(st.data(), st.integers(1, 3), st.integers(0, 30), st.integers(1, 5), st.integers(1, 300))
def test_kernel_equals_twin_and_counts_add_up(data, layers: int, tokens: int, k: int, experts: int) -> None:
    ids = data.draw(hnp.arrays(np.uint16, (layers, tokens, k), elements=st.integers(0, experts - 1)))
    weights = np.random.default_rng(0).random(ids.shape, np.float32)
    counts, scores = score_kernel(ids, weights, experts)
    twin_counts, twin_scores = score_reference(ids, weights, experts)
    assert np.array_equal(counts, twin_counts)
    assert np.array_equal(scores, twin_scores)
    assert (counts.sum(axis=1) == tokens * k).all()
    np.testing.assert_allclose(scores.sum(axis=1), weights.sum(axis=(1, 2), dtype=np.float64))


def test_read_only_input_is_scored_too() -> None:
    ids, weights = np.zeros((1, 2, 1), np.uint8), np.ones((1, 2, 1), np.float32)
    ids.flags.writeable = weights.flags.writeable = False
    assert score_kernel(ids, weights, 2)[0].tolist() == [[2, 0]]


def test_importance_by_hand() -> None:
    counts, scores = np.array([[6.0, 2.0, 0.0]]), np.array([[1.0, 3.0, 0.0]])
    np.testing.assert_allclose(importance(counts, scores), [[0.5, 0.5, 0.0]])
    np.testing.assert_allclose(importance(counts, scores, alpha=1.0), [[0.75, 0.25, 0.0]])
    np.testing.assert_allclose(importance(counts, scores, alpha=0.0), [[0.25, 0.75, 0.0]])
    np.testing.assert_allclose(importance(counts, scores, normalise="max"), [[2 / 3, 2 / 3, 0.0]])
    shifted = importance(counts + 1, scores + 1, normalise="minmax")
    np.testing.assert_allclose(shifted, importance(counts, scores, normalise="max"))


def test_a_layer_without_tokens_gets_zeros() -> None:
    for how in ("sum", "max", "minmax"):
        assert importance(np.zeros((2, 3)), np.zeros((2, 3)), normalise=how).tolist() == [[0.0] * 3] * 2  # type: ignore[arg-type]


def test_ties_go_to_the_lower_index() -> None:
    assert hot_experts(np.array([[1.0, 2.0, 2.0, 1.0, 0.5]]), 3).tolist() == [[True, True, True, False, False]]
    assert hot_experts(np.ones((1, 4)), 0).sum() == 0
    assert hot_experts(np.ones((2, 4)), 99).all()


@given(hnp.arrays(np.float64, (3, 9), elements=st.floats(0, 1)), st.integers(0, 9))
def test_the_hot_set_holds_the_largest(scores: np.ndarray, k: int) -> None:
    hot = hot_experts(scores, k)
    assert (hot.sum(axis=1) == k).all()
    for row, chosen in zip(scores, hot, strict=True):
        assert k in (0, 9) or row[chosen].min() >= row[~chosen].max()


def test_bad_input_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="expert ids run from 0 to 4; accepted are 0 to 3"):
        score_kernel(np.array([[[0, 4]]], np.uint8), np.ones((1, 1, 2), np.float32), 4)
    with pytest.raises(ValueError, match="expert ids run from -1"):
        score_kernel(np.array([[[-1, 1]]]), np.ones((1, 1, 2), np.float32), 4)
    with pytest.raises(ValueError, match=r"both must be \[layers, tokens, k\]"):
        score_kernel(np.zeros((1, 2, 2), np.uint8), np.ones((1, 2, 1), np.float32), 4)
    with pytest.raises(ValueError, match=r"alpha is 1\.5; accepted is a share from 0 to 1"):
        importance(np.ones((1, 2)), np.ones((1, 2)), alpha=1.5)
    with pytest.raises(ValueError, match="normalise is 'softmax'; accepted are sum, max and minmax"):
        importance(np.ones((1, 2)), np.ones((1, 2)), normalise="softmax")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hot experts per layer is -1"):
        hot_experts(np.ones((1, 2)), -1)
