"""Weight and KV formats, exact bytes of a matrix in each, and which device computes which format.

The tables are data: ``models/formats.json``, with a source for every row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from models.errors import ModelError, nearest, quoted

_DATA = json.loads((Path(__file__).parent / "formats.json").read_text(encoding="utf-8"))

Layout = Literal["plain", "tensor", "row", "row-blocks", "tile"]
How = Literal["native", "dequantise", "no"]


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """A way to store a weight matrix of ``rows`` outputs x ``cols`` inputs.

    ``bits_per_weight`` includes scales and zero points of full blocks; :meth:`matrix_bytes` is exact for a shape.
    ``layout``: ``plain`` (no scale), ``tensor`` and ``row`` (one scale per tensor or output row, left out of
    ``bits_per_weight``), ``row-blocks`` (blocks of ``block`` inputs), ``tile`` (``block`` x ``block`` tiles).
    """

    id: str
    name: str
    nominal_bits: int
    bits_per_weight: float
    group_size: int | None
    layout: Layout
    block_bits: int
    scale_bits: int
    family: str
    source: str

    def matrix_bytes(self, rows: int, cols: int) -> float:
        """Bytes of one matrix, scales included; a partial block of a row takes a whole one, as files store it."""
        if self.layout == "plain" or self.group_size is None:
            scales = {"row": rows, "tensor": 1}.get(self.layout, 0)
            return (rows * cols * self.nominal_bits + scales * self.scale_bits) / 8
        groups = -(-cols // self.group_size)
        if self.layout == "tile":
            scale = self.block_bits - self.nominal_bits * self.group_size**2
            return (rows * cols * self.nominal_bits + -(-rows // self.group_size) * groups * scale) / 8
        return rows * groups * self.block_bits / 8

    def scale_bytes(self, rows: int, cols: int) -> float:
        """The part of :meth:`matrix_bytes` that is not the weights themselves."""
        return self.matrix_bytes(rows, cols) - rows * cols * self.nominal_bits / 8

    def scale_count(self, rows: int, cols: int) -> int:
        """Number of scales of one matrix."""
        if self.layout == "plain":
            return 0
        if self.group_size is None:
            return rows if self.layout == "row" else 1
        groups = -(-cols // self.group_size)
        return (-(-rows // self.group_size) if self.layout == "tile" else rows) * groups


@dataclass(frozen=True, slots=True)
class KvFormat:
    """A way to store the KV cache; ``vector_scale_bits`` is one scale per token and head vector."""

    id: str
    name: str
    bits: int
    vector_scale_bits: int
    source: str

    def bytes(self, elements: float, vectors: float) -> float:
        """Bytes of ``elements`` cached values that form ``vectors`` vectors."""
        return (elements * self.bits + vectors * self.vector_scale_bits) / 8


@dataclass(frozen=True, slots=True)
class ComputePath:
    """How a device multiplies weights of a format.

    ``how``: ``native``, ``dequantise`` (weights are expanded first) or ``no``. ``rate``: which dense FLOP rate of the
    device the product runs at (``bf16`` stands for its 16-bit rate, on AVX2 for the FP32 rate that it falls back to).
    """

    how: How
    rate: Literal["bf16", "fp8", "int8", "fp4", "vector"] | None
    source: str


def _weight_format(row: dict) -> WeightFormat:
    grouped = row["layout"] in ("row-blocks", "tile")
    weights = row["block"] ** 2 if row["layout"] == "tile" else row["block"]
    return WeightFormat(
        row["id"],
        row["name"],
        row["nominal_bits"],
        row["block_bits"] / weights,
        row["block"] if grouped else None,
        row["layout"],
        row["block_bits"],
        row.get("scale_bits", 0),
        row["family"],
        row["source"],
    )


FORMATS: dict[str, WeightFormat] = {row["id"]: _weight_format(row) for row in _DATA["formats"]}
KV_FORMATS: dict[str, KvFormat] = {row["id"]: KvFormat(**row) for row in _DATA["kv_formats"]}
DEVICE_CLASSES: tuple[str, ...] = tuple(_DATA["compute"]["bf16"])

_BY_BITS = {16: "bf16", 8: "fp8-block", 4: "int4-g128", 3: "gptq-3-g128", 2: "gptq-2-g128", 1: "gptq-1-g128"}


def weight_format(format_id: str) -> WeightFormat:
    """The format of that id; :class:`ModelError` names the nearest ones otherwise."""
    try:
        return FORMATS[format_id]
    except (KeyError, TypeError):
        close = ", ".join(nearest(str(format_id), FORMATS))
        raise ModelError(f"weight format {quoted(format_id)} is not known; the nearest: {close}.") from None


def kv_format(format_id: str) -> KvFormat:
    """The KV format of that id."""
    try:
        return KV_FORMATS[format_id]
    except (KeyError, TypeError):
        raise ModelError(f"KV format {quoted(format_id)} is not known; {', '.join(KV_FORMATS)} is accepted.") from None


def format_for_bits(bits: int) -> str:
    """The named format that stands for a bare bit width: BF16, FP8 block, INT4 group 128, GPTQ for 3, 2 and 1.

    Eight bits are FP8 block because the eight-bit checkpoints of today's large MoE models are stored so.
    """
    if isinstance(bits, bool) or bits not in _BY_BITS:
        accepted = ", ".join(str(key) for key in _BY_BITS)
        raise ModelError(f"{quoted(bits)} bits per weight have no format; {accepted} are accepted.")
    return _BY_BITS[int(bits)]


@lru_cache(maxsize=1024)
def compute_path(format_id: str, device_class: str) -> ComputePath:
    """How a device of ``device_class`` computes with weights in ``format_id``."""
    family = weight_format(format_id).family
    row = _DATA["compute"][family]
    if device_class not in row:
        close = ", ".join(nearest(str(device_class), row))
        raise ModelError(f"device class {quoted(device_class)} is not known; the nearest: {close}.")
    how, rate, source = row[device_class]
    return ComputePath(how, rate, _DATA["sources"][source])
