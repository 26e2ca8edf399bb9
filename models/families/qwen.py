"""Qwen1.5/2-MoE, Qwen3-MoE (and its vision sibling's text model), Qwen3-Next and Qwen3.5-MoE."""

from __future__ import annotations

from dataclasses import dataclass

from models import blocks, linear_mixers
from models.architecture import Layer, Mixer, Tensor
from models.blueprint import Blueprint, basics, heads, layer
from models.fields import LIMITS, Fields


@dataclass(frozen=True)
class _Moe:
    """The feed-forward part of a Qwen config."""

    hidden: int
    experts: int
    top_k: int
    width: int
    shared_width: int
    dense_width: int | None

    def tensors(self, sparse: bool) -> list[Tensor]:
        """Dense MLP, or router, experts and the gated shared expert."""
        if not sparse:
            return blocks.mlp("dense_mlp", self.hidden, self.dense_width or 0)
        tensors = blocks.router(self.hidden, self.experts) + blocks.mlp("routed", self.hidden, self.width, self.experts)
        if self.shared_width:
            tensors += blocks.mlp("shared", self.hidden, self.shared_width)
            tensors.append(blocks.plain("shared_expert_gate", "shared", 1, self.hidden))
        return tensors


def _moe(f: Fields, hidden: int, count: int, shared: bool) -> tuple[_Moe, list[bool]]:
    """Experts and which layers are MoE: every ``decoder_sparse_step``-th, less ``mlp_only_layers``."""
    experts = f.experts("num_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    width = f.whole("moe_intermediate_size")
    if shared:
        shared_width = f.whole("shared_expert_intermediate_size", low=0)
    else:
        f.expect("shared_expert_intermediate_size", 0, why="Qwen3-MoE has no shared expert")
        shared_width = 0
    step = f.whole("decoder_sparse_step", default=1, high=LIMITS["layers"])
    only = f.whole_list("mlp_only_layers", high=count - 1) or []
    pattern = [(i + 1) % step == 0 and i not in only for i in range(count)]
    dense_width = f.whole("intermediate_size") if not all(pattern) else f.optional_whole("intermediate_size")
    return _Moe(hidden, experts, k, width, shared_width, dense_width), pattern


def _windows(f: Fields, count: int) -> list[int | None]:
    """Sliding window of each layer: those from ``max_window_layers`` on, when ``use_sliding_window`` is true."""
    window = f.optional_whole("sliding_window", high=10**9)
    start = f.whole("max_window_layers", default=count, low=0, high=10 * LIMITS["layers"])
    if not f.flag("use_sliding_window", False):
        return [None] * count
    if window is None:
        raise f.error("use_sliding_window is true but sliding_window is missing.")
    return [window if i >= start else None for i in range(count)]


def _finish(f: Fields, i: int, built: tuple[Mixer, list[Tensor]], moe: _Moe, sparse: bool) -> Layer:
    return layer(
        i,
        built,
        moe.tensors(sparse),
        blocks.norms(moe.hidden),
        experts=moe.experts if sparse else 0,
        top_k=moe.top_k if sparse else 0,
        shared=1 if sparse and moe.shared_width else 0,
    )


def qwen2_moe(f: Fields) -> Blueprint:
    """Qwen1.5-MoE and Qwen2-57B: QKV bias, one gated shared expert."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    bias = f.flag("qkv_bias", True)
    moe, pattern = _moe(f, hidden, count, shared=True)
    windows = _windows(f, count)
    layers = [
        _finish(f, i, blocks.gqa(hidden, nh, nk, hd, window=windows[i], qkv_bias=bias), moe, pattern[i])
        for i in range(count)
    ]
    return Blueprint(
        "Qwen2-MoE", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def qwen3_moe(f: Fields) -> Blueprint:
    """Qwen3-MoE: QK norm per head, no shared expert."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    bias = f.flag("attention_bias", False)
    f.expect("qkv_bias", False, why="Qwen3 attention has no separate QKV bias")
    f.expect("use_qk_norm", True, why="Qwen3 attention always normalises queries and keys")
    moe, pattern = _moe(f, hidden, count, shared=False)
    windows = _windows(f, count)
    layers = [
        _finish(
            f,
            i,
            blocks.gqa(hidden, nh, nk, hd, window=windows[i], qkv_bias=bias, out_bias=bias, qk_norm="head"),
            moe,
            pattern[i],
        )
        for i in range(count)
    ]
    return Blueprint(
        "Qwen3-MoE", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def _hybrid(f: Fields, family: str) -> Blueprint:
    """Gated DeltaNet in three of four layers, gated attention in the fourth."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    bias = f.flag("attention_bias", False)
    f.expect("attn_output_gate", True, why="attention of this family is gated")
    f.expect("use_sliding_window", False, why="a window in a hybrid model")
    f.expect("mamba_ssm_dtype", "float32", why="another type of the recurrent state")
    f.expect("mtp_use_dedicated_embeddings", False, why="MTP blocks with embeddings of their own")
    moe, pattern = _moe(f, hidden, count, shared=True)
    named = f.word_list("layer_types", ("linear_attention", "full_attention"), count)
    interval = f.optional_whole("full_attention_interval", high=LIMITS["layers"])
    if named is None:
        every = interval or 4
        named = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(count)]
    attention = blocks.gqa(
        hidden, nh, nk, hd, component="attn_full", qkv_bias=bias, out_bias=bias, qk_norm="head", gated=True
    )
    delta = linear_mixers.delta_net(
        hidden,
        f.whole("linear_num_key_heads"),
        f.whole("linear_num_value_heads"),
        f.whole("linear_key_head_dim"),
        f.whole("linear_value_head_dim"),
        f.whole("linear_conv_kernel_dim"),
    )
    layers = [
        _finish(f, i, attention if named[i] == "full_attention" else delta, moe, pattern[i]) for i in range(count)
    ]
    block = blocks.mtp_block(_finish(f, count, attention, moe, True), hidden)
    declared = f.whole("mtp_num_hidden_layers", default=0, low=0, high=64)
    return Blueprint(
        family,
        hidden,
        vocab,
        layers,
        blocks.tables(vocab, hidden, tied),
        tied,
        [block] * declared,
        mtp_template=block,
        max_context_tokens=context,
    )


def qwen3_next(f: Fields) -> Blueprint:
    """Qwen3-Next."""
    return _hybrid(f, "Qwen3-Next")


def qwen3_5_moe(f: Fields) -> Blueprint:
    """The text model of Qwen3.5-MoE."""
    return _hybrid(f, "Qwen3.5-MoE")
