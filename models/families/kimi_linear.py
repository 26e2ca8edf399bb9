"""Kimi-Linear and Kimi-K3: Kimi delta attention with latent attention in every fourth layer, latent experts."""

from __future__ import annotations

from models import blocks, linear_mixers
from models.architecture import Tensor
from models.blueprint import Blueprint, basics, layer
from models.fields import LIMITS, Fields


def kimi_linear(f: Fields) -> Blueprint:
    """Kimi-Linear (arXiv 2510.26692) and the text model of Kimi-K3."""
    hidden, vocab, count, tied, context = basics(f)
    nh = f.whole("num_attention_heads")
    f.expect("num_key_value_heads", nh, why="latent attention expands to one key per query head")
    f.expect("attention_bias", False, why="a bias in latent attention")
    f.ignore("mla_use_nope", "head_dim", "activation_situ_beta", "activation_situ_linear_beta")
    f.ignore("moe_renormalize", "moe_router_activation_func", "model_max_length")
    f.expect("topk_method", "noaux_tc", why="a router without correction bias")
    mla = blocks.mla(
        hidden,
        nh,
        f.optional_whole("q_lora_rank", low=0) or None,
        f.whole("kv_lora_rank"),
        f.whole("qk_nope_head_dim"),
        f.whole("qk_rope_head_dim"),
        f.whole("v_head_dim"),
        component="attn_mla",
        gated=f.flag("mla_use_output_gate", False),
    )
    linear = f.child("linear_attn_config")
    kda_heads, kda_dim = linear.whole("num_heads"), linear.whole("head_dim")
    kernel = linear.whole("short_conv_kernel_size", high=1024)
    full_rank = linear.flag("use_full_rank_gate", False)
    linear.ignore("gate_lower_bound")
    full = set(linear.whole_list("full_attn_layers", low=1, high=count) or [])
    delta = set(linear.whole_list("kda_layers", low=1, high=count) or [])
    linear.finish()
    if full & delta or full | delta != set(range(1, count + 1)):
        raise f.error(
            f"linear_attn_config must put each of the layers 1 to {count} in either full_attn_layers or kda_layers."
        )
    kda = linear_mixers.kimi_delta(hidden, kda_heads, kda_dim, kernel, full_rank)
    experts = f.experts("num_experts")
    k = f.top_k(experts, "num_experts_per_token", "num_experts_per_tok")
    shared = f.whole("num_shared_experts", default=0, low=0, high=LIMITS["experts"])
    first = f.whole("first_k_dense_replace", low=0, high=LIMITS["layers"])
    f.expect("moe_layer_freq", 1, why="dense layers between MoE layers")
    ffn = _moe(f, hidden, experts, shared)
    dense = f.whole("intermediate_size")
    norms = _norms(f, hidden)
    f.expect("num_nextn_predict_layers", 0, why="MTP blocks of this family")
    layers = [
        layer(
            i,
            mla if i + 1 in full else kda,
            blocks.mlp("dense_mlp", hidden, dense) if i < first else ffn,
            norms,
            experts=0 if i < first else experts,
            top_k=0 if i < first else k,
            shared=0 if i < first else shared,
        )
        for i in range(count)
    ]
    extra = blocks.tables(vocab, hidden, tied)
    if len(norms) > 1:
        extra.append(blocks.plain("output attention residual", "norms", hidden, 1, 2))
    return Blueprint("Kimi-Linear", hidden, vocab, layers, extra, tied, max_context_tokens=context)


def _moe(f: Fields, hidden: int, experts: int, shared: int) -> list[Tensor]:
    """Router, experts (in a latent space when ``routed_expert_hidden_size`` is given) and shared experts."""
    width = f.whole("moe_intermediate_size")
    latent = f.optional_whole("routed_expert_hidden_size")
    tensors = blocks.router(hidden, experts, correction_bias=True)
    tensors += blocks.mlp("routed", latent or hidden, width, experts)
    if latent:
        tensors += blocks.linear("latent_down_proj", "latent_proj", latent, hidden)
        tensors += blocks.linear("latent_up_proj", "latent_proj", hidden, latent)
    if f.flag("latent_moe_use_norm", False) and latent:
        tensors.append(blocks.plain("latent_norm", "latent_proj", latent))
    if shared:
        tensors += blocks.mlp("shared", hidden, width * shared)
    return tensors


def _norms(f: Fields, hidden: int) -> list[Tensor]:
    """Two norms a layer; attention residuals (``attn_res_block_size``) add a norm and a query to each sublayer."""
    norms = [blocks.norms(hidden)]
    if f.optional_whole("attn_res_block_size", high=LIMITS["layers"]):
        norms.append(blocks.plain("attention residuals", "norms", hidden, 1, 4))
    return norms
