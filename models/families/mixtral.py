"""Mixtral, OLMoE and Phi-3.5-MoE: every layer is attention plus MoE."""

from __future__ import annotations

from models import blocks
from models.blueprint import Blueprint, basics, heads, layer
from models.fields import Fields


def _window(f: Fields, context: int | None) -> int | None:
    """A sliding window of all layers; one as long as the context is none."""
    window = f.optional_whole("sliding_window", high=10**9)
    return None if window is None or (context is not None and window >= context) else window


def mixtral(f: Fields) -> Blueprint:
    """Mixtral (arXiv 2401.04088)."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    width = f.whole("intermediate_size")
    experts = f.experts("num_local_experts", "num_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    f.expect("attention_bias", False, why="a bias in Mixtral attention")
    window = _window(f, context)
    layers = [
        layer(
            i,
            blocks.gqa(hidden, nh, nk, hd, window=window),
            blocks.router(hidden, experts),
            blocks.mlp("routed", hidden, width, experts),
            blocks.norms(hidden),
            experts=experts,
            top_k=k,
        )
        for i in range(count)
    ]
    return Blueprint(
        "Mixtral", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def olmoe(f: Fields) -> Blueprint:
    """OLMoE (arXiv 2409.02060): QK norm over the full width."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    width = f.whole("intermediate_size")
    experts = f.experts("num_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    bias = f.flag("attention_bias", False)
    layers = [
        layer(
            i,
            blocks.gqa(hidden, nh, nk, hd, qkv_bias=bias, out_bias=bias, qk_norm="full"),
            blocks.router(hidden, experts),
            blocks.mlp("routed", hidden, width, experts),
            blocks.norms(hidden),
            experts=experts,
            top_k=k,
        )
        for i in range(count)
    ]
    return Blueprint(
        "OLMoE", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def phimoe(f: Fields) -> Blueprint:
    """Phi-3.5-MoE: attention biases, LayerNorm with bias, LM head with bias."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    width = f.whole("intermediate_size")
    experts = f.experts("num_local_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    bias = f.flag("attention_bias", False)
    head_bias = f.flag("lm_head_bias", False)
    f.ignore("input_jitter_noise")
    window = _window(f, context)
    layers = [
        layer(
            i,
            blocks.gqa(hidden, nh, nk, hd, window=window, qkv_bias=bias, out_bias=bias),
            blocks.router(hidden, experts),
            blocks.mlp("routed", hidden, width, experts),
            blocks.norms(hidden, bias=True),
            experts=experts,
            top_k=k,
        )
        for i in range(count)
    ]
    extra = blocks.tables(vocab, hidden, tied, head_bias, norm_bias=True)
    return Blueprint("Phi-3.5-MoE", hidden, vocab, layers, extra, tied, max_context_tokens=context)
