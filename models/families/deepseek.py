"""DeepSeek-V2, V3 and V3.2, Kimi-K2, GLM-5, and DeepSeek's own inference format: latent attention."""

from __future__ import annotations

from models import blocks
from models.architecture import Layer, Mixer, NativeFormat, Tensor
from models.blueprint import Blueprint, basics, layer
from models.fields import LIMITS, Fields

_ROUTING = ("greedy", "group_limited_greedy", "noaux_tc")
_FP8_COMPONENTS = ("attn", "dense_mlp", "routed", "shared")


def _latent(f: Fields, hidden: int, nh: int) -> tuple[tuple[Mixer, list[Tensor]], int | None]:
    """The MLA of a layer and its query rank (None: full-rank queries)."""
    q_rank = f.optional_whole("q_lora_rank", low=0) or None
    built = blocks.mla(
        hidden,
        nh,
        q_rank,
        f.whole("kv_lora_rank"),
        f.whole("qk_nope_head_dim"),
        f.whole("qk_rope_head_dim"),
        f.whole("v_head_dim"),
    )
    return built, q_rank


def _moe_pattern(f: Fields, count: int) -> list[bool]:
    """Which layers are MoE: the first are dense; ``mlp_layer_types`` must say the same when given."""
    first = f.whole("first_k_dense_replace", low=0, high=LIMITS["layers"])
    freq = f.whole("moe_layer_freq", default=1, high=LIMITS["layers"])
    pattern = [i >= first and i % freq == 0 for i in range(count)]
    named = f.word_list("mlp_layer_types", ("dense", "sparse"), count)
    if named is not None and [word == "sparse" for word in named] != pattern:
        raise f.error("mlp_layer_types does not agree with first_k_dense_replace and moe_layer_freq.")
    return pattern


