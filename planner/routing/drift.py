"""Popularity that drifts from one decode step to the next.

The standard normal z of an expert (:mod:`planner.routing.popularity`) becomes

    z(t) = sqrt(1 - q) fixed + sqrt(q) a(t),    a(t) = rho a(t-1) + sqrt(1 - rho^2) noise,

so every step keeps the spread and the distribution of the workload; q is the share of the variance of ln(load) that
drifts, rho the correlation of that part between consecutive steps. At step 0 z is the z of the static generator:
what a placement learns offline is right at the start and ages from there.

No measurement of q and rho over hundreds of steps is public for a large model. The defaults q = 0.2, rho = 0.97 are
assumed (an independent prototype of TriMoE used them); with q = 0 nothing drifts.
"""

from __future__ import annotations

import math

import numpy as np

from planner.routing.counter_rng import child, lognormal_table
from planner.routing.popularity import log_gamma_quantile, weights_of
from planner.routing.sampler import LANE_BITS, LANE_MASK, LANES

DRIFT_SHARE, STEP_CORRELATION = 0.2, 0.97

START, NOISE = 8, 9  # streams of the key of the popularity, beside those in planner.routing.popularity
NORMALS = np.log(lognormal_table(1.0))
GRID = np.linspace(-9.0, 9.0, 1153)  # of z, steps of 1/64: a gamma quantile between them is interpolated


def drifting_weights(
    key: np.uint64, layer: int, z: np.ndarray, sigma: float, distribution: str, steps: int, share: float, rho: float
) -> np.ndarray:
    """Weights of one layer in every step, float64 [steps, experts], the largest of a step = 1.

    z: float64 [experts], standard normals of the layer at step 0. key: of the popularity of the whole workload.
    """
    if share == 0.0 or sigma == 0.0:
        path = z[None]
    else:
        start = _normals(child(child(key, START), layer), 1, z.size)[0]
        # z and an independent normal, rotated into the fixed part and the drifting one: both are standard normals
        # and independent, and sqrt(1 - q) fixed + sqrt(q) drifting is z again.
        fixed = math.sqrt(1.0 - share) * z - math.sqrt(share) * start
        drifting = math.sqrt(share) * z + math.sqrt(1.0 - share) * start
        noise = _normals(child(child(key, NOISE), layer), steps, z.size) * math.sqrt(1.0 - rho * rho)
        path = np.empty((steps, z.size))
        for step in range(steps):
            if step:
                drifting = rho * drifting + noise[step]
            path[step] = math.sqrt(1.0 - share) * fixed + math.sqrt(share) * drifting
    if distribution == "lognormal" or sigma == 0.0:
        weights = weights_of(sigma * path)
    else:
        quantile = log_gamma_quantile(GRID[None], np.array([sigma]))[0]
        weights = weights_of(np.interp(path, GRID, quantile))
    return np.broadcast_to(weights, (steps, z.size))


def _normals(key: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Normals from the table of equally likely values, four from each word: float64 [rows, columns]."""
    words = child(child(key, np.arange(rows))[:, None], np.arange(-(-columns // LANES)))
    lanes = (words[..., None] >> (LANE_BITS * np.arange(LANES, dtype=np.uint64))) & LANE_MASK
    return NORMALS[lanes.astype(np.int64).reshape(rows, -1)[:, :columns]]
