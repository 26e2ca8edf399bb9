"""From the stored types of expert weights to float32: plain floats, FP8 with scales, MXFP4, NVFP4 and packed INT4.

Sources: FP8 with 128 x 128 scales, DeepSeek-V3 (arXiv 2412.19437, section 3.3); MXFP4, OCP Microscaling Formats 1.0
(blocks of 32, scale 2^(e - 127)); NVFP4, NVIDIA Model Optimizer (blocks of 16, E4M3 scale times one FP32 scale); packed
INT4, compressed-tensors (eight offset values in an int32, lowest bits first).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from planner.calibrate.errors import CalibrationError
from planner.fields.sentences import shown

ACCEPTED = (
    "BF16, FP16, FP32, FP8 (E4M3) with block, channel or tensor scales, MXFP4, NVFP4 and packed INT4 with group scales"
)
FP8_BLOCK = 128
MX_BLOCK = 32
NV_BLOCK = 16
_INT4_PER_WORD = 8

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
"""Value of each FP4 code."""


def _e4m3_table() -> np.ndarray:
    """Value of each FP8 E4M3 byte (no infinities; 0x7f and 0xff are NaN; bias 7)."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    value = np.where(exponent > 0, (1 + mantissa / 8) * 2.0 ** (exponent - 7), mantissa / 8 * 2.0**-6)
    value = np.where((code & 127) == 127, np.nan, value)
    return np.where(code >= 128, -value, value).astype(np.float32)


E4M3 = _e4m3_table()
E8M0 = np.append(np.ldexp(np.float32(1), np.arange(255) - 127), np.float32("nan")).astype(np.float32)
"""Value of each power-of-two scale byte; 255 is NaN."""

Stored = Mapping[str, tuple[str, np.ndarray]]
"""Part of a matrix (``weight``, ``scale``, ``scale_2``, ``shape``) to its dtype and its raw array."""


def plain(dtype: str, raw: np.ndarray) -> np.ndarray | None:
    """float32 of a plain floating type; None for another."""
    if dtype == "BF16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype == "F16":
        return raw.astype(np.float32)
    if dtype == "F32":
        return np.array(raw, np.float32)
    if dtype == "F8_E8M0":
        return E8M0[raw]
    return None


def _scale(dtype: str, raw: np.ndarray) -> np.ndarray | None:
    """Scales as float32: a plain type, or a byte that is a power of two."""
    return E8M0[raw] if dtype == "U8" else plain(dtype, raw)


def matrix(name: str, stored: Stored) -> np.ndarray:
    """float32 [rows, columns] of one stored matrix, finite. Raises CalibrationError that names the tensor."""
    dtype, raw = stored["weight"]
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused below
        value = _decoded(name, dtype, raw, stored)
    if value is None:
        with_what = ", ".join(
            f"{part} {kind} {list(a.shape)}" for part, (kind, a) in stored.items() if part != "weight"
        )
        raise CalibrationError(
            f"The tensor {shown(name)} is {dtype} of shape {list(raw.shape)}{' with ' * bool(with_what)}{with_what}, "
            f"which is not understood; accepted are {ACCEPTED}."
        )
    if not np.isfinite(value).all():
        raise CalibrationError(f"The tensor {shown(name)} holds values that are not finite numbers.")
    return value


def _decoded(name: str, dtype: str, raw: np.ndarray, stored: Stored) -> np.ndarray | None:
    if "scale" not in stored:
        if dtype.startswith("F8_E4M3"):
            raise CalibrationError(f"The tensor {shown(name)} is {dtype} and has no scales beside it.")
        return plain(dtype, raw) if dtype != "F8_E8M0" and raw.ndim == 2 else None
    scale_type, scale = stored["scale"]
    if dtype == "F8_E4M3":
        return _fp8(raw, _scale(scale_type, scale))
    if dtype in ("U8", "I8"):
        flat = raw.view(np.uint8).reshape(raw.shape[0], -1)
        if scale_type in ("U8", "F8_E8M0"):
            return _fp4(flat, E8M0[scale], MX_BLOCK)
        if scale_type == "F8_E4M3" and "scale_2" in stored:
            second = plain(*stored["scale_2"])
            if second is None or second.size != 1:
                return None
            return _fp4(flat, E4M3[scale] * second.reshape(()), NV_BLOCK)
    if dtype == "I32":
        return _int4(raw, plain(scale_type, scale), stored.get("shape"))
    return None


def _fp8(raw: np.ndarray, scale: np.ndarray | None) -> np.ndarray | None:
    """E4M3 times one scale, one per row, or one per 128 x 128 block."""
    if scale is None or raw.ndim != 2:
        return None
    rows, columns = raw.shape
    value = E4M3[raw]
    if scale.size == 1:
        value *= scale.reshape(())
    elif scale.shape in ((rows,), (rows, 1)):
        value *= scale.reshape(rows, 1)
    elif scale.shape == (math.ceil(rows / FP8_BLOCK), math.ceil(columns / FP8_BLOCK)):
        for i in range(scale.shape[0]):  # one band of rows at a time: no full-size copy of the scales
            band = np.repeat(scale[i], FP8_BLOCK)[:columns]
            value[i * FP8_BLOCK : (i + 1) * FP8_BLOCK] *= band
    else:
        return None
    return value


def _fp4(packed: np.ndarray, scale: np.ndarray, block: int) -> np.ndarray | None:
    """Two codes in each byte, the lower bits first; one scale for each ``block`` values of a row."""
    rows, half = packed.shape
    if scale.ndim != 2 or scale.shape != (rows, 2 * half // block) or 2 * half % block:
        return None
    value = np.empty((rows, 2 * half), np.float32)
    value[:, 0::2] = E2M1[packed & 15]
    value[:, 1::2] = E2M1[packed >> 4]
    blocks = value.reshape(rows, -1, block)
    blocks *= scale[:, :, None]
    return value


def _int4(raw: np.ndarray, scale: np.ndarray | None, shape: tuple[str, np.ndarray] | None) -> np.ndarray | None:
    """Eight values of 4 bits, offset by 8, in each int32; scales [rows, groups]."""
    if scale is None or raw.ndim != 2 or scale.ndim != 2 or scale.shape[0] != raw.shape[0] or not scale.shape[1]:
        return None
    rows, columns = raw.shape[0], raw.shape[1] * _INT4_PER_WORD
    if shape is not None and [int(n) for n in np.ravel(shape[1])] != [rows, columns]:
        return None
    if columns % scale.shape[1]:
        return None
    words = raw.view(np.uint32)
    value = np.empty((rows, columns), np.float32)
    for i in range(_INT4_PER_WORD):
        value[:, i::_INT4_PER_WORD] = ((words >> np.uint32(4 * i)) & np.uint32(15)).astype(np.float32) - 8
    groups = value.reshape(rows, scale.shape[1], -1)
    groups *= scale[:, :, None]
    return value
