"""From a ``config.json`` to an :class:`models.architecture.Architecture`, or one sentence that says why not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from models.architecture import Architecture, Layer, NativeFormat, Tensor
from models.blueprint import Blueprint
from models.errors import ModelError, nearest, quoted
from models.families import attention_moe, deepseek, deepseek_v4, encoder_decoder, hybrid, kimi_linear, mixtral, qwen
from models.fields import Fields
from models.notes import Note
from models.quantisation import native_format

READERS: dict[str, Callable[[Fields], Blueprint]] = {
    "mixtral": mixtral.mixtral,
    "olmoe": mixtral.olmoe,
    "phimoe": mixtral.phimoe,
    "deepseek_v2": deepseek.deepseek_v2,
    "deepseek_v3": deepseek.deepseek_v3,
    "deepseek_v32": deepseek.deepseek_v32,
    "kimi_k2": deepseek.kimi_k2,
    "glm_moe_dsa": deepseek.glm_moe_dsa,
    "qwen2_moe": qwen.qwen2_moe,
    "qwen3_moe": qwen.qwen3_moe,
    "qwen3_vl_moe_text": qwen.qwen3_moe,
    "qwen3_next": qwen.qwen3_next,
    "qwen3_5_moe_text": qwen.qwen3_5_moe,
    "glm4_moe": attention_moe.glm4_moe,
    "glm4_moe_lite": deepseek.glm_moe_lite,
    "gpt_oss": attention_moe.gpt_oss,
    "llama4_text": attention_moe.llama4,
    "minimax_m1": hybrid.minimax_m1,
    "minimax_m2": attention_moe.minimax_m2,
    "ernie4_5_moe": attention_moe.ernie45,
    "arctic": attention_moe.arctic,
    "dbrx": attention_moe.dbrx,
    "jamba": hybrid.jamba,
    "nemotron_h": hybrid.nemotron_h,
    "kimi_linear": kimi_linear.kimi_linear,
    "deepseek_v4": deepseek_v4.deepseek_v4,
    "switch_transformers": encoder_decoder.switch_transformers,
    "nllb-moe": encoder_decoder.nllb_moe,
}
"""model_type of a text model to its reader."""

WRAPPERS: dict[str, tuple[str, ...]] = {
    "qwen3_vl_moe": ("qwen3_vl_moe_text",),
    "qwen3_5_moe": ("qwen3_5_moe_text",),
    "kimi_k25": ("kimi_k2", "deepseek_v3"),
    "kimi_k3": ("kimi_linear",),
    "llama4": ("llama4_text",),
}
"""model_type of a multimodal config to the types that its ``text_config`` may have."""

_LARGEST = 10**15
_VISION = re.compile(
    r"^(vision|video|image|audio|media|mm|vit)_|_(token_index|placeholder)$|^use_unified_vision_chunk$"
)
_NAMELESS: tuple[tuple[tuple[str, ...], Callable[[Fields], Blueprint], str], ...] = (
    (("dim", "n_layers", "n_activated_experts", "moe_inter_dim"), deepseek.inference_format, "deepseek_inference"),
    (("emb_size", "widening_factor", "num_selected_experts"), attention_moe.grok1, "grok-1"),
)


def read_config(config: Mapping[str, Any], name: str = "pasted config") -> Architecture:
    """Architecture of a config as published; MTP that it declares is counted once, without duplicate tables.

    Raises :class:`models.errors.ModelError` with one sentence naming the key or type that is not understood.
    """
    return build(config, name, name, Note())


def build(config: Mapping[str, Any], model_id: str, name: str, note: Note) -> Architecture:
    """Architecture of a config together with what the catalog notes about that checkpoint."""
    if not isinstance(config, Mapping):
        raise ModelError(f"{name}: a config is an object with named keys, not {type(config).__name__}.")
    try:
        fields, reader, model_type, outer = _choose(config, name)
        plan = reader(fields)
        native = plan.native or native_format(fields, outer)
        fields.finish()
        return _assemble(plan, native, model_type, model_id, name, note, _provenance(config))
    except RecursionError:
        raise ModelError(f"{name}: the config is nested too deeply to be one of a model.") from None


def _choose(
    config: Mapping[str, Any], name: str
) -> tuple[Fields, Callable[[Fields], Blueprint], str, list[Mapping[str, Any]]]:
    """The mapping to read, its reader, the model type, and the mappings in which quantisation may be stated."""
    fields = Fields(config, name)
    model_type = config.get("model_type")
    if model_type is None:
        for keys, reader, label in _NAMELESS:
            if all(key in config for key in keys):
                return fields, reader, label, [config]
        raise fields.error("the key model_type is missing, so the architecture is not known.")
    if not isinstance(model_type, str):
        raise fields.error(f"model_type is {quoted(model_type)}; a text is accepted.")
    fields.ignore("model_type")
    if model_type in WRAPPERS:
        return _unwrap(fields, model_type)
    if model_type in READERS:
        return fields, READERS[model_type], model_type, [config]
    raise _unknown(fields, model_type)


def _unwrap(
    outer: Fields, model_type: str
) -> tuple[Fields, Callable[[Fields], Blueprint], str, list[Mapping[str, Any]]]:
    """The text model inside a multimodal config; the vision tower is not counted."""
    inner = outer.child("text_config")
    text_type = inner.text("model_type", accepted=WRAPPERS[model_type])
    outer.ignore("quantization_config", *(key for key in outer.config if isinstance(key, str) and _VISION.search(key)))
    tied = outer.config.get("tie_word_embeddings")
    if tied is not None and inner.config.get("tie_word_embeddings", tied) != tied:
        raise outer.error("tie_word_embeddings differs between the config and its text_config.")
    outer.ignore("tie_word_embeddings")
    outer.finish()
    if tied is not None and "tie_word_embeddings" not in inner.config:
        inner.config = {**inner.config, "tie_word_embeddings": tied}
    return inner, READERS[text_type], text_type, [inner.config, outer.config]


def _unknown(fields: Fields, model_type: str) -> ModelError:
    """Refusal of a type without reader: dense, or simply not understood."""
    inner = fields.config.get("text_config")
    keys = [*fields.config, *(inner if isinstance(inner, Mapping) else ())]
    if not any(isinstance(key, str) and re.search(r"expert|moe", key) for key in keys):
        return fields.error(
            f"model_type {quoted(model_type)} declares no experts, so this is a dense model; only "
            "Mixture-of-Experts models are planned."
        )
    known = sorted({*READERS, *WRAPPERS})
    return fields.error(
        f"model_type {quoted(model_type)} is not understood; the nearest that are understood: "
        f"{', '.join(nearest(model_type, known))}."
    )


def _provenance(config: Mapping[str, Any]) -> str:
    parts = [config[key] for key in ("_source", "_note") if isinstance(config.get(key), str)]
    return " ".join(parts)


def _mtp(plan: Blueprint, note: Note) -> tuple[list[Layer], list[Tensor]]:
    """MTP blocks that the checkpoint holds, and the second copies of the tables where it stores them."""
    found = plan.mtp_blocks
    if note.mtp_layers is not None:
        template = found[0] if found else plan.mtp_template
        if note.mtp_layers and template is None:
            raise ModelError(f"the catalog notes {note.mtp_layers} MTP layers, but {plan.family} has no form for them.")
        found = [template] * note.mtp_layers if template is not None else []
    if not (note.mtp_duplicate_tables and found):
        return found, []
    copies = 2 * len(found)
    return found, [
        Tensor("embed_tokens, shared_head.head", "mtp_dup_tables", plan.vocab_size, plan.hidden_size, copies)
    ]


def _present(native: NativeFormat, layers: list[Layer]) -> NativeFormat:
    """The native format without components that this architecture lacks."""
    components = {tensor.origin for layer in layers for tensor in layer.tensors} | {"lm_head"}
    return replace(
        native,
        by_component=tuple(pair for pair in native.by_component if pair[0] in components),
        rules=tuple(rule for rule in native.rules if rule.component in components),
    )


def _assemble(
    plan: Blueprint, native: NativeFormat, model_type: str, model_id: str, name: str, note: Note, provenance: str
) -> Architecture:
    if not any(layer.is_moe for layer in plan.layers):
        raise ModelError(f"{name}: no layer of this config routes to experts, so this is a dense model.")
    mtp, copies = _mtp(plan, note)
    arch = Architecture(
        id=model_id,
        name=name,
        family=plan.family,
        model_type=model_type,
        hidden_size=plan.hidden_size,
        vocab_size=plan.vocab_size,
        layers=tuple(plan.layers),
        extra=(*plan.extra, *copies),
        tied_embeddings=plan.tied_embeddings,
        mtp_layers=len(mtp),
        mtp_blocks=tuple(mtp),
        max_context_tokens=plan.max_context_tokens,
        native=_present(note.native or native, plan.layers),
        encoder_decoder=plan.encoder_decoder,
        plannable=not plan.encoder_decoder,
        why_not="an encoder-decoder can be shown and counted, but decode planning needs a decoder-only model"
        if plan.encoder_decoder
        else None,
        notes=(*plan.notes, *note.notes),
        provenance=provenance,
    )
    total = sum(tensor.parameters for _, tensor in arch.tensors())
    if total > _LARGEST:
        raise ModelError(f"{name}: this config describes {total:.2e} parameters; up to {_LARGEST:.0e} is accepted.")
    return arch
