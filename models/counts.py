"""Parameter counts by component, and the work of each layer as arrays for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from models.architecture import KINDS, Architecture

COMPONENTS = (
    *("embed", "lm_head", "attn", "attn_full", "attn_linear", "attn_kda", "attn_mla", "mamba", "compressor", "indexer"),
    *("hyper_conn", "dense_mlp", "residual_mlp", "latent_proj", "router", "router_bias", "routed", "shared", "norms"),
    *("mtp", "mtp_dup_tables", "hash_tables_int"),
)
"""Names of components, in the order in which they are shown."""

OUTSIDE_MAIN = ("mtp", "mtp_dup_tables", "hash_tables_int")
"""Components of the checkpoint that are not parameters of the main model."""

_FFN = {
    "dense_mlp": "dense",
    "residual_mlp": "dense",
    "latent_proj": "dense",
    "shared": "shared",
    "router": "router",
    "router_bias": "router",
    "routed": "routed",
}


@dataclass(frozen=True)
class Parameters:
    """Numbers of values. ``total``: the published checkpoint without vision towers and quantisation scales.

    ``main`` leaves out MTP blocks and integer tables; ``active`` is main less the routed experts that a token does not
    visit, input embedding included.
    """

    total: int
    main: int
    active: int
    by_component: dict[str, int]


@dataclass(frozen=True)
class LayerWork:
    """Parameters of the main model per layer: int64 arrays of length ``num_layers`` unless noted.

    ``mixer_parameters``: everything outside the feed-forward part, norms included. ``dense_parameters``: dense and
    residual MLP and latent projections. ``expert_parameters``: ONE routed expert, 0 where ``is_moe`` (bool) is false.
    ``kind``: position in :data:`models.architecture.KINDS`. ``lm_head_parameters``: the table that the LM head reads;
    with tied embeddings it is the input table, read once more.
    """

    is_moe: np.ndarray
    mixer_parameters: np.ndarray
    dense_parameters: np.ndarray
    shared_parameters: np.ndarray
    router_parameters: np.ndarray
    expert_parameters: np.ndarray
    experts: np.ndarray
    top_k: np.ndarray
    attention_heads: np.ndarray
    kv_heads: np.ndarray
    kind: np.ndarray
    embed_parameters: int
    lm_head_parameters: int
    mtp_parameters: int
    mtp_expert_parameters: int
    hidden_size: int
    tied_embeddings: bool


@lru_cache(maxsize=128)
def parameters(arch: Architecture) -> Parameters:
    """Exact counts, by plain addition over the tensors."""
    by_component: dict[str, int] = {}
    for _, tensor in arch.tensors():
        by_component[tensor.component] = by_component.get(tensor.component, 0) + tensor.parameters
    by_component = {name: by_component[name] for name in COMPONENTS if name in by_component}
    total = sum(by_component.values())
    main = total - sum(by_component.get(name, 0) for name in OUTSIDE_MAIN)
    idle = sum((layer.experts - layer.top_k) * layer.expert_parameters for layer in arch.layers if layer.is_moe)
    return Parameters(total, main, main - idle, by_component)


@lru_cache(maxsize=128)
def work(arch: Architecture) -> LayerWork:
    """Per-layer arrays of an architecture (read-only, cached)."""
    names = ("mixer", "dense", "shared", "router", "routed")
    rows = {name: np.zeros(arch.num_layers, dtype=np.int64) for name in names}
    for i, layer in enumerate(arch.layers):
        for tensor in layer.tensors:
            rows[_FFN.get(tensor.component, "mixer")][i] += tensor.parameters
    counts = parameters(arch).by_component

    def column(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    experts = column([layer.experts for layer in arch.layers])
    result = LayerWork(
        is_moe=experts > 0,
        mixer_parameters=rows["mixer"],
        dense_parameters=rows["dense"],
        shared_parameters=rows["shared"],
        router_parameters=rows["router"],
        expert_parameters=column([layer.expert_parameters for layer in arch.layers]),
        experts=experts,
        top_k=column([layer.top_k for layer in arch.layers]),
        attention_heads=column([layer.mixer.heads for layer in arch.layers]),
        kv_heads=column([layer.mixer.kv_heads for layer in arch.layers]),
        kind=column([KINDS.index(layer.mixer.kind) for layer in arch.layers]),
        embed_parameters=counts["embed"],
        lm_head_parameters=counts["embed"] if arch.tied_embeddings else counts["lm_head"],
        mtp_parameters=counts.get("mtp", 0),
        mtp_expert_parameters=arch.mtp_blocks[0].expert_parameters if arch.mtp_blocks else 0,
        hidden_size=arch.hidden_size,
        tied_embeddings=arch.tied_embeddings,
    )
    for value in vars(result).values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return result
