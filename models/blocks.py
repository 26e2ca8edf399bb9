"""Building blocks of decoder layers: the tensors and the geometry of attention, MLPs and experts.

H hidden size, E experts, F expert width, nh/nk query and KV heads, hd head dimension. Each function
returns the mixer and its tensors, or only tensors. Shapes are (outputs, inputs), as in safetensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from models.architecture import Layer, Mixer, Tensor


def linear(name: str, component: str, out: int, inp: int, bias: bool = False, copies: int = 1) -> list[Tensor]:
    """A matrix that a weight format applies to, with its optional bias."""
    tensors = [Tensor(f"{name}.weight", component, out, inp, copies, quantised=True)]
    if bias:
        tensors.append(Tensor(f"{name}.bias", component, out, 1, copies))
    return tensors


def plain(name: str, component: str, rows: int, cols: int = 1, copies: int = 1, bits: int | None = None) -> Tensor:
    """A tensor that weight formats leave alone; ``bits`` when stored wider than the checkpoint's type."""
    return Tensor(name, component, rows, cols, copies, stored_bits=bits)


def mlp(
    component: str, hidden: int, width: int, copies: int = 1, gated: bool = True, bias: bool = False
) -> list[Tensor]:
    """SwiGLU MLP (3 H F) or plain two-matrix MLP (2 H F), ``copies`` times."""
    names = ("gate_proj", "up_proj") if gated else ("up_proj",)
    tensors: list[Tensor] = []
    for name in names:
        tensors += linear(name, component, width, hidden, bias, copies)
    return tensors + linear("down_proj", component, hidden, width, bias, copies)


def router(hidden: int, experts: int, correction_bias: bool = False, bias: bool = False) -> list[Tensor]:
    """Router E H; ``bias`` of the linear layer counts as router, the correction bias as router_bias (stored in F32)."""
    tensors = [plain("router.weight", "router", experts, hidden)]
    if bias:
        tensors.append(plain("router.bias", "router", experts))
    if correction_bias:
        tensors.append(plain("e_score_correction_bias", "router_bias", experts, bits=32))
    return tensors


def norms(hidden: int, count: int = 2, bias: bool = False) -> Tensor:
    """The layer norms of a block: ``count`` vectors of H (LayerNorm with bias: twice that)."""
    return plain("norms", "norms", hidden, 1, count * (2 if bias else 1))


def gqa(
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    component: str = "attn",
    window: int | None = None,
    chunked: bool = False,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: str | None = None,
    gated: bool = False,
    sinks: bool = False,
) -> tuple[Mixer, list[Tensor]]:
    """Grouped-query attention: H nh hd + 2 H nk hd + nh hd H.

    ``qk_norm`` is ``head`` (2 hd values) or ``full`` (nh hd + nk hd). ``gated`` doubles the query projection.
    """
    q_width, kv_width = heads * head_dim, kv_heads * head_dim
    tensors = [
        *linear("q_proj", component, q_width * (2 if gated else 1), hidden, qkv_bias),
        *linear("k_proj", component, kv_width, hidden, qkv_bias),
        *linear("v_proj", component, kv_width, hidden, qkv_bias),
        *linear("o_proj", component, hidden, q_width, out_bias),
    ]
    if qk_norm == "head":
        tensors.append(plain("qk_norm", component, head_dim, 1, 2))
    elif qk_norm == "full":
        tensors += [plain("q_norm", component, q_width), plain("k_norm", component, kv_width)]
    if sinks:
        tensors.append(plain("sinks", component, heads))
    mixer = Mixer(
        kind="full" if window is None else "window",
        heads=heads,
        kv_heads=kv_heads,
        qk_dim=head_dim,
        v_dim=head_dim,
        kv_elements=2 * kv_width,
        kv_vectors=2 * kv_heads,
        window=window,
        chunked=chunked,
    )
    return mixer, tensors


def mla(
    hidden: int,
    heads: int,
    q_rank: int | None,
    kv_rank: int,
    nope_dim: int,
    rope_dim: int,
    v_dim: int,
    *,
    component: str = "attn",
    gated: bool = False,
) -> tuple[Mixer, list[Tensor]]:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).

    The cache holds the latent and the shared rotary key: kv_rank + rope_dim values per token.
    """
    qk_dim = nope_dim + rope_dim
    if q_rank:
        tensors = [
            *linear("q_a_proj", component, q_rank, hidden),
            plain("q_a_layernorm", component, q_rank),
            *linear("q_b_proj", component, heads * qk_dim, q_rank),
        ]
    else:
        tensors = linear("q_proj", component, heads * qk_dim, hidden)
    tensors += [
        *linear("kv_a_proj_with_mqa", component, kv_rank + rope_dim, hidden),
        plain("kv_a_layernorm", component, kv_rank),
        *linear("kv_b_proj", component, heads * (nope_dim + v_dim), kv_rank),
        *linear("o_proj", component, hidden, heads * v_dim),
    ]
    if gated:
        tensors += linear("g_proj", component, heads * v_dim, hidden)
    mixer = Mixer(
        kind="mla",
        heads=heads,
        kv_heads=1,
        qk_dim=qk_dim,
        v_dim=v_dim,
        kv_elements=kv_rank + rope_dim,
        kv_vectors=1,
        latent_dim=kv_rank,
        rope_dim=rope_dim,
    )
    return mixer, tensors


def with_index(
    built: tuple[Mixer, list[Tensor]], hidden: int, q_rank: int, heads: int, dim: int, topk: int, own: bool
) -> tuple[Mixer, list[Tensor]]:
    """Add the sparse index of DeepSeek-V3.2: ql ni hi + H hi + 2 hi + H ni, in layers with keys of their ``own``.

    Layers without keys of their own follow the choice of an earlier layer.
    """
    mixer, tensors = built
    mixer = replace(mixer, index_topk=topk)
    if not own:
        return mixer, tensors
    added = [
        *linear("indexer.wq_b", "indexer", heads * dim, q_rank),
        *linear("indexer.wk", "indexer", dim, hidden),
        plain("indexer.k_norm", "indexer", dim, 1, 2),
        plain("indexer.weights_proj", "indexer", heads, hidden),
    ]
    return replace(mixer, index_heads=heads, index_dim=dim, index_keys=True), [*tensors, *added]


def mtp_block(layer: Layer, hidden: int) -> Layer:
    """A multi-token-prediction block: the given decoder layer + eh_proj (2 H H) + 3 H of norms, all counted as mtp."""
    joined = [
        *layer.tensors,
        *linear("eh_proj", "eh_proj", hidden, 2 * hidden),
        plain("enorm, hnorm, shared_head.norm", "norms", hidden, 1, 3),
    ]
    return replace(layer, tensors=relabel(joined, "mtp"), part="mtp")


def relabel(tensors: Iterable[Tensor], component: str) -> tuple[Tensor, ...]:
    """The same tensors counted under another component; their role keeps deciding the native format."""
    return tuple(replace(t, component=component, role=t.origin) for t in tensors)


def tables(vocab: int, hidden: int, tied: bool, head_bias: bool = False, norm_bias: bool = False) -> list[Tensor]:
    """Input embedding, LM head (absent when tied) and final norm."""
    tensors = linear("embed_tokens", "embed", vocab, hidden)
    if not tied:
        tensors += linear("lm_head", "lm_head", vocab, hidden, head_bias)
    return [*tensors, norms(hidden, 1, norm_bias)]
