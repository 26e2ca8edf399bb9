"""The weight format in which a checkpoint stores each component, as its config states it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from models.architecture import FormatRule, NativeFormat
from models.errors import quoted
from models.fields import Fields
from models.formats import FORMATS
from models.modules import MTP, excluded

_BASE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
LINEAR = (
    "attn attn_full attn_linear attn_kda attn_mla mamba indexer latent_proj dense_mlp residual_mlp shared routed"
).split()
"""Components whose matrices a checkpoint-wide method quantises; eh_proj, router, tables and norms stay as they are."""

_EXCLUSIONS = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")
_DROPPED = re.compile(r"^<\d+ names dropped>$")
_MODELOPT = {"NVFP4": "nvfp4", "W4A16_NVFP4": "nvfp4", "FP8": "fp8-tensor"}


def native_format(f: Fields, outer: Sequence[Mapping[str, Any]]) -> NativeFormat:
    """Native format from dtype and ``quantization_config`` of the mappings in ``outer``; marks the keys as read.

    Refuses a method that is not understood, naming it.
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
    formats, label = _by_method(f, found)
    formats = _experts(f, outer[0].get("expert_dtype"), formats)
    rules = _exclusions(f, found, base)
    mtp = base if any(rule.component == MTP for rule in rules) else None
    kept = tuple(rule for rule in rules if rule.component in formats)
    return NativeFormat(base, tuple(formats.items()), kept, mtp, f"quantization_config: {label}; {source}")


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


def _by_method(f: Fields, q: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """Format of each component, and the method in words."""
    method = q.get("quant_method")
    if method == "fp8":
        return _all(_fp8(f, q)), "fp8"
    if method == "mxfp4":
        return {"routed": "mxfp4"}, "mxfp4 experts"
    if method == "compressed-tensors":
        return _all(_compressed(f, q)), "compressed-tensors"
    if method == "modelopt":
        algorithm = q.get("quant_algo")
        if not isinstance(algorithm, str) or algorithm not in _MODELOPT:
            raise f.error(
                f"quantization_config.quant_algo is {quoted(algorithm)}, which is not understood; "
                f"{', '.join(_MODELOPT)} is."
            )
        return _all(_MODELOPT[algorithm]), f"modelopt {algorithm}"
    if method in ("gptq", "awq"):
        return _all(_integer(f, method, q)), method
    raise f.error(
        f"quantization_config.quant_method is {quoted(method)}, which is not understood; fp8, mxfp4, "
        "compressed-tensors, modelopt, gptq and awq are."
    )


def _fp8(f: Fields, q: Mapping[str, Any]) -> str:
    block = q.get("weight_block_size")
    if block is None:
        return "fp8-tensor"
    if block != [128, 128]:
        raise f.error(f"quantization_config.weight_block_size is {quoted(block)}; [128, 128] is understood.")
    return "fp8-block"


def _integer(f: Fields, method: str, q: Mapping[str, Any]) -> str:
    bits, group = q.get("bits", q.get("w_bit")), q.get("group_size", q.get("q_group_size"))
    if isinstance(bits, int) and isinstance(group, int) and not isinstance(bits, bool):
        for format_id in (f"gptq-{bits}-g{group}",) if method == "gptq" else (f"int{bits}-g{group}",):
            if format_id in FORMATS:
                return format_id
    raise f.error(
        f"quantization_config ({method}) has bits {quoted(bits)} and group_size {quoted(group)}; "
        f"{'1 to 4 bits in groups of 128' if method == 'gptq' else '4 bits in groups of 128'} are understood."
    )


def _compressed(f: Fields, q: Mapping[str, Any]) -> str:
    """The single weight scheme of a compressed-tensors config."""
    groups = q.get("config_groups")
    if not isinstance(groups, Mapping) or len(groups) != 1:
        raise f.error("quantization_config.config_groups must hold exactly one group to be understood.")
    group = next(iter(groups.values()))
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping) or group.get("targets") != ["Linear"]:
        raise f.error("quantization_config.config_groups is not understood; one scheme for all Linear modules is.")
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    strategy = weights.get("strategy")
    known = {
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
    key = (kind, bits, size, strategy, weights.get("symmetric", True))
    if weights.get("strategy") == "block" and (kind, bits) == ("float", 8) and weights.get("block_structure") == [128, 128]:
        return "fp8-block"
    for form, format_id in known.items():
        if all(type(a) is type(b) and a == b for a, b in zip(form, key, strict=True)):
            return format_id
    raise f.error(
        f"quantization_config.config_groups has weights of type {quoted(kind)}, {quoted(bits)} bits, group size "
        f"{quoted(size)}, strategy {quoted(strategy)}, which is not understood."
    )


def _exclusions(f: Fields, q: Mapping[str, Any], base: str) -> tuple[FormatRule, ...]:
    """Rules for the modules that the config leaves unquantised."""
    where: dict[tuple[str, tuple[str, ...]], set[int] | None] = {}
    for name in _names(f, q):
        found = excluded(name)
        if found is None:
            raise f.error(f"quantization_config leaves out {quoted(name)}, and it is not understood which part that is.")
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


def _names(f: Fields, q: Mapping[str, Any]) -> Iterable[str]:
    for key in _EXCLUSIONS:
        names = q.get(key)
        if names is None:
            continue
        if isinstance(names, str) and _DROPPED.match(names):
            continue  # long lists of norms, routers and tables were cut from the catalog's files; they change nothing
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise f.error(f"quantization_config.{key} is {quoted(names)}; a list of module names is accepted.")
        yield from names
