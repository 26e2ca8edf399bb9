"""The weight format in which a checkpoint stores each component, as its config states it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from models.architecture import FormatRule, NativeFormat
from models.errors import quoted
from models.fields import Fields
from models.modules import MTP, excluded

_BASE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
LINEAR = (
    *("attn", "attn_full", "attn_linear", "attn_kda", "attn_mla", "mamba", "indexer"),
    *("latent_proj", "dense_mlp", "residual_mlp", "shared", "routed"),
)
"""Components whose matrices a checkpoint-wide method quantises; eh_proj, router, tables and norms stay as they are."""

_EXCLUSIONS = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")
_DROPPED = re.compile(r"^<\d+ names dropped>$")
_MODELOPT = {"NVFP4": "nvfp4", "W4A16_NVFP4": "nvfp4", "FP8": "fp8-tensor"}


def native_format(f: Fields, outer: Sequence[Mapping[str, Any]]) -> NativeFormat:
    """Native format from dtype and ``quantization_config`` of the mappings in ``outer``; marks the keys as read.

    Refuses a method or key that is not understood, naming it.
    """
    f.ignore("quantization_config", "quantization", "expert_dtype")
    base, source = _base(f, outer)
    found = next((c["quantization_config"] for c in outer if c.get("quantization_config") is not None), None)
    if found is None:
        if outer[0].get("expert_dtype") is not None:
            raise f.error("expert_dtype is given without quantization_config, which is not understood.")
        if any(c.get("quantization") is not None for c in outer):
            raise f.error("the key quantization is not understood; quantization_config is.")
        return NativeFormat(base, source=source)
    if not isinstance(found, Mapping):
        raise f.error(f"quantization_config is {quoted(found)}; an object is accepted.")
    q = Fields(found, f.name, "quantization_config.")
    method = q.text("quant_method", accepted=tuple(_METHODS))
    formats = _experts(f, outer[0].get("expert_dtype"), _METHODS[method](q))
    rules = _exclusions(q, base)
    q.finish()
    mtp = base if any(rule.component == MTP for rule in rules) else None
    kept = tuple(rule for rule in rules if rule.component in formats)
    return NativeFormat(base, tuple(formats.items()), kept, mtp, f"quantization_config ({method}); {source}")


def _base(f: Fields, outer: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Plain type of what is not quantised."""
    dtype = next((c[k] for c in outer for k in ("torch_dtype", "dtype") if c.get(k) is not None), None)
    if dtype is None:
        return "bf16", "no dtype in the config: 16 bits per value"
    base = _BASE.get(dtype.removeprefix("torch.")) if isinstance(dtype, str) else None
    if base is None:
        raise f.error(f"torch_dtype is {quoted(dtype)}; {', '.join(_BASE)} is accepted.")
    return base, f"{dtype} in the config"


def _experts(f: Fields, expert_dtype: Any, formats: dict[str, str]) -> dict[str, str]:
    """DeepSeek-V4 states the type of the routed experts apart."""
    known = {"fp4": "mxfp4", "fp8": formats.get("routed", "fp8-block")}
    if expert_dtype is None:
        return formats
    if not isinstance(expert_dtype, str) or expert_dtype not in known:
        raise f.error(f"expert_dtype is {quoted(expert_dtype)}; {' or '.join(known)} is accepted.")
    return {**formats, "routed": known[expert_dtype]}


def _all(format_id: str) -> dict[str, str]:
    return dict.fromkeys(LINEAR, format_id)


def _fp8(q: Fields) -> dict[str, str]:
    """FP8 as DeepSeek-V3 publishes it, in blocks or with one scale per tensor."""
    q.expect("fmt", "e4m3", "float8_e4m3fn", why="another FP8 type")
    q.ignore("activation_scheme", "scale_fmt", "kv_cache_scheme")
    q.expect("weight_block_size", [128, 128], why="another block size")
    return _all("fp8-tensor" if q.config.get("weight_block_size") is None else "fp8-block")


def _mxfp4(q: Fields) -> dict[str, str]:
    """gpt-oss: only the experts."""
    return {"routed": "mxfp4"}


def _modelopt(q: Fields) -> dict[str, str]:
    """TensorRT Model Optimizer with one algorithm for all."""
    algorithm = q.text("quant_algo", accepted=tuple(_MODELOPT))
    q.expect("group_size", 16, why="another group size")
    q.ignore("config_groups", "kv_cache_scheme", "kv_cache_quant_algo", "producer")
    return _all(_MODELOPT[algorithm])


