"""Least squares held towards what is known already: the one solver of the fits on measured and on served runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def held_least_squares(
    residuals: Callable[[Vector], Vector], start: Vector, prior: Vector, spread: Vector, low: Vector, high: Vector
) -> Vector:
    """x within ``low`` and ``high`` that minimises ``sum residuals(x)^2 + sum ((x - prior) / spread)^2``.

    ``residuals`` returns the square roots of a robust loss. All arguments are of figures, ln.
    """
    from scipy.optimize import least_squares

    def objective(x: Vector) -> Vector:
        return np.concatenate([residuals(x), (x - prior) / spread])

    return np.asarray(least_squares(objective, start, bounds=(low, high)).x)
