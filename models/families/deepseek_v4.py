"""DeepSeek-V4: shared-KV attention over a window and compressed entries, hyper-connections, hash-routed first layers.

Shapes follow the reference code in transformers (``models/deepseek_v4``).
"""

from __future__ import annotations

from models import blocks
from models.architecture import Layer, Mixer, Tensor
from models.blueprint import Blueprint, basics, layer
from models.fields import LIMITS, Fields

_F32 = 32
_SPARSE_RATIO = 4
_RATIOS = (0, 4, 128)


def deepseek_v4(f: Fields) -> Blueprint:
    """DeepSeek-V4-Flash and -Pro."""
    hidden, vocab, count, tied, context = basics(f)
    nh, dim = f.whole("num_attention_heads"), f.whole("head_dim")
    f.expect("num_key_value_heads", 1, why="all heads of DeepSeek-V4 share one key and value")
    f.expect("attention_bias", False, why="a bias in DeepSeek-V4 attention")
    f.ignore("scoring_func", "compress_rope_theta", "hc_sinkhorn_iters", "qk_rope_head_dim", "expert_dtype")
    f.expect("topk_method", "noaux_tc", why="another routing method")
    groups, rank = f.whole("o_groups"), f.whole("o_lora_rank")
    if nh * dim % groups:
        raise f.error(f"o_groups is {groups}, which does not divide num_attention_heads x head_dim = {nh * dim}.")
    q_rank = f.whole("q_lora_rank")
    index = (f.whole("index_n_heads"), f.whole("index_head_dim"), f.whole("index_topk", high=LIMITS["context"]))
    window = f.whole("sliding_window", high=10**9)
    streams = f.whole("hc_mult", high=64)
    experts = f.experts("n_routed_experts")
    k = f.top_k(experts, "num_experts_per_tok")
    shared = f.whole("n_shared_experts", low=0, high=LIMITS["experts"])
    width = f.whole("moe_intermediate_size")
    hashed = f.whole("num_hash_layers", default=0, low=0, high=count)
    mtp = f.whole("num_nextn_predict_layers", default=0, low=0, high=64)
    ratios = _ratios(f, count, mtp)

    def block(i: int, ratio: int, hash_routed: bool) -> Layer:
        return layer(
            i,
            _attention(hidden, nh, dim, q_rank, groups, rank, window, ratio, index),
            _hyper_connections(hidden, streams, 2),
            blocks.router(hidden, experts, correction_bias=not hash_routed),
            blocks.mlp("routed", hidden, width, experts),
            blocks.mlp("shared", hidden, width * shared) if shared else [],
            blocks.plain("norms", "norms", hidden, 1, 2, _F32),
            experts=experts,
            top_k=k,
            shared=shared,
        )

    extra = blocks.tables(vocab, hidden, tied)
    extra += _hyper_head(hidden, streams)
    if hashed:
        extra.append(blocks.plain("tid2eid", "hash_tables_int", vocab, k, hashed, 64))
    return Blueprint(
        "DeepSeek-V4",
        hidden,
        vocab,
        [block(i, ratios[i], i < hashed) for i in range(count)],
        extra,
        tied,
        [_mtp(block(count + i, ratios[count + i], False), hidden, streams) for i in range(mtp)],
        max_context_tokens=context,
    )


def _ratios(f: Fields, count: int, mtp: int) -> list[int]:
    """Compression ratio of each layer, MTP blocks last (0: window only)."""
    found = f.whole_list("compress_ratios", high=max(_RATIOS))
    if found is None:
        raise f.error("the key compress_ratios is missing, and nothing is assumed in its place.")
    wrong = next((ratio for ratio in found if ratio not in _RATIOS), None)
    if wrong is not None:
        raise f.error(f"compress_ratios holds {wrong}; {', '.join(map(str, _RATIOS))} are understood.")
    if len(found) == count:
        found = [*found, *[0] * mtp]
    if len(found) != count + mtp:
        raise f.error(f"compress_ratios has {len(found)} entries for {count} layers and {mtp} MTP blocks.")
    return found


