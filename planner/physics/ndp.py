"""Time of an expert on a near-data processor (DIMM-NDP or CXL-NDP)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.errors import PlanError
from planner.machine import Ndp
from planner.physics.operation import Array

ROW_MAPPINGS = ("gemv", "padded", "scaled")


def computed_rows(tokens: ArrayLike, tile_rows: float, mapping: str, bits: ArrayLike = 16.0) -> Array:
    """Rows that the arrays are busy for when an expert has ``tokens`` rows.

    ``gemv``: up to one tile all units work on the rows there are; above, whole tiles. ``padded``: always whole
    tiles, one row of four used at one token. ``scaled``: as gemv, and throughput grows as 16 / bits (MoNDE's 4 x 4
    arrays; which mapping the published systems use is not stated, so it is a switch).
    """
    rows = np.asarray(tokens, float)
    tiled = np.ceil(rows / tile_rows) * tile_rows
    if mapping == "padded":
        return tiled
    used = np.where(rows <= tile_rows, rows, tiled)
    if mapping == "gemv":
        return used
    if mapping == "scaled":
        return used * np.asarray(bits, float) / 16.0
    raise PlanError(f"policy.options.ndp_compute is {mapping!r}; it takes one of {', '.join(ROW_MAPPINGS)}.")


def expert_compute_s(parameters: float, tokens: ArrayLike, ndp: Ndp, mapping: str, bits: ArrayLike = 16.0) -> Array:
    """Seconds of compute of one expert on one unit."""
    return 2.0 * parameters * computed_rows(tokens, ndp.tile_rows, mapping, bits) / ndp.flop_per_s


def expert_bytes_s(expert_bytes: ArrayLike, tokens: ArrayLike, ndp: Ndp) -> Array:
    """Seconds to read one expert inside one unit; an expert without tokens is not read."""
    return np.where(np.asarray(tokens) > 0, np.asarray(expert_bytes, float) / ndp.bandwidth_bytes_per_s, 0.0)
