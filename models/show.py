"""The answer of ``planner show``: a model's counts, bytes and cache figures as plain JSON."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from models.architecture import Architecture
from models.cache import indexer_bytes_per_token, kv_bytes_per_token, recurrent_state_bytes
from models.counts import parameters
from models.sizes import checkpoint_bytes, component_bytes, expert_bytes


def _whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def _runs(arch: Architecture) -> list[dict[str, Any]]:
    """Runs of equal layers, first to last."""
    rows = [(layer.part, layer.mixer.kind, layer.mixer.window, layer.ffn) for layer in arch.layers]
    runs: list[dict[str, Any]] = []
    start = 0
    for (part, mixer, window, ffn), group in groupby(rows):
        count = len(list(group))
        runs.append(
            {"first": start, "last": start + count - 1, "part": part, "mixer": mixer, "window": window, "ffn": ffn}
        )
        start += count
    return runs


def show(arch: Architecture) -> dict[str, Any]:
    """Everything that is counted from an architecture; keys and units as documented in ``docs/models.md``."""
    counts = parameters(arch)
    return {
        "id": arch.id,
        "name": arch.name,
        "family": arch.family,
        "model_type": arch.model_type,
        "plannable": arch.plannable,
        "why_not": arch.why_not,
        "parameters": {
            "total": counts.total,
            "main": counts.main,
            "active": counts.active,
            "by_component": dict(counts.by_component),
        },
        "bytes": {key: _whole(value) for key, value in checkpoint_bytes(arch).items()},
        "native_bytes_by_component": {key: _whole(v) for key, v in component_bytes(arch, "native").items()},
        "native_format": {
            "base": arch.native.base,
            "by_component": dict(arch.native.by_component),
            "exceptions": [
                {
                    "component": rule.component,
                    "layers": None if rule.layers is None else sorted(rule.layers),
                    "tensors": list(rule.names),
                    "format": rule.format,
                }
                for rule in arch.native.rules
            ],
            "mtp": arch.native.mtp,
            "source": arch.native.source,
        },
        "kv_bytes_per_token": _whole(kv_bytes_per_token(arch, "bf16")),
        "indexer_bytes_per_token": _whole(indexer_bytes_per_token(arch)),
        "recurrent_state_bytes_per_sequence": _whole(float(recurrent_state_bytes(arch).sum())),
        "layers": {
            "total": arch.num_layers,
            "moe": len(arch.moe_layers),
            "experts": arch.experts,
            "top_k": arch.top_k,
            "shared_experts": arch.shared_experts,
            "expert_parameters": arch.expert_parameters,
            "expert_bytes_native": _whole(expert_bytes(arch, "native")),
            "mtp": arch.mtp_layers,
            "runs": _runs(arch),
        },
        "hidden_size": arch.hidden_size,
        "vocab_size": arch.vocab_size,
        "tied_embeddings": arch.tied_embeddings,
        "max_context_tokens": arch.max_context_tokens,
        "notes": list(arch.notes),
        "source": arch.provenance,
    }