def _attention(
    hidden: int,
    nh: int,
    dim: int,
    q_rank: int,
    groups: int,
    rank: int,
    window: int,
    ratio: int,
    index: tuple[int, int, int],
) -> tuple[Mixer, list[Tensor]]:
    """Shared-KV attention; ratio 4 has overlapping entries and a sparse index, ratio 128 plain ones."""
    tensors = [
        *blocks.linear("q_a_proj", "attn", q_rank, hidden),
        blocks.plain("q_a_norm", "attn", q_rank, bits=_F32),
        *blocks.linear("q_b_proj", "attn", nh * dim, q_rank),
        *blocks.linear("kv_proj", "attn", dim, hidden),
        blocks.plain("kv_norm", "attn", dim, bits=_F32),
        *blocks.linear("o_a_proj", "attn", groups * rank, nh * dim // groups),
        *blocks.linear("o_b_proj", "attn", hidden, groups * rank),
        blocks.plain("sinks", "attn", nh, bits=_F32),
    ]
    heads, index_dim, topk = index
    sparse = ratio == _SPARSE_RATIO
    if ratio:
        tensors += _compressor("compressor", hidden, dim, ratio, sparse)
    if sparse:
        tensors += _compressor("indexer", hidden, index_dim, ratio, True)
        tensors += blocks.linear("indexer.q_b_proj", "indexer", heads * index_dim, q_rank)
        tensors.append(blocks.plain("indexer.weights_proj", "indexer", heads, hidden))
    mixer = Mixer(
        kind="compressed" if ratio else "window",
        heads=nh,
        kv_heads=1,
        qk_dim=dim,
        v_dim=dim,
        kv_elements=dim,
        kv_vectors=1,
        window=window,
        compress_ratio=ratio,
        compressed_elements=dim if ratio else 0,
        index_heads=heads if sparse else 0,
        index_dim=index_dim if sparse else 0,
        index_topk=topk if sparse else 0,
        index_keys=sparse,
    )
    return mixer, tensors


def _compressor(component: str, hidden: int, dim: int, ratio: int, overlapping: bool) -> list[Tensor]:
    """kv and gate projections, position bias and norm; overlapping entries need two series."""
    wide = dim * (2 if overlapping else 1)
    return [
        blocks.plain(f"{component}.kv_proj", component, wide, hidden),
        blocks.plain(f"{component}.gate_proj", component, wide, hidden),
        blocks.plain(f"{component}.position_bias", component, ratio, wide, bits=_F32),
        blocks.plain(f"{component}.kv_norm", component, dim, bits=_F32),
    ]


def _hyper_connections(hidden: int, streams: int, sites: int) -> list[Tensor]:
    """Manifold-constrained hyper-connections: a projection of all streams to (2 + N) N weights at each site."""
    wide = (2 + streams) * streams
    return [
        blocks.plain("hc.fn", "hyper_conn", wide, streams * hidden, sites, _F32),
        blocks.plain("hc.base, hc.scale", "hyper_conn", wide + 3, 1, sites, _F32),
    ]


def _hyper_head(hidden: int, streams: int) -> list[Tensor]:
    return [
        blocks.plain("hc_head.fn", "hyper_conn", streams, streams * hidden, bits=_F32),
        blocks.plain("hc_head.base, hc_head.scale", "hyper_conn", streams + 1, bits=_F32),
    ]


def _mtp(block: Layer, hidden: int, streams: int) -> Layer:
    """An MTP block has a head of its own for the streams."""
    built = blocks.mtp_block(block, hidden)
    head = blocks.relabel(_hyper_head(hidden, streams), "mtp")
    return Layer(
        built.index,
        built.mixer,
        (*built.tensors, *head),
        built.experts,
        built.top_k,
        built.shared_experts,
        built.part,
    )
