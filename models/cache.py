"""Attention FLOP, KV bytes and recurrent state of one sequence, by layer.

Contexts are tokens already held; a decode query attends to all of them. FLOP count one multiply-add as two.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from models.architecture import Architecture, Mixer
from models.formats import KvFormat, kv_format

INDEX_VALUE_BYTES = 1
INDEX_SCALE_BYTES = 4
"""Index keys are FP8 with one F32 scale per key (DeepSeek-V3.2 inference code), whatever the KV format."""

CONV_BYTES = 2


@lru_cache(maxsize=128)
def _columns(arch: Architecture) -> dict[str, np.ndarray]:
    """Mixer fields of all layers as float64 arrays; a missing window is infinite."""
    mixers = [layer.mixer for layer in arch.layers]
    names = [name for name in Mixer.__slots__ if name not in ("kind", "window")]
    table = {name: np.array([float(getattr(m, name)) for m in mixers]) for name in names}
    table["window"] = np.array([np.inf if m.window is None else float(m.window) for m in mixers])
    for values in table.values():
        values.setflags(write=False)
    return table


def _attended(c: dict[str, np.ndarray], context: float) -> tuple[np.ndarray, np.ndarray]:
    """(raw tokens, compressed entries) that one query reads in each layer."""
    raw = np.minimum(context, c["window"])
    chunks = (c["chunked"] > 0) & (context > c["window"])
    if chunks.any():
        window = np.where(chunks, c["window"], 1.0)
        raw = np.where(chunks, np.mod(context - 1.0, window) + 1.0, raw)
    topk = c["index_topk"]
    compressed = c["compress_ratio"] > 0
    raw = np.where((topk > 0) & ~compressed, np.minimum(raw, topk), raw)
    entries = np.where(compressed, np.floor(context / np.where(compressed, c["compress_ratio"], 1.0)), 0.0)
    return raw, np.where(compressed & (topk > 0), np.minimum(entries, topk), entries)


def _index_entries(c: dict[str, np.ndarray], context: float) -> np.ndarray:
    """Index keys that a query scores in each layer."""
    ratio = np.where(c["compress_ratio"] > 0, c["compress_ratio"], 1.0)
    return np.where(c["index_keys"] > 0, np.floor(context / ratio), 0.0)


def attention_flops(arch: Architecture, context_tokens: float, absorbed: bool = True) -> np.ndarray:
    """FLOP of ONE query token at that context, per layer [float64, num_layers]; projections are not in it.

    Score and value products, index scores, and the recurrent update of linear and Mamba layers. Latent attention is
    counted in its absorbed decode form, 2 nh (kv_rank + rope) + 2 nh kv_rank per token; with ``absorbed=False`` in the
    expanded form of prefill, 2 nh (qk + v) (DeepSeek-V2, arXiv 2405.04434, section 2.1.2). The absorbed query and
    output products equal the FLOP of kv_b_proj, which is among the projections either way.
    """
    c = _columns(arch)
    raw, entries = _attended(c, float(context_tokens))
    latent = (c["latent_dim"] > 0) & absorbed
    per_token = np.where(latent, 2 * c["latent_dim"] + c["rope_dim"], c["qk_dim"] + c["v_dim"])
    cached = c["kv_elements"] > 0
    flops = np.where(cached, 2 * c["heads"] * per_token * (raw + entries), 0.0)
    flops = flops + 2 * c["index_heads"] * c["index_dim"] * _index_entries(c, float(context_tokens))
    return flops + c["state_elements"] * c["state_flops_per_element"]


def kv_bytes_per_token(arch: Architecture, kv_format_id: str = "bf16") -> float:
    """KV bytes that one more token adds over all layers while the context is short (no window is full yet).

    A compressed entry is spread over the tokens that share it. Index keys and recurrent state are apart.
    """
    form, c = kv_format(kv_format_id), _columns(arch)
    ratio = np.where(c["compress_ratio"] > 0, c["compress_ratio"], np.inf)
    elements = c["kv_elements"] + c["compressed_elements"] / ratio
    vectors = c["kv_vectors"] + (c["compressed_elements"] > 0) / ratio
    return float(form.bytes(elements.sum(), vectors.sum()))


def indexer_bytes_per_token(arch: Architecture) -> float:
    """Bytes of index keys that one more token adds over all layers."""
    c = _columns(arch)
    ratio = np.where(c["compress_ratio"] > 0, c["compress_ratio"], 1.0)
    return float((_index_key_bytes(c) / ratio).sum())


def _index_key_bytes(c: dict[str, np.ndarray]) -> np.ndarray:
    return np.where(c["index_keys"] > 0, c["index_dim"] * INDEX_VALUE_BYTES + INDEX_SCALE_BYTES, 0.0)


def kv_bytes_held(arch: Architecture, kv_format_id: str, context_tokens: float) -> np.ndarray:
    """Bytes that one sequence of that length holds, per layer [float64, num_layers]: KV, compressed KV, index keys."""
    form, c = kv_format(kv_format_id), _columns(arch)
    context = float(context_tokens)
    raw = np.minimum(context, c["window"])
    ratio = np.where(c["compress_ratio"] > 0, c["compress_ratio"], np.inf)
    entries = np.floor(context / ratio)
    return _kv_bytes(form, c, raw, entries) + _index_key_bytes(c) * _index_entries(c, context)


def kv_bytes_read(arch: Architecture, kv_format_id: str, context_tokens: float) -> np.ndarray:
    """Bytes read for one decode token of one sequence, per layer [float64, num_layers].

    A window or a sparse index caps the KV that is read; all index keys are read to choose.
    """
    form, c = kv_format(kv_format_id), _columns(arch)
    raw, entries = _attended(c, float(context_tokens))
    return _kv_bytes(form, c, raw, entries) + _index_key_bytes(c) * _index_entries(c, float(context_tokens))


def _kv_bytes(form: KvFormat, c: dict[str, np.ndarray], raw: np.ndarray, entries: np.ndarray) -> np.ndarray:
    elements = c["kv_elements"] * raw + c["compressed_elements"] * entries
    vectors = c["kv_vectors"] * raw + (c["compressed_elements"] > 0) * entries
    return (elements * form.bits + vectors * form.vector_scale_bits) / 8


def recurrent_state_bytes(arch: Architecture) -> np.ndarray:
    """Bytes of recurrent and convolution state that one sequence holds, per layer [float64, num_layers].

    Each is read and written once per step. The state is F32 (``mamba_ssm_dtype`` and the reference code), the
    convolution's last inputs are 16 bit.
    """
    c = _columns(arch)
    return c["state_elements"] * c["state_bytes"] + c["conv_elements"] * CONV_BYTES


def kv_replicated(arch: Architecture) -> bool:
    """True when every tensor-parallel rank reads all of the KV (one latent or one KV head in every cached layer)."""
    cached = [layer.mixer for layer in arch.layers if layer.mixer.kv_elements]
    return bool(cached) and all(mixer.kv_heads == 1 for mixer in cached)
