"""Encoder-decoder MoE models: Switch Transformers and NLLB-MoE. They can be counted and shown, not planned.

Encoder layers come first. The cache of decoder self-attention is counted; that of cross-attention belongs to the source
text and is not.
"""

from __future__ import annotations

from dataclasses import replace

from models import blocks
from models.architecture import Layer, Mixer, Tensor
from models.blueprint import Blueprint, layer
from models.fields import LIMITS, Fields


def _attention(hidden: int, nh: int, hd: int, bias: bool, part: str) -> tuple[Mixer, list[Tensor]]:
    """Self-attention, in a decoder with cross-attention of the same shape."""
    mixer, tensors = blocks.gqa(hidden, nh, nh, hd, qkv_bias=bias, out_bias=bias)
    if part == "encoder":
        return replace(mixer, kv_elements=0, kv_vectors=0), tensors
    return mixer, [*tensors, *blocks.gqa(hidden, nh, nh, hd, qkv_bias=bias, out_bias=bias)[1]]


def switch_transformers(f: Fields) -> Blueprint:
    """Switch Transformers (arXiv 2101.03961) on T5: top-1, experts without gate, relative position bias."""
    f.expect("is_encoder_decoder", True, why="Switch is an encoder-decoder")
    hidden, width, hd = f.whole("d_model"), f.whole("d_ff"), f.whole("d_kv")
    vocab, nh = f.whole("vocab_size", high=LIMITS["vocab"]), f.whole("num_heads")
    tied = f.flag("tie_word_embeddings", True)
    experts = f.experts("num_experts")
    k = f.top_k(experts, "num_selected_experts", default=1)
    f.expect("is_gated_act", False, why="gated experts")
    f.expect("feed_forward_proj", "relu", why="another feed-forward form")
    f.expect("router_bias", False, why="a bias in the router")
    f.ignore("expert_capacity", "batch_prioritized_routing", "add_router_probs", "relative_attention_max_distance")
    f.ignore("dropout_rate", "initializer_factor")
    buckets = f.whole("relative_attention_num_buckets")
    layers: list[Layer] = []
    for part, count_key, sparse_key, step_key in (
        ("encoder", "num_layers", "num_sparse_encoder_layers", "encoder_sparse_step"),
        ("decoder", "num_decoder_layers", "num_sparse_decoder_layers", "decoder_sparse_step"),
    ):
        count = f.layers(count_key)
        sparse = f.whole(sparse_key, low=0, high=count)
        step = count // sparse if sparse else 0
        f.expect(step_key, step, why=f"it must follow from {count_key} and {sparse_key}")
        for i in range(count):
            moe = step > 0 and (i % step == 1 or step == 1)
            built = _attention(hidden, nh, hd, False, part)
            position = [blocks.plain("relative_attention_bias", "attn", buckets, nh)] if i == 0 else []
            layers.append(_block(len(layers), built, position, hidden, width, experts, k, moe, False, part))
    extra = [*blocks.tables(vocab, hidden, tied), blocks.norms(hidden, 1)]
    return Blueprint("Switch Transformers", hidden, vocab, layers, extra, tied, encoder_decoder=True)


def nllb_moe(f: Fields) -> Blueprint:
    """NLLB-MoE (arXiv 2207.04672): top-2, biases everywhere."""
    f.expect("is_encoder_decoder", True, why="NLLB is an encoder-decoder")
    hidden, vocab = f.whole("d_model"), f.whole("vocab_size", high=LIMITS["vocab"])
    tied = f.flag("tie_word_embeddings", True)
    context = f.optional_whole("max_position_embeddings", high=LIMITS["context"])
    experts = f.experts("num_experts")
    k = f.top_k(experts, "num_experts_per_tok", default=2)
    f.expect("router_bias", False, why="a bias in the router")
    f.ignore("expert_capacity", "batch_prioritized_routing", "second_expert_policy", "router_type")
    f.ignore("moe_eval_capacity_token_fraction", "moe_token_dropout", "normalize_router_prob_before_dropping")
    f.ignore("decoder_layerdrop", "encoder_layerdrop", "scale_embedding", "dropout")
    f.expect("num_hidden_layers", f.config.get("encoder_layers"), why="it repeats encoder_layers")
    layers: list[Layer] = []
    for part in ("encoder", "decoder"):
        count = f.layers(f"{part}_layers")
        nh, width = f.whole(f"{part}_attention_heads"), f.whole(f"{part}_ffn_dim")
        step = f.whole(f"{part}_sparse_step", low=0, high=LIMITS["layers"])
        if hidden % nh:
            raise f.error(f"d_model is {hidden}, which {nh} {part}_attention_heads do not divide.")
        for i in range(count):
            moe = step > 0 and (i + 1) % step == 0
            built = _attention(hidden, nh, hidden // nh, True, part)
            layers.append(_block(len(layers), built, [], hidden, width, experts, k, moe, True, part))
    extra = [*blocks.tables(vocab, hidden, tied, norm_bias=True), blocks.norms(hidden, 1, bias=True)]
    return Blueprint("NLLB-MoE", hidden, vocab, layers, extra, tied, max_context_tokens=context, encoder_decoder=True)


def _block(
    index: int,
    built: tuple[Mixer, list[Tensor]],
    more: list[Tensor],
    hidden: int,
    width: int,
    experts: int,
    k: int,
    moe: bool,
    bias: bool,
    part: str,
) -> Layer:
    ffn = blocks.mlp("dense_mlp", hidden, width, gated=False, bias=bias)
    if moe:
        ffn = blocks.router(hidden, experts) + blocks.mlp("routed", hidden, width, experts, gated=False, bias=bias)
    norms = blocks.norms(hidden, 2 if part == "encoder" else 3, bias=bias)
    return layer(index, built, more, ffn, norms, experts=experts if moe else 0, top_k=k if moe else 0, part=part)
