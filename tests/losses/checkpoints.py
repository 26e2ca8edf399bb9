"""Small MoE checkpoints, written byte by byte: one for each layout and stored type that is read.

Nothing here uses the reader that is tested. Each maker returns the experts as they were meant, so that a test compares
what is read with what was written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import models

CATALOG = Path(models.__path__[0]) / "catalog"
HIDDEN, INNER, EXPERTS = 64, 32, 4
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])

Tensor = tuple[str, list[int], bytes]
"""dtype, shape, bytes"""
Weights = dict[str, np.ndarray]
"""gate, up, down and their biases"""


@dataclass
class Made:
    """A checkpoint on disk: its folder, the experts as (layer, expert) to weights, and its layers with experts."""

    folder: Path
    experts: dict[tuple[int, int], Weights]
    layers: tuple[int, ...]


# --- files -----------------------------------------------------------------------------------------------------------
def file_bytes(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """A safetensors file: length of the header, header, bytes."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values())


def write(folder: Path, tensors: dict[str, Tensor], config: dict[str, Any], shards: int = 1) -> None:
    """One file, or several with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        (folder / "model.safetensors").write_bytes(file_bytes(tensors, {"format": "pt"}))
        return
    where = {}
    names = list(tensors)
    for i in range(shards):
        name = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = {key: tensors[key] for key in names[i::shards]}
        (folder / name).write_bytes(file_bytes(part))
        where |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def config_of(model_id: str, **changes: Any) -> dict[str, Any]:
    """The catalog's config with other sizes; a change that is None drops the key. Keys go where the config has them."""
    found = json.loads((CATALOG / f"{model_id.replace('/', '__', 1)}.json").read_text())
    inner = found.get("text_config", found)
    for key, value in changes.items():
        place = inner if key in inner or key not in found else found
        if value is None:
            place.pop(key, None)
        else:
            place[key] = value
    return found


# --- types -----------------------------------------------------------------------------------------------------------
def bf16(values: np.ndarray) -> Tensor:
    bits = values.astype("<f4").view("<u4")
    return "BF16", list(values.shape), (bits >> 16).astype("<u2").tobytes()


def f16(values: np.ndarray) -> Tensor:
    return "F16", list(values.shape), values.astype("<f2").tobytes()


def f32(values: np.ndarray) -> Tensor:
    return "F32", list(np.shape(values)), np.asarray(values).astype("<f4").tobytes()


def u8(codes: np.ndarray, dtype: str = "U8") -> Tensor:
    return dtype, list(codes.shape), codes.astype(np.uint8).tobytes()


def e4m3(code: int) -> float:
    """By the definition of the format."""
    sign, exponent, mantissa = code >> 7, (code >> 3) & 15, code & 7
    value = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -value if sign else value


def cut(values: np.ndarray, keep_bits: int = 16) -> np.ndarray:
    """float32 values that BF16 holds exactly."""
    bits = np.asarray(values, np.float32).view(np.uint32) >> np.uint32(keep_bits) << np.uint32(keep_bits)
    return bits.view(np.float32)


def nibbles(codes: np.ndarray) -> np.ndarray:
    """Two codes in each byte, the first in the lower bits."""
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


# Each stores one [rows, columns] matrix: the values as meant, and tensors by the end of their names.
Stored = tuple[np.ndarray, dict[str, Tensor]]


def plain(rng: np.random.Generator, shape: tuple[int, int], kind: Callable[[np.ndarray], Tensor] = bf16) -> Stored:
    values = cut(rng.standard_normal(shape) * 0.1)
    if kind is f16:
        values = values.astype(np.float16).astype(np.float32)
    return values, {".weight": kind(values)}