def _gptq(q: Fields) -> dict[str, str]:
    """GPTQ file layout."""
    bits = q.whole("bits", high=4)
    q.expect("group_size", 128, why="another group size")
    if q.config.get("group_size") is None:
        raise q.error("the key quantization_config.group_size is missing; 128 is understood.")
    q.expect("dynamic", {}, why="bits that differ by module")
    q.expect("lm_head", False, why="a quantised LM head")
    q.ignore("desc_act", "sym", "damp_percent", "damp_auto_increment", "true_sequential", "static_groups", "dataset")
    q.ignore("tokenizer", "model_seqlen", "use_cuda_fp16", "backend", "checkpoint_format", "meta", "pack_dtype")
    q.ignore("batch_size", "block_name_to_quantize", "cache_block_outputs", "exllama_config", "max_input_length")
    q.ignore(
        "module_name_preceding_first_block", "pad_token_id", "use_exllama", "is_marlin_format", "model_file_base_name"
    )
    return _all(f"gptq-{bits}-g128")


def _awq(q: Fields) -> dict[str, str]:
    """AWQ: four bits with zero points."""
    q.expect("bits", 4, why="another width")
    q.expect("zero_point", True, why="AWQ without zero points")
    q.expect("group_size", 128, why="another group size")
    q.ignore("version", "backend", "do_fuse", "fuse_max_seq_len", "exllama_config", "modules_to_fuse")
    return _all("int4-g128")


def _compressed(q: Fields) -> dict[str, str]:
    """The single weight scheme of a compressed-tensors config."""
    q.ignore("config_groups", "format", "global_compression_ratio", "kv_cache_scheme", "quantization_status", "version")
    q.expect("sparsity_config", {}, why="sparse weights")
    q.expect("transform_config", {}, why="transformed weights")
    groups = q.config.get("config_groups")
    if not isinstance(groups, Mapping) or len(groups) != 1:
        raise q.error("quantization_config.config_groups must hold exactly one group to be understood.")
    group = next(iter(groups.values()))
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping) or group.get("targets") != ["Linear"]:
        raise q.error("quantization_config.config_groups is not understood; one scheme for all Linear modules is.")
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    strategy, block = weights.get("strategy"), weights.get("block_structure")
    if (kind, bits, strategy) == ("float", 8, "block") and block == [128, 128]:
        return _all("fp8-block")
    key = (kind, bits, size, strategy, weights.get("symmetric", True))
    for form, format_id in _SCHEMES.items():
        if all(type(a) is type(b) and a == b for a, b in zip(form, key, strict=True)):
            return _all(format_id)
    raise q.error(
        f"quantization_config.config_groups has weights of type {quoted(kind)}, {quoted(bits)} bits, group size "
        f"{quoted(size)}, strategy {quoted(strategy)}, which is not understood."
    )


_SCHEMES = {
    ("int", 4, 32, "group", True): "int4-g32",
    ("int", 4, 64, "group", True): "int4-g64",
    ("int", 4, 128, "group", True): "int4-g128-sym",
    ("int", 4, 128, "group", False): "int4-g128",
    ("int", 8, None, "channel", True): "int8",
    ("float", 4, 32, "group", True): "mxfp4",
    ("float", 4, 16, "tensor_group", True): "nvfp4",
    ("float", 8, None, "channel", True): "fp8-channel",
    ("float", 8, None, "tensor", True): "fp8-tensor",
}
"""(type, bits, group size, strategy, symmetric) of compressed-tensors weights to the named format."""

_METHODS: dict[str, Callable[[Fields], dict[str, str]]] = {
    "fp8": _fp8,
    "mxfp4": _mxfp4,
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
    "gptq": _gptq,
    "awq": _awq,
}


def _exclusions(q: Fields, base: str) -> tuple[FormatRule, ...]:
    """Rules for the modules that the config leaves unquantised."""
    where: dict[tuple[str, tuple[str, ...]], set[int] | None] = {}
    for name in _names(q):
        found = excluded(name)
        if found is None:
            raise q.error(
                f"quantization_config leaves out {quoted(name)}, and it is not understood which part that is."
            )
        for component in found.components:
            key = (component, found.tensors)
            layers = where.setdefault(key, set())
            if found.layer is None:
                where[key] = None
            elif layers is not None:
                layers.add(found.layer)
    return tuple(
        FormatRule(component, base, None if layers is None else frozenset(layers), tensors)
        for (component, tensors), layers in where.items()
    )


def _names(q: Fields) -> Iterable[str]:
    q.ignore(*_EXCLUSIONS)
    for key in _EXCLUSIONS:
        names = q.config.get(key)
        if names is None:
            continue
        if isinstance(names, str) and _DROPPED.match(names):
            continue  # long lists of norms, routers and tables were cut from the catalog's files; they change nothing
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise q.error(f"quantization_config.{key} is {quoted(names)}; a list of module names is accepted.")
        yield from names
