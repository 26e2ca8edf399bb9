"""Quantisation loss of every expert at 1, 2, 3 and 4 bits.

Until a table is measured on the model itself (GPTQ and a calibration set, as arXiv 2512.04476 does offline), a
surrogate stands in, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.routing.counter_rng import child, normal_quantile, uniform

LLOYD_MAX_MSE = np.array([0.3634, 0.1175, 0.03454, 0.009497])
"""Relative mean squared error of a Gaussian source at 1, 2, 3, 4 bits (Max, IRE Trans. Inf. Theory 6, 1960)."""

DEFAULT_SPREAD = 0.3
"""Assumed standard deviation of ln(sensitivity) between experts. No published table of a whole model was found; at
0.3 the paper's prefix search is nearly always exact, at 0.8 it leaves 8 to 22 % more loss than the optimum."""

_ROOT = np.uint64(0x6C6F73736573)


@dataclass(frozen=True)
class LossTable:
    """Loss of each expert at 1..4 bits and where it comes from."""

    values: np.ndarray
    """float64 [layers, experts, 4], relative mean squared error, decreasing in bits"""
    surrogate: bool
    source: str


def surrogate_losses(layers: int, experts: int, spread: float = DEFAULT_SPREAD, seed: int = 0) -> LossTable:
    """Lloyd-Max error of a Gaussian times exp(spread x N(0, 1)), one sensitivity for each expert, from the seed."""
    if not 0.0 <= spread <= 4.0:
        raise ValueError(f"the spread of the sensitivities is {spread}; accepted is 0 to 4")
    by_layer = child(child(_ROOT, seed), np.arange(layers))
    sensitivity = np.exp(spread * normal_quantile(uniform(child(by_layer[:, None], np.arange(experts)))))
    values = sensitivity[:, :, None] * LLOYD_MAX_MSE
    values.flags.writeable = False
    return LossTable(
        values=values,
        surrogate=True,
        source=(
            "surrogate: Lloyd-Max error of a Gaussian (Max 1960) times an assumed log-normal sensitivity per expert, "
            f"spread {spread:g}; not measured on this model"
        ),
    )
