"""The weight format in which a checkpoint stores each component, as its config states it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from models.architecture import NativeFormat
from models.errors import quoted
from models.fields import Fields

_BASE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
MATRICES = (
    "attn attn_full attn_linear attn_kda attn_mla mamba indexer compressor latent_proj dense_mlp residual_mlp shared "
    "routed eh_proj"
).split()


def native_format(f: Fields, quantisation: Any, outer: Sequence[Mapping[str, Any]]) -> NativeFormat:
    """Native format from ``torch_dtype`` and ``quantization_config``; refuses methods that are not understood."""
    dtype = next((c[k] for c in outer for k in ("torch_dtype", "dtype") if c.get(k) is not None), "bfloat16")
    base = _BASE.get(dtype) if isinstance(dtype, str) else None
    if base is None:
        raise f.error(f"torch_dtype is {quoted(dtype)}; {', '.join(_BASE)} is accepted.")
    if quantisation is None:
        return NativeFormat(base, source=f"stored as {base}")
    if not isinstance(quantisation, Mapping):
        raise f.error(f"quantization_config is {quoted(quantisation)}; an object is accepted.")
    method = quantisation.get("quant_method")
    if method == "fp8":
        return NativeFormat(base, tuple((name, "fp8-block") for name in MATRICES), source="quantization_config fp8")
    raise f.error(f"quantization_config.quant_method is {quoted(method)}, which is not understood.")
