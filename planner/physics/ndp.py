"""Time of an expert on a near-data processor (DIMM-NDP or CXL-NDP)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from planner.devices import Ndp
from planner.errors import PlanError
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


def rows_per_fill(buffer_bytes: float | None, row_bytes: float) -> float:
    """Rows of activations that a unit's buffer holds at once, at least one; without a figure there is no limit."""
    return np.inf if buffer_bytes is None else max(1.0, np.floor(buffer_bytes / row_bytes))


def fills(tokens: ArrayLike, rows: float) -> Array:
    """How often an expert with ``tokens`` rows fills a buffer of ``rows`` rows: ceil(tokens / rows), 0 for none."""
    given = np.asarray(tokens, float)
    return np.where(given > 0, np.maximum(np.ceil(given / rows), 1.0), 0.0)


def expert_read_bytes(expert_bytes: ArrayLike, tokens: ArrayLike, ndp: Ndp, row_bytes: float) -> Array:
    """Bytes of weights that a unit reads for one expert: all of it for each fill of its buffer.

    The buffer holds a whole row of inputs, ``row_bytes``, while the weights stream past it once; tokens that do not fit
    wait for the next fill. TriMoE (arXiv 2603.01058) gives the size, 256 KB, not what lies in it: outputs and partial
    sums are left out here (more fills if they are in), and the down projection is read as often as the other two, whose
    rows are longer.
    """
    return np.asarray(expert_bytes, float) * fills(tokens, rows_per_fill(ndp.buffer_bytes, row_bytes))


def expert_bytes_s(expert_bytes: ArrayLike, tokens: ArrayLike, ndp: Ndp, row_bytes: float) -> Array:
    """Seconds to read one expert inside one unit; an expert without tokens is not read."""
    return expert_read_bytes(expert_bytes, tokens, ndp, row_bytes) / ndp.bandwidth_bytes_per_s
