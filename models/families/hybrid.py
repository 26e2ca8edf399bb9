"""Models that mix attention with Mamba or linear attention: Jamba, Nemotron-H, MiniMax-M1."""

from __future__ import annotations

from models import blocks, linear_mixers
from models.architecture import Layer, Mixer, Tensor
from models.blueprint import Blueprint, basics, heads, layer
from models.fields import LIMITS, Fields

_NEMOTRON_LETTERS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
_NEMOTRON_WORDS = {
    "mamba": "mamba",
    "linear_attention": "mamba",
    "attention": "attention",
    "full_attention": "attention",
    "moe": "moe",
    "mlp": "mlp",
}


def jamba(f: Fields) -> Blueprint:
    """Jamba (arXiv 2403.19887): attention every ``attn_layer_period``, MoE every ``expert_layer_period``."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    width = f.whole("intermediate_size")
    experts = f.experts("num_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    f.expect("sliding_window", why="a window in Jamba attention")
    auto = f.config.get("mamba_dt_rank", "auto") in ("auto", None)
    if auto:
        f.ignore("mamba_dt_rank")
    rank = -(-hidden // 16) if auto else f.whole("mamba_dt_rank")
    mamba = linear_mixers.mamba1(
        hidden,
        f.whole("mamba_expand", high=64),
        f.whole("mamba_d_state"),
        f.whole("mamba_d_conv", high=1024),
        rank,
        f.flag("mamba_conv_bias", True),
        f.flag("mamba_proj_bias", False),
    )
    f.ignore("use_mambapy", "use_associative_scan", "mamba_inner_layernorms")
    attention = blocks.gqa(hidden, nh, nk, hd, component="attn_full")
    attn_at = _every(f, "attn_layer_period", "attn_layer_offset", count)
    moe_at = _every(f, "expert_layer_period", "expert_layer_offset", count)
    layers = [
        layer(
            i,
            attention if attn_at[i] else mamba,
            [*blocks.router(hidden, experts), *blocks.mlp("routed", hidden, width, experts)]
            if moe_at[i]
            else blocks.mlp("dense_mlp", hidden, width),
            blocks.norms(hidden),
            experts=experts if moe_at[i] else 0,
            top_k=k if moe_at[i] else 0,
        )
        for i in range(count)
    ]
    return Blueprint(
        "Jamba", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, max_context_tokens=context
    )


def _every(f: Fields, period_key: str, offset_key: str, count: int) -> list[bool]:
    period = f.whole(period_key, high=LIMITS["layers"])
    offset = f.whole(offset_key, low=0, high=period - 1)
    return [i % period == offset for i in range(count)]


def _nemotron_pattern(f: Fields, letters_key: str, words_key: str) -> list[str] | None:
    """Kinds of blocks, by letters (M, E, *, -) or by words."""
    found = f.word_list(words_key, tuple(_NEMOTRON_WORDS))
    words = None if found is None else [_NEMOTRON_WORDS[word] for word in found]
    if f.has(letters_key):
        letters = f.text(letters_key)
        wrong = next((c for c in letters if c not in _NEMOTRON_LETTERS), None)
        if wrong is not None:
            raise f.error(f"{letters_key} holds {wrong!r}; the letters M, E, * and - are understood.")
        spelled = [_NEMOTRON_LETTERS[c] for c in letters]
        if words is not None and words != spelled:
            raise f.error(f"{letters_key} and {words_key} do not agree.")
        words = spelled
    if words is not None and not 1 <= len(words) <= LIMITS["layers"]:
        raise f.error(f"the pattern has {len(words)} blocks; 1 to {LIMITS['layers']:,} are accepted.")
    return words


def nemotron_h(f: Fields) -> Blueprint:
    """Nemotron-H MoE: every block is one of Mamba-2, attention, MoE or MLP, with one norm; ReLU^2 MLPs without gate."""
    found = _nemotron_pattern(f, "hybrid_override_pattern", "layers_block_type")
    if found is None:
        raise f.error("neither hybrid_override_pattern nor layers_block_type says what each block is.")
    if "moe" not in found:
        raise f.error("no block of this Nemotron-H routes to experts, so this is a dense model.")
    hidden, vocab, count, tied, context = basics(f, layers=len(found))
    pattern = found
    if len(pattern) != count:
        raise f.error(f"the pattern has {len(pattern)} blocks, but num_hidden_layers is {count}.")
    nh, nk, hd = heads(f, hidden)
    for key in ("attention_bias", "mlp_bias", "use_bias"):
        f.expect(key, False, why="biases in Nemotron-H blocks")
    f.expect("mamba_ssm_cache_dtype", "float32", why="another type of the recurrent state")
    f.expect("sliding_window", why="a window in Nemotron-H attention")
    f.expect("mlp_hidden_act", "relu2", why="MLPs with a gate")
    f.ignore(
        "expand", "time_step_limit", "time_step_floor", "time_step_min", "time_step_max", "moe_shared_expert_overlap"
    )
    mamba = linear_mixers.mamba2(
        hidden,
        f.whole("mamba_num_heads"),
        f.whole("mamba_head_dim"),
        f.whole("n_groups"),
        f.whole("ssm_state_size"),
        f.whole("conv_kernel", high=1024),
        f.flag("use_conv_bias", True),
        f.flag("mamba_proj_bias", False),
    )
    attention = blocks.gqa(hidden, nh, nk, hd, component="attn_full")
    experts = f.experts("n_routed_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    shared = f.whole("n_shared_experts", default=0, low=0, high=1)
    ffn = _nemotron_moe(f, hidden, experts, shared)
    dense = f.whole("intermediate_size") if "mlp" in pattern else f.optional_whole("intermediate_size")
    nothing: tuple[Mixer, list[Tensor]] = (Mixer("none"), [])

    def block(i: int, kind: str) -> Layer:
        norm = blocks.norms(hidden, 1)
        if kind == "moe":
            return layer(i, nothing, ffn, norm, experts=experts, top_k=k, shared=shared)
        if kind == "mlp":
            return layer(i, nothing, blocks.mlp("dense_mlp", hidden, dense or 0, gated=False), norm)
        return layer(i, mamba if kind == "mamba" else attention, norm)

    layers = [block(i, kind) for i, kind in enumerate(pattern)]
    mtp = _nemotron_mtp(f, [block(count, kind) for kind in _mtp_kinds(f)], hidden, count)
    return Blueprint(
        "Nemotron-H", hidden, vocab, layers, blocks.tables(vocab, hidden, tied), tied, mtp, max_context_tokens=context
    )


def _nemotron_moe(f: Fields, hidden: int, experts: int, shared: int) -> list[Tensor]:
    width = f.whole("moe_intermediate_size")
    latent = f.optional_whole("moe_latent_size")
    # the published total of Nano-30B-A3B, 31,577,937,344, holds no correction bias of the router
    tensors = blocks.router(hidden, experts)
    tensors += blocks.mlp("routed", latent or hidden, width, experts, gated=False)
    if latent:
        tensors += blocks.linear("fc1_latent_proj", "latent_proj", latent, hidden)
        tensors += blocks.linear("fc2_latent_proj", "latent_proj", hidden, latent)
    if shared:
        tensors += blocks.mlp("shared", hidden, f.whole("moe_shared_expert_intermediate_size"), gated=False)
    else:
        f.ignore("moe_shared_expert_intermediate_size")
    return tensors


def _mtp_kinds(f: Fields) -> list[str]:
    kinds = _nemotron_pattern(f, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    return ["attention", "moe"] if kinds is None else kinds


def _nemotron_mtp(f: Fields, parts: list[Layer], hidden: int, count: int) -> list[Layer]:
    """One MTP step is the blocks of the MTP pattern in a row, joined to the main model as in DeepSeek-V3."""
    declared = f.whole("num_nextn_predict_layers", default=0, low=0, high=64)
    if not declared or not parts:
        return []
    moe = next((part for part in parts if part.is_moe), parts[0])
    mixer = next((part.mixer for part in parts if part.mixer.kind != "none"), moe.mixer)
    joined = Layer(
        count,
        mixer,
        tuple(tensor for part in parts for tensor in part.tensors),
        moe.experts,
        moe.top_k,
        moe.shared_experts,
    )
    return [blocks.mtp_block(joined, hidden)] * declared


def minimax_m1(f: Fields) -> Blueprint:
    """MiniMax-M1 (arXiv 2506.13585): lightning attention in seven of eight layers."""
    hidden, vocab, count, tied, context = basics(f)
    nh, nk, hd = heads(f, hidden)
    width = f.whole("intermediate_size")
    experts = f.experts("num_local_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    f.expect("shared_intermediate_size", 0, why="shared experts in MiniMax-M1")
    f.expect("sliding_window", why="a window in MiniMax-M1 attention")
    f.ignore("shared_moe_mode", "postnorm")
    kinds = f.whole_list("attn_type_list", high=1)
    if kinds is None or len(kinds) != count:
        raise f.error(f"attn_type_list must say 0 (lightning) or 1 (softmax) for each of {count} layers.")
    full = blocks.gqa(hidden, nh, nk, hd, component="attn_full")
    linear = linear_mixers.lightning(hidden, nh, hd)
    layers = [
        layer(
            i,
            full if kinds[i] else linear,
            blocks.router(hidden, experts),
            blocks.mlp("routed", hidden, width, experts),
            blocks.norms(hidden),
            experts=experts,
            top_k=k,
        )
        for i in range(count)
    ]
    extra = blocks.tables(vocab, hidden, tied)
    return Blueprint("MiniMax-M1", hidden, vocab, layers, extra, tied, max_context_tokens=context)
