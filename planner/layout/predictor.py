"""Load prediction of TriMoE: an exponential moving average of each expert's tokens, and how good it is."""

from __future__ import annotations

import numpy as np

ALPHA = 0.3
"""Weight of the newest step (TriMoE, arXiv 2603.01058)."""


def next_average(average: np.ndarray, tokens: np.ndarray, alpha: float = ALPHA) -> np.ndarray:
    """EMA(t) = alpha F(t) + (1 - alpha) EMA(t - 1), float64 [layers, experts]; it predicts F(t + 1)."""
    return alpha * tokens + (1.0 - alpha) * average


def prediction_error(predicted: np.ndarray, tokens: np.ndarray) -> float:
    """Relative L1 error: sum over experts of |predicted - true| over the tokens of the layer, mean over layers.

    0 is perfect; 2 is all tokens at the wrong experts. Both float64 or int [layers, experts].
    """
    wrong = np.abs(predicted - tokens).sum(axis=1)
    return float((wrong / np.maximum(tokens.sum(axis=1), 1)).mean())
