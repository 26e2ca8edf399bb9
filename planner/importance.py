"""Importance of every expert from the routing of a prefill (arXiv 2512.04476, placement step).

Per layer l and expert e: P = number of selections, W = sum of router scores, both normalised per layer, and
S = alpha P~ + (1 - alpha) W~ with alpha = 0.5. The paper does not spell out its normalisation; the layer sum is the
default, the other two readings can be chosen.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numba import njit

from planner.arrays import kernel_input

Normalise = Literal["sum", "max", "minmax"]


@njit(nogil=True, cache=True)
def _score(ids, weights, counts, scores):  # type: ignore[no-untyped-def]
    layers, tokens, chosen = ids.shape
    for layer in range(layers):
        for token in range(tokens):
            for i in range(chosen):
                e = ids[layer, token, i]
                counts[layer, e] += 1.0
                scores[layer, e] += weights[layer, token, i]


def _checked(ids: np.ndarray, weights: np.ndarray, experts: int) -> tuple[np.ndarray, np.ndarray]:
    if ids.ndim != 3 or ids.shape != weights.shape:
        raise ValueError(f"ids have shape {ids.shape} and weights {weights.shape}; both must be [layers, tokens, k]")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < experts:
        raise ValueError(f"expert ids run from {ids.min()} to {ids.max()}; accepted are 0 to {experts - 1}")
    # a signed index would be tested for wrap-around at every access (1.6 times slower)
    return kernel_input(ids, np.uint8 if ids.dtype == np.uint8 else np.uint16), kernel_input(weights, np.float32)


def score_kernel(ids: np.ndarray, weights: np.ndarray, experts: int) -> tuple[np.ndarray, np.ndarray]:
    """Selections and summed router scores of every expert.

    ids: uint8 or uint16 [layers, tokens, k], chosen experts; weights: float32, same shape, their router scores.
    Returns counts and scores, float64 [layers, experts]. Raises ValueError if an id is outside 0..experts-1.
    """
    ids, weights = _checked(ids, weights, experts)
    counts = np.zeros((ids.shape[0], experts))
    scores = np.zeros((ids.shape[0], experts))
    _score(ids, weights, counts, scores)
    return counts, scores


def score_reference(ids: np.ndarray, weights: np.ndarray, experts: int) -> tuple[np.ndarray, np.ndarray]:
    """NumPy twin of :func:`score_kernel` (bincount adds in the same order, so results are equal)."""
    ids, weights = _checked(ids, weights, experts)
    flat = ids.reshape(ids.shape[0], -1).astype(np.intp)
    share = weights.reshape(ids.shape[0], -1)
    counts = [np.bincount(row, minlength=experts) for row in flat]
    scores = [np.bincount(row, w, experts) for row, w in zip(flat, share, strict=True)]
    shape = (ids.shape[0], experts)
    return np.array(counts, np.float64).reshape(shape), np.array(scores, np.float64).reshape(shape)


def importance(counts: np.ndarray, scores: np.ndarray, alpha: float = 0.5, normalise: Normalise = "sum") -> np.ndarray:
    """S = alpha P~ + (1 - alpha) W~, float64 [layers, experts], from counts P and summed router scores W, same shape.

    normalise: per layer divide by the sum, divide by the maximum, or map minimum to 0 and maximum to 1. A layer
    without any selection gets zeros. Source: arXiv 2512.04476, steps 2 and 3 of the placement.
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha is {alpha}; accepted is a share from 0 to 1")
    return alpha * _normalised(counts, normalise) + (1.0 - alpha) * _normalised(scores, normalise)


def _normalised(values: np.ndarray, how: Normalise) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if how == "sum":
        low, scale = 0.0, values.sum(axis=-1, keepdims=True)
    elif how == "max":
        low, scale = 0.0, values.max(axis=-1, keepdims=True)
    elif how == "minmax":
        low = values.min(axis=-1, keepdims=True)
        scale = values.max(axis=-1, keepdims=True) - low
    else:
        raise ValueError(f"normalise is '{how}'; accepted are sum, max and minmax")
    return np.divide(values - low, scale, out=np.zeros_like(values), where=scale > 0)


def by_importance(scores: np.ndarray) -> np.ndarray:
    """Experts of each layer, most important first, ties by the lower index: int64 [layers, experts]."""
    return np.argsort(-np.asarray(scores, np.float64), axis=-1, kind="stable")


def hot_experts(scores: np.ndarray, k: int) -> np.ndarray:
    """The k most important experts of each layer, ties by the lower index: bool [layers, experts]. k is capped."""
    if k < 0:
        raise ValueError(f"the number of hot experts per layer is {k}; accepted is 0 or more")
    hot = np.zeros(np.shape(scores), bool)
    np.put_along_axis(hot, by_importance(scores)[..., :k], True, axis=-1)
    return hot


def warm() -> None:
    """Compile (or load from the cache) the kernel for both id types."""
    for kind in (np.uint8, np.uint16):
        score_kernel(np.zeros((1, 1, 1), kind), np.ones((1, 1, 1), np.float32), 1)
