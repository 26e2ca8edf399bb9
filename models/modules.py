"""Which part of a model a module name in a quantisation config means, such as ``model.layers.3.self_attn.q_a_proj``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ATTENTION = ("attn", "attn_full", "attn_mla", "attn_kda", "indexer")
_EVERYTHING = (*_ATTENTION, "attn_linear", "mamba", "latent_proj", "dense_mlp", "residual_mlp", "shared", "routed")
_NOTHING: tuple[str, ...] = ()
MTP = "mtp"

_VISION = re.compile(r"vision|visual|audio|^mm_|multi_modal|patch_merge|vit$")
_KEPT = re.compile(
    r"(^|_)(lm_head|head|embed_tokens|embeddings?|gate|router|classifier|e_score_correction_bias|conv1d|indexers_proj|"
    r"weights_proj|shared_expert_gate|eh_proj|A_log|D|dt_bias|sinks)$|norm$"
)
_TENSORS = {
    "q_proj": ("q_proj",),
    "k_proj": ("k_proj",),
    "v_proj": ("v_proj",),
    "o_proj": ("o_proj",),
    "q_a_proj": ("q_a_proj",),
    "q_b_proj": ("q_b_proj",),
    "kv_a_proj_with_mqa": ("kv_a_proj_with_mqa",),
    "kv_b_proj": ("kv_b_proj",),
    "in_proj": ("in_proj",),
    "out_proj": ("out_proj",),
    "gate_proj": ("gate_proj",),
    "up_proj": ("up_proj",),
    "down_proj": ("down_proj",),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
_NEMOTRON = {"in_proj": ("mamba",), "out_proj": ("mamba",), "up_proj": ("dense_mlp",), "down_proj": ("dense_mlp",)}


@dataclass(frozen=True)
class Excluded:
    """Components, layer (None: all) and tensors (empty: all) that a module name covers."""

    components: tuple[str, ...]
    layer: int | None = None
    tensors: tuple[str, ...] = ()


def excluded(name: str) -> Excluded | None:
    """What a module name or pattern covers; None when it is not understood.

    Patterns are read by their words and never run as regular expressions: they come from strangers.
    """
    if len(name) > 300:
        return None
    text = name.removeprefix("re:").replace("\\.", ".").strip("^$")
    group = re.search(r"\(([\w|]+)\)(\w*)", text)
    endings: list[str] = []
    if group:
        endings = [f"{word}{group.group(2)}" for word in group.group(1).split("|")]
        text = text[: group.start()] + text[group.end() :]
    words = [word.strip("*") for word in text.split(".")]
    words = [word for word in words if word]
    layer, numbered, words = _layer(words)
    tensors = tuple(dict.fromkeys(t for end in (endings or words[-1:]) for t in _TENSORS.get(end, ())))
    if endings and not all(end in _TENSORS for end in endings):
        return None
    components = _components(words, tensors, numbered)
    return None if components is None else Excluded(components, layer, tensors)


def _layer(words: list[str]) -> tuple[int | None, bool, list[str]]:
    """Layer number, whether a single layer is named, and the words after it."""
    for i, word in enumerate(words):
        if word in ("layers", "blocks", "h"):
            rest = words[i + 1 :]
            if rest and rest[0].isdecimal() and len(rest[0]) < 6:
                return int(rest[0]), True, rest[1:]
            return None, False, rest
    return None, False, words


def _components(words: list[str], tensors: tuple[str, ...], numbered: bool) -> tuple[str, ...] | None:
    if any(_VISION.search(word) for word in words):
        return _NOTHING
    if words and words[0].startswith("mtp"):
        return (MTP,)
    if not words:
        return _EVERYTHING if numbered else None
    if _KEPT.search(words[-1]) or (words[-1] in ("weight", "bias") and len(words) > 1 and _KEPT.search(words[-2])):
        return _NOTHING
    if "indexer" in words:
        return ("indexer",)
    if "linear_attn" in words:
        return ("attn_linear",)
    if any(word in ("self_attn", "attn", "attention") for word in words):
        return _ATTENTION
    if any(word in ("shared_experts", "shared_expert") for word in words):
        return ("shared",)
    if any(word in ("experts", "block_sparse_moe") for word in words):
        return ("routed",)
    if "mixer" in words:
        return {
            "in_proj": ("mamba",),
            "out_proj": ("mamba",),
            "up_proj": ("dense_mlp",),
            "down_proj": ("dense_mlp",),
        }.get(words[-1], ("attn_full",) if tensors else None)
    if any(word in ("mlp", "ffn", "feed_forward") for word in words):
        return ("dense_mlp",) if tensors else ("dense_mlp", "shared", "routed")
    return None