def _hugging_face(f: Fields, family: str) -> Blueprint:
    """The Hugging Face names shared by V2, V3, V3.2, Kimi-K2 and GLM-5."""
    hidden, vocab, count, tied, context = basics(f)
    nh = f.whole("num_attention_heads")
    f.expect("num_key_value_heads", nh, why="latent attention expands to one key per query head")
    f.expect("attention_bias", False, why="a bias in latent attention")
    f.expect("hidden_act", "silu", why="experts are gated with SiLU")
    built, q_rank = _latent(f, hidden, nh)
    f.expect("qk_head_dim", built[0].qk_dim, why="it must be qk_nope_head_dim + qk_rope_head_dim")
    f.word_list("layer_types", ("deepseek_sparse_attention",), count)
    f.ignore("head_dim", "indexer_rope_interleave", "index_share_for_mtp_iteration")
    f.ignore("scoring_func")
    # noaux_tc is the routing method with a correction bias per expert; only V2 routes without it
    usual = "greedy" if family == "DeepSeek-V2" else "noaux_tc"
    correction = f.text("topk_method", default=usual, accepted=_ROUTING) == "noaux_tc"
    experts = f.experts("n_routed_experts", "num_experts", "num_local_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    shared = f.whole("n_shared_experts", default=0, low=0, high=LIMITS["experts"])
    width = f.whole("moe_intermediate_size")
    dense_width = f.whole("intermediate_size")
    pattern = _moe_pattern(f, count)
    full_index = _index_pattern(f, count)
    index = None
    if f.has("index_n_heads"):
        index = (f.whole("index_n_heads"), f.whole("index_head_dim"), f.whole("index_topk", high=LIMITS["context"]))
        if q_rank is None:
            raise f.error("index_n_heads is given without q_lora_rank; the index needs the query latent.")

    def mixer(own: bool) -> tuple[Mixer, list[Tensor]]:
        if index is None or q_rank is None:
            return built
        return blocks.with_index(built, hidden, q_rank, *index, own)

    def moe_layer(i: int, own: bool) -> Layer:
        return layer(
            i,
            mixer(own),
            blocks.router(hidden, experts, correction),
            blocks.mlp("routed", hidden, width, experts),
            blocks.mlp("shared", hidden, width * shared) if shared else [],
            blocks.norms(hidden),
            experts=experts,
            top_k=k,
            shared=shared,
        )

    layers = [
        moe_layer(i, full_index[i])
        if pattern[i]
        else layer(i, mixer(full_index[i]), blocks.mlp("dense_mlp", hidden, dense_width), blocks.norms(hidden))
        for i in range(count)
    ]
    mtp = f.whole("num_nextn_predict_layers", default=0, low=0, high=64)
    return Blueprint(
        family,
        hidden,
        vocab,
        layers,
        blocks.tables(vocab, hidden, tied),
        tied,
        [blocks.mtp_block(moe_layer(count + i, True), hidden) for i in range(mtp)],
        max_context_tokens=context,
    )


def _index_pattern(f: Fields, count: int) -> list[bool]:
    """Layers that hold an index of their own (GLM-5.2: the ``full`` ones); all of them when nothing is said."""
    f.expect("index_topk_pattern", why="a further pattern of the index")
    named = f.word_list("indexer_types", ("full", "shared"), count)
    if named is None:
        f.expect("index_topk_freq", 1, why="index layers are read from indexer_types")
        return [True] * count
    f.ignore("index_topk_freq", "index_skip_topk_offset")
    if named[0] != "full":
        raise f.error("indexer_types starts with 'shared', but there is no earlier index to share.")
    return [word == "full" for word in named]


def deepseek_v2(f: Fields) -> Blueprint:
    """DeepSeek-V2 and V2-Lite (arXiv 2405.04434)."""
    return _hugging_face(f, "DeepSeek-V2")


def deepseek_v3(f: Fields) -> Blueprint:
    """DeepSeek-V3, R1 (arXiv 2412.19437)."""
    return _hugging_face(f, "DeepSeek-V3")


def deepseek_v32(f: Fields) -> Blueprint:
    """DeepSeek-V3.2: V3 with the sparse index."""
    return _hugging_face(f, "DeepSeek-V3.2")


def kimi_k2(f: Fields) -> Blueprint:
    """Kimi-K2 (V3's architecture)."""
    return _hugging_face(f, "Kimi-K2")


def glm_moe_dsa(f: Fields) -> Blueprint:
    """GLM-5: latent attention with the sparse index."""
    return _hugging_face(f, "GLM-5")


def glm_moe_lite(f: Fields) -> Blueprint:
    """GLM-4.7-Flash: latent attention."""
    return _hugging_face(f, "GLM-4.7-Flash")


def inference_format(f: Fields) -> Blueprint:
    """The argument names of DeepSeek's own ``inference/model.py``; its converted checkpoint has no MTP block."""
    hidden = f.whole("dim")
    vocab = f.whole("vocab_size", high=LIMITS["vocab"])
    count = f.layers("n_layers")
    first = f.whole("n_dense_layers", low=0, high=LIMITS["layers"])
    nh = f.whole("n_heads")
    built, _ = _latent(f, hidden, nh)
    experts = f.experts("n_routed_experts")
    k = f.top_k(experts, "n_activated_experts")
    shared = f.whole("n_shared_experts", default=0, low=0, high=LIMITS["experts"])
    width, dense_width = f.whole("moe_inter_dim"), f.whole("inter_dim")
    correction = f.text("score_func", default="softmax", accepted=("softmax", "sigmoid")) == "sigmoid"
    dtype = f.text("dtype", default="bf16", accepted=("bf16", "fp8"))
    f.ignore("mscale", "scale_fmt", "rope_factor", "beta_fast", "beta_slow", "original_seq_len", "max_batch_size")
    context = f.optional_whole("max_seq_len", high=LIMITS["context"])
    layers = []
    for i in range(count):
        if i < first:
            layers.append(layer(i, built, blocks.mlp("dense_mlp", hidden, dense_width), blocks.norms(hidden)))
            continue
        layers.append(
            layer(
                i,
                built,
                blocks.router(hidden, experts, correction),
                blocks.mlp("routed", hidden, width, experts),
                blocks.mlp("shared", hidden, width * shared) if shared else [],
                blocks.norms(hidden),
                experts=experts,
                top_k=k,
                shared=shared,
            )
        )
    native = None
    if dtype == "fp8":
        native = NativeFormat(
            by_component=tuple((name, "fp8-block") for name in _FP8_COMPONENTS),
            source="dtype fp8 of the vendor's inference format",
        )
    return Blueprint(
        "DeepSeek inference format",
        hidden,
        vocab,
        layers,
        blocks.tables(vocab, hidden, False),
        max_context_tokens=context,
        native=native,
    )