def fp8(rng: np.random.Generator, shape: tuple[int, int], scale: str = "block") -> Stored:
    codes = rng.integers(0, 256, shape)
    codes[(codes & 127) == 127] = 8
    values = np.vectorize(e4m3)(codes)
    if scale == "tensor":
        s = np.float32(0.0123)
        return (values * s).astype(np.float32), {".weight": u8(codes, "F8_E4M3"), ".weight_scale": f32(s)}
    if scale == "channel":
        s = rng.uniform(1e-3, 2e-3, (shape[0], 1)).astype(np.float32)
        return (values * s).astype(np.float32), {".weight": u8(codes, "F8_E4M3"), ".weight_scale": f32(s)}
    grid = (-(-shape[0] // 128), -(-shape[1] // 128))
    s = rng.uniform(1e-3, 2e-3, grid).astype(np.float32)
    full = np.kron(s, np.ones((128, 128)))[: shape[0], : shape[1]]
    return (values * full).astype(np.float32), {".weight": u8(codes, "F8_E4M3"), ".weight_scale_inv": f32(s)}


def mxfp4(rng: np.random.Generator, shape: tuple[int, int], names: tuple[str, str, str] = ("", "", "")) -> Stored:
    codes = rng.integers(0, 16, shape)
    powers = rng.integers(118, 126, (shape[0], shape[1] // 32))
    values = E2M1[codes] * np.repeat(2.0 ** (powers - 127.0), 32, axis=1)
    weight, scale, kind = names
    scales = u8(powers, "F8_E8M0" if kind == "I8" else "U8")
    return values.astype(np.float32), {weight: u8(nibbles(codes), kind), scale: scales}


def nvfp4(rng: np.random.Generator, shape: tuple[int, int]) -> Stored:
    codes, scales = rng.integers(0, 16, shape), rng.integers(40, 70, (shape[0], shape[1] // 16))
    second = np.float32(0.0371)
    values = E2M1[codes] * np.repeat(np.vectorize(e4m3)(scales) * second, 16, axis=1)
    tensors = {".weight": u8(nibbles(codes)), ".weight_scale": u8(scales, "F8_E4M3"), ".weight_scale_2": f32(second)}
    return values.astype(np.float32), {**tensors, ".input_scale": f32(np.float32(1.0))}


def int4(rng: np.random.Generator, shape: tuple[int, int]) -> Stored:
    codes = rng.integers(0, 16, shape).astype(np.uint32)
    scale = cut(rng.uniform(1e-3, 2e-2, (shape[0], shape[1] // 32)))
    values = (codes.astype(np.float32) - 8) * np.repeat(scale, 32, axis=1)
    words = np.zeros((shape[0], shape[1] // 8), np.uint32)
    for i in range(8):
        words |= codes[:, i::8] << np.uint32(4 * i)
    packed = ("I32", list(words.shape), words.astype("<u4").tobytes())
    size = ("I32", [2], np.array(shape, "<i4").tobytes())
    return values, {".weight_packed": packed, ".weight_scale": bf16(scale), ".weight_shape": size}


# --- checkpoints -----------------------------------------------------------------------------------------------------
def each(
    folder: Path,
    config: dict[str, Any],
    pattern: str,
    parts: dict[str, str],
    store: Callable[[np.random.Generator, tuple[int, int]], Stored],
    layers: tuple[int, ...] = (0, 1),
    extra: dict[str, Tensor] | None = None,
    width: int = HIDDEN,
    shards: int = 1,
    seed: int = 0,
) -> Made:
    """Experts one by one. pattern has {layer}, {expert} and {part}; parts maps gate, up, down to their names."""
    rng = np.random.default_rng(seed)
    tensors: dict[str, Tensor] = dict(extra or {})
    experts: dict[tuple[int, int], Weights] = {}
    for layer in layers:
        for expert in range(EXPERTS):
            weights = {}
            for role, part in parts.items():
                shape = (width, INNER) if role == "down" else (INNER, width)
                weights[role], stored = store(rng, shape)
                base = pattern.format(layer=layer, expert=expert, part=part)
                tensors |= {base + end: tensor for end, tensor in stored.items()}
            experts[layer, expert] = weights
    write(folder, tensors, config, shards)
    return Made(folder, experts, layers)


def fused(
    folder: Path,
    config: dict[str, Any],
    pattern: str,
    inputs_first: bool,
    interleaved: bool = False,
    bias: bool = False,
    layers: tuple[int, ...] = (0, 1),
    inner: int = INNER,
    shards: int = 1,
) -> Made:
    """gate_up_proj and down_proj of three dimensions in BF16. pattern has {layer} and {part}."""
    rng = np.random.default_rng(1)
    tensors: dict[str, Tensor] = {"model.embed_tokens.weight": bf16(np.zeros((3, HIDDEN)))}
    experts: dict[tuple[int, int], Weights] = {}
    for layer in layers:
        made = [_dense(rng, inner, bias) for _ in range(EXPERTS)]
        experts |= {(layer, i): weights for i, weights in enumerate(made)}
        joined = np.stack([_joined(w["gate"], w["up"], interleaved) for w in made])
        down = np.stack([w["down"] for w in made])
        if inputs_first:
            joined, down = joined.transpose(0, 2, 1), down.transpose(0, 2, 1)
        tensors[pattern.format(layer=layer, part="gate_up_proj")] = bf16(joined)
        tensors[pattern.format(layer=layer, part="down_proj")] = bf16(down)
        if bias:
            both = np.stack([_joined(w["gate_bias"], w["up_bias"], interleaved) for w in made])
            tensors[pattern.format(layer=layer, part="gate_up_proj_bias")] = bf16(both)
            tensors[pattern.format(layer=layer, part="down_proj_bias")] = bf16(np.stack([w["down_bias"] for w in made]))
    write(folder, tensors, config, shards)
    return Made(folder, experts, layers)


def _dense(rng: np.random.Generator, inner: int, bias: bool) -> Weights:
    shapes: dict[str, tuple[int, ...]] = {"gate": (inner, HIDDEN), "up": (inner, HIDDEN), "down": (HIDDEN, inner)}
    if bias:
        shapes |= {"gate_bias": (inner,), "up_bias": (inner,), "down_bias": (HIDDEN,)}
    return {name: cut(rng.standard_normal(shape) * 0.2) for name, shape in shapes.items()}


def _joined(gate: np.ndarray, up: np.ndarray, interleaved: bool) -> np.ndarray:
    return np.stack([gate, up], axis=1).reshape(-1, *gate.shape[1:]) if interleaved else np.concatenate([gate, up])


def gpt_oss(folder: Path) -> Made:
    """MXFP4 blocks and scales, gate and up interleaved, BF16 biases."""
    rng = np.random.default_rng(2)
    tensors: dict[str, Tensor] = {}
    experts: dict[tuple[int, int], Weights] = {}
    for layer in (0, 1):
        prefix = f"model.layers.{layer}.mlp.experts."
        blocks: dict[str, list[Tensor]] = {}
        for expert in range(EXPERTS):
            gate_up, first = mxfp4(rng, (2 * INNER, HIDDEN), ("_blocks", "_scales", "U8"))
            down, last = mxfp4(rng, (HIDDEN, INNER), ("_blocks", "_scales", "U8"))
            bias, down_bias = cut(rng.standard_normal(2 * INNER)), cut(rng.standard_normal(HIDDEN))
            experts[layer, expert] = {
                "gate": gate_up[0::2],
                "up": gate_up[1::2],
                "down": down,
                "gate_bias": bias[0::2],
                "up_bias": bias[1::2],
                "down_bias": down_bias,
            }
            stored = {f"gate_up_proj{end}": t for end, t in first.items()} | {
                f"down_proj{e}": t for e, t in last.items()
            }
            stored |= {"gate_up_proj_bias": bf16(bias), "down_proj_bias": bf16(down_bias)}
            for name, tensor in stored.items():
                blocks.setdefault(name, []).append(tensor)
        for name, parts in blocks.items():
            dtype, shape, _ = parts[0]
            if name.endswith("_blocks"):
                shape = [shape[0], shape[1] // 16, 16]
            tensors[prefix + name] = (dtype, [EXPERTS, *shape], b"".join(data for _, _, data in parts))
    config = config_of("openai/gpt-oss-20b", hidden_size=HIDDEN, intermediate_size=INNER, num_local_experts=EXPERTS)
    config |= {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "num_experts_per_tok": 2}
    config |= {"experts_per_token": 2}
    write(folder, tensors, config)
    return Made(folder, experts, (0, 1))


def dbrx(folder: Path) -> Made:
    """Rows of all experts one after another; the last matrix inputs first."""
    rng = np.random.default_rng(3)
    tensors: dict[str, Tensor] = {}
    experts: dict[tuple[int, int], Weights] = {}
    for layer in (0, 1):
        made = [_dense(rng, INNER, False) for _ in range(EXPERTS)]
        experts |= {(layer, i): weights for i, weights in enumerate(made)}
        prefix = f"transformer.blocks.{layer}.ffn.experts.mlp."
        tensors[prefix + "w1"] = bf16(np.concatenate([w["gate"] for w in made]))
        tensors[prefix + "v1"] = bf16(np.concatenate([w["up"] for w in made]))
        tensors[prefix + "w2"] = bf16(np.concatenate([w["down"].T for w in made]))
    config = config_of("databricks/dbrx-instruct")
    config |= {"d_model": HIDDEN, "n_layers": 2, "n_heads": 8}
    config["ffn_config"] |= {"ffn_hidden_size": INNER, "moe_num_experts": EXPERTS, "moe_top_k": 2}
    config["attn_config"] |= {"kv_n_heads": 8}
    write(folder, tensors, config)
    return Made(folder, experts, (0, 1))


HUGGING = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
NUMBERED = {"gate": "w1", "up": "w3", "down": "w2"}


def mixtral(folder: Path, store: Callable[..., Stored] = plain, **more: Any) -> Made:
    config = config_of(
        "mistralai/Mixtral-8x7B-v0.1",
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=2,
        num_local_experts=EXPERTS,
    )
    return each(
        folder, config, "model.layers.{layer}.block_sparse_moe.experts.{expert}.{part}", NUMBERED, store, **more
    )
