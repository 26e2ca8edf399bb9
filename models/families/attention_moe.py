"""Grouped-query MoE of single vendors: GLM-4.5, gpt-oss, Llama 4, MiniMax-M2, ERNIE 4.5, Arctic, DBRX, Grok-1."""

from __future__ import annotations

from models import blocks
from models.architecture import Layer, Mixer, Tensor
from models.blueprint import Blueprint, basics, heads, layer
from models.fields import LIMITS, Fields


def glm4_moe(f: Fields) -> Blueprint:
    """GLM-4.5, 4.6, 4.7: GQA with optional QK norm, shared experts, first layers dense."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    bias = f.flag("attention_bias", False)
    norm = "head" if f.flag("use_qk_norm", False) else None
    built = blocks.gqa(hidden, nh, nk, hd, qkv_bias=bias, qk_norm=norm)
    experts = f.experts("n_routed_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    shared = f.whole("n_shared_experts", default=0, low=0, high=LIMITS["experts"])
    width = f.whole("moe_intermediate_size")
    dense = f.whole("intermediate_size")
    first = f.whole("first_k_dense_replace", low=0, high=LIMITS["layers"])

    def moe(i: int) -> Layer:
        return layer(
            i,
            built,
            blocks.router(hidden, experts, correction_bias=True),
            blocks.mlp("routed", hidden, width, experts),
            blocks.mlp("shared", hidden, width * shared) if shared else [],
            blocks.norms(hidden),
            experts=experts,
            top_k=k,
            shared=shared,
        )

    layers = [
        moe(i) if i >= first else layer(i, built, blocks.mlp("dense_mlp", hidden, dense), blocks.norms(hidden))
        for i in range(count)
    ]
    mtp = f.whole("num_nextn_predict_layers", "num_mtp_layers", default=0, low=0, high=64)
    return Blueprint(
        "GLM-4.5",
        hidden,
        vocab,
        layers,
        blocks.tables(vocab, hidden, tied),
        tied,
        [blocks.mtp_block(moe(count + i), hidden) for i in range(mtp)],
        max_context_tokens=context,
    )


def gpt_oss(f: Fields) -> Blueprint:
    """gpt-oss (arXiv 2508.10925): sinks, biases everywhere, every second layer windowed."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    bias = f.flag("attention_bias", True)
    width = f.whole("intermediate_size")
    experts = f.experts("num_local_experts")
    k = f.top_k(experts, "num_experts_per_tok", "experts_per_token")
    window = f.whole("sliding_window", high=10**9)
    f.ignore("swiglu_alpha")
    kinds = f.word_list("layer_types", ("sliding_attention", "full_attention"), count)
    if kinds is None:
        raise f.error("the key layer_types is missing, so it is not known which layers are windowed.")
    layers = [
        layer(
            i,
            blocks.gqa(
                hidden,
                nh,
                nk,
                hd,
                window=window if kinds[i] == "sliding_attention" else None,
                qkv_bias=bias,
                out_bias=bias,
                sinks=True,
            ),
            blocks.router(hidden, experts, bias=True),
            blocks.mlp("routed", hidden, width, experts, bias=True),
            blocks.norms(hidden),
            experts=experts,
            top_k=k,
        )
        for i in range(count)
    ]
    return Blueprint(
        "gpt-oss", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def llama4(f: Fields) -> Blueprint:
    """Llama 4: a shared expert, MoE every ``interleave_moe_layer_step``, chunked attention in three of four layers."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    bias = f.flag("attention_bias", False)
    width, dense = f.whole("intermediate_size"), f.whole("intermediate_size_mlp")
    experts = f.experts("num_local_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    # queries and keys are normalised without weights, so the flag counts nothing
    f.ignore("use_qk_norm", "attn_temperature_tuning", "floor_scale", "attn_scale")
    step = f.whole("interleave_moe_layer_step", high=LIMITS["layers"])
    named = f.whole_list("moe_layers", high=count - 1)
    moe_at = set(range(step - 1, count, step)) if named is None else set(named)
    chunk = f.optional_whole("attention_chunk_size", high=10**9)
    interval = f.whole("no_rope_layer_interval", default=4, high=LIMITS["layers"])
    rope = f.whole_list("no_rope_layers", high=1) or [int((i + 1) % interval != 0) for i in range(count)]
    kinds = f.word_list("layer_types", ("chunked_attention", "full_attention"), count)
    if kinds is None:
        if len(rope) != count:
            raise f.error(f"no_rope_layers has {len(rope)} entries for {count} layers.")
        kinds = ["chunked_attention" if flag and chunk is not None else "full_attention" for flag in rope]
    layers = []
    for i in range(count):
        chunked = kinds[i] == "chunked_attention" and chunk is not None
        built = blocks.gqa(
            hidden, nh, nk, hd, window=chunk if chunked else None, chunked=chunked, qkv_bias=bias, out_bias=bias
        )
        if i in moe_at:
            ffn = blocks.router(hidden, experts) + blocks.mlp("routed", hidden, width, experts)
            ffn += blocks.mlp("shared", hidden, width)
            layers.append(layer(i, built, ffn, blocks.norms(hidden), experts=experts, top_k=k, shared=1))
        else:
            layers.append(layer(i, built, blocks.mlp("dense_mlp", hidden, dense), blocks.norms(hidden)))
    return Blueprint(
        "Llama 4", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def minimax_m2(f: Fields) -> Blueprint:
    """MiniMax-M2: full-width QK norm, router with correction bias."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    width = f.whole("intermediate_size")
    experts = f.experts("num_local_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    norm = "full" if f.flag("use_qk_norm", True) else None
    f.expect("qk_norm_type", "per_layer", why="another shape of the QK norm")
    f.expect("shared_intermediate_size", 0, why="shared experts in MiniMax-M2")
    f.ignore("scoring_func")
    correction = f.flag("use_routing_bias", True)
    kinds = f.whole_list("attn_type_list", low=1, high=1)
    if kinds is not None and len(kinds) != count:
        raise f.error(f"attn_type_list has {len(kinds)} entries for {count} layers.")
    built = blocks.gqa(hidden, nh, nk, hd, qk_norm=norm)

    def moe(i: int) -> Layer:
        return layer(
            i,
            built,
            blocks.router(hidden, experts, correction),
            blocks.mlp("routed", hidden, width, experts),
            blocks.norms(hidden),
            experts=experts,
            top_k=k,
        )

    modules = f.whole("num_mtp_modules", default=0, low=0, high=64)
    f.expect("mtp_transformer_layers", 1, why="MTP modules of several layers")
    if not f.flag("use_mtp", modules > 0):
        modules = 0
    return Blueprint(
        "MiniMax-M2",
        hidden,
        vocab,
        [moe(i) for i in range(count)],
        blocks.tables(vocab, hidden, tied),
        tied,
        [blocks.mtp_block(moe(count + i), hidden) for i in range(modules)],
        max_context_tokens=context,
    )


def ernie45(f: Fields) -> Blueprint:
    """ERNIE 4.5 MoE (text)."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    f.expect("use_bias", False, why="biases in ERNIE attention and MLPs")
    width, dense = f.whole("moe_intermediate_size"), f.whole("intermediate_size")
    experts = f.experts("moe_num_experts")
    k = f.top_k(experts, "moe_k")
    shared = f.whole("moe_num_shared_experts", low=0, high=LIMITS["experts"])
    start = f.whole("moe_layer_start_index", low=0, high=LIMITS["layers"])
    end = f.whole("moe_layer_end_index", default=-1, low=-1, high=LIMITS["layers"])
    every = f.whole("moe_layer_interval", default=1, high=LIMITS["layers"])
    f.ignore("moe_norm_min", "moe_capacity", "moe_gate", "moe_use_aux_free")
    last = count - 1 if end == -1 else end
    built = blocks.gqa(hidden, nh, nk, hd)
    layers = []
    for i in range(count):
        if start <= i <= last and (i + 1) % every == 0:
            ffn = blocks.router(hidden, experts, correction_bias=True) + blocks.mlp("routed", hidden, width, experts)
            if shared:
                ffn += blocks.mlp("shared", hidden, width * shared)
            layers.append(layer(i, built, ffn, blocks.norms(hidden), experts=experts, top_k=k, shared=shared))
        else:
            layers.append(layer(i, built, blocks.mlp("dense_mlp", hidden, dense), blocks.norms(hidden)))
    return Blueprint(
        "ERNIE 4.5", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def arctic(f: Fields) -> Blueprint:
    """Snowflake Arctic: a dense SwiGLU of width H beside the MoE of every layer."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    width = f.whole("intermediate_size")
    experts = f.experts("num_local_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    f.expect("moe_layer_frequency", 1, why="dense layers in Arctic")
    f.expect("parallel_attn_mlp_res", True, why="Arctic without its parallel residual MLP")
    f.expect("use_residual", True, why="Arctic without its residual MLP")
    f.expect("sliding_window", why="a window in Arctic attention")
    f.expect("attention_bias", False, why="a bias in Arctic attention")
    f.ignore("moe_eval_capacity_factor", "moe_min_capacity", "moe_token_dropping", "moe_train_capacity_factor")
    f.ignore("enable_expert_tensor_parallelism")
    layers = [
        layer(
            i,
            blocks.gqa(hidden, nh, nk, hd),
            blocks.router(hidden, experts),
            blocks.mlp("routed", hidden, width, experts),
            blocks.mlp("residual_mlp", hidden, hidden),
            blocks.norms(hidden, 3),
            experts=experts,
            top_k=k,
        )
        for i in range(count)
    ]
    return Blueprint(
        "Arctic", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def dbrx(f: Fields) -> Blueprint:
    """DBRX: attention and experts in nested configs."""
    hidden = f.whole("d_model", "hidden_size")
    vocab = f.whole("vocab_size", high=LIMITS["vocab"])
    count = f.layers("n_layers", "num_hidden_layers")
    tied = f.flag("tie_word_embeddings", False)
    context = f.optional_whole("max_seq_len", high=LIMITS["context"])
    nh = f.whole("n_heads", "num_attention_heads")
    attn, ffn = f.child("attn_config"), f.child("ffn_config")
    nk = attn.whole("kv_n_heads")
    if hidden % nh or nh % nk:
        raise f.error(f"d_model {hidden}, n_heads {nh} and attn_config.kv_n_heads {nk} do not divide one another.")
    width = ffn.whole("ffn_hidden_size")
    experts = ffn.experts("moe_num_experts")
    k = ffn.top_k(experts, "moe_top_k")
    ffn.ignore(
        "moe_jitter_eps", "moe_normalize_expert_weights", "uniform_expert_assignment", "ffn_act_fn", "model_type"
    )
    attn.ignore("model_type")
    attn.finish()
    ffn.finish()
    layers = [_plain_moe(i, blocks.gqa(hidden, nh, nk, hidden // nh), hidden, width, experts, k) for i in range(count)]
    return Blueprint(
        "DBRX", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def _plain_moe(
    i: int, built: tuple[Mixer, list[Tensor]], hidden: int, width: int, experts: int, k: int, norms: int = 2
) -> Layer:
    return layer(
        i,
        built,
        blocks.router(hidden, experts),
        blocks.mlp("routed", hidden, width, experts),
        blocks.norms(hidden, norms),
        experts=experts,
        top_k=k,
    )


def grok1(f: Fields) -> Blueprint:
    """Grok-1 in the names of its own ``run.py``: four norms a layer, tied embeddings."""
    hidden = f.whole("emb_size")
    vocab = f.whole("vocab_size", high=LIMITS["vocab"])
    count = f.layers("num_layers")
    nh, nk, hd = f.whole("num_q_heads"), f.whole("num_kv_heads"), f.whole("key_size")
    if nh % nk:
        raise f.error(f"num_q_heads is {nh} and num_kv_heads is {nk}; the first must be a multiple of the second.")
    # ffn_size() of grok-1's model.py: two thirds of the widened size, rounded up to a multiple of 8
    width = f.whole("widening_factor", high=1024) * hidden * 2 // 3
    width += -width % 8
    f.expect("ffn_hidden_size_derived", width, why="it must follow from emb_size and widening_factor")
    experts = f.experts("num_experts")
    k = f.top_k(experts, "num_selected_experts")
    context = f.optional_whole("sequence_len", high=LIMITS["context"])
    f.ignore("output_multiplier_scale", "embedding_multiplier_scale", "attn_output_multiplier")
    layers = [_plain_moe(i, blocks.gqa(hidden, nh, nk, hd), hidden, width, experts, k, norms=4) for i in range(count)]
    return Blueprint(
        "Grok-1", hidden, vocab, layers, blocks.tables(vocab, hidden, True), True, max_context_tokens=context
    )
