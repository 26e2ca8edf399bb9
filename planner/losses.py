"""Surrogate loss of every expert at 1, 2, 3 and 4 bits, for when no table was measured on the model itself.

An optimal scalar quantiser leaves the relative error D(b) of a Gaussian weight (Max, IRE Trans. Inf. Theory 6, 1960),
uncorrelated with what it returns. An expert multiplies three such matrices, so the share of its output that is kept is
about (1 - D)^3 and the loss, in the units of every loss table, 1 - (1 - D)^3. Each expert's is scaled by a sensitivity
that is assumed, not measured.
"""

from __future__ import annotations

import numpy as np

from planner.loss_table import LossTable, Provenance
from planner.routing.counter_rng import child, normal_quantile, uniform

__all__ = ["DEFAULT_SPREAD", "EXPERT_LOSS", "LLOYD_MAX_MSE", "LossTable", "surrogate_losses"]

LLOYD_MAX_MSE = np.array([0.3634, 0.1175, 0.03454, 0.009497])
"""Relative mean squared error of a Gaussian source at 1, 2, 3, 4 bits (Max, IRE Trans. Inf. Theory 6, 1960)."""

EXPERT_LOSS = 1.0 - (1.0 - LLOYD_MAX_MSE) ** 3
"""Relative mean squared error of the output of a gated expert whose three matrices have the error LLOYD_MAX_MSE."""

DEFAULT_SPREAD = 0.3
"""Assumed standard deviation of ln(sensitivity) between experts. No published table of a whole model was found; at
0.3 the paper's prefix search is nearly always exact, at 0.8 it leaves 8 to 22 % more loss than the optimum."""

LARGEST_SPREAD = 4.0
_ROOT = np.uint64(0x6C6F73736573)


def surrogate_losses(layers: int, experts: int, spread: float = DEFAULT_SPREAD, seed: int = 0) -> LossTable:
    """EXPERT_LOSS times exp(spread x N(0, 1)), one sensitivity for each expert, from the seed. Layers count from 0."""
    if not 0.0 <= spread <= LARGEST_SPREAD:
        raise ValueError(f"the spread of the sensitivities is {spread}; accepted is 0 to {LARGEST_SPREAD:g}")
    by_layer = child(child(_ROOT, seed), np.arange(layers))
    sensitivity = np.exp(spread * normal_quantile(uniform(child(by_layer[:, None], np.arange(experts)))))
    return LossTable(
        layers=tuple(range(layers)),
        values=sensitivity[:, :, None] * EXPERT_LOSS,
        surrogate=True,
        provenance=Provenance(
            source=(
                "surrogate: Lloyd-Max error of a Gaussian (Max 1960) in the three matrices of an expert, times an "
                f"assumed log-normal sensitivity per expert, spread {spread:g}; not measured on this model"
            )
        ),
    )
