"""Where a checkpoint keeps its experts: one by one, or fused over all experts of a layer.

Layouts: ``...experts.7.gate_proj.weight`` (Qwen2/3, DeepSeek, GLM, OLMoE, ERNIE, Jamba; Nemotron without gate),
``...experts.7.w1.weight`` (Mixtral, Phi, MiniMax, Arctic, Kimi-Linear, DeepSeek's own format),
``...experts.gate_up_proj`` of three dimensions (Llama 4 and Qwen3-VL inputs first, Qwen3.5 outputs first, gpt-oss
interleaved),
``...experts.gate_up_proj_blocks`` with ``_scales`` (gpt-oss, MXFP4), ``...experts.mlp.w1`` (DBRX, all experts' rows).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from models.architecture import Architecture, Layer
from planner.calibrate import decode
from planner.calibrate.errors import CalibrationError
from planner.calibrate.experts import Expert
from planner.calibrate.safetensors import Checkpoint, Entry
from planner.fields.sentences import shown

_MTP = re.compile(r"(^|\.)mtp\.")
_PLACE = r"^((?:.*\.)?(?:layers|blocks)\.(\d+)\.(?:mlp|block_sparse_moe|feed_forward|mixer|ffn|moe)\.experts\.)"
_EACH = re.compile(_PLACE + r"\d+\.(down_proj|w2)\.weight(?:_packed)?$")
_FUSED = re.compile(_PLACE + r"(?:down_proj|w2)(_blocks|\.weight)?$")
_DBRX = re.compile(_PLACE + r"mlp\.w2$")
_HUGGING = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
_NUMBERED = {"gate": "w1", "up": "w3", "down": "w2"}
_DBRX_PARTS = {"gate": "w1", "up": "v1", "down": "w2"}
_SCALES = ("_scale_inv", "_scale")
INTERLEAVED = ("gpt_oss",)
"""Families whose fused matrix alternates rows of gate and up; the others put all of gate before all of up."""
INPUTS_FIRST = ("gpt_oss", "llama4", "llama4_text", "qwen3_vl_moe", "qwen3_vl_moe_text")
"""Families that fuse as [experts, inputs, outputs], for when the shapes alone do not tell."""


@dataclass(frozen=True)
class _Place:
    """Where the experts of one layer are: the text before the part's name, and the kind of layout."""

    prefix: str
    kind: str  # "each", "fused", "blocks", "dbrx"
    names: dict[str, str]
    ending: str = ""


class ExpertReader:
    """Finds and loads the experts of a checkpoint, one at a time."""

    def __init__(self, checkpoint: Checkpoint, architecture: Architecture) -> None:
        """Raises CalibrationError when a layer has experts in two places; :meth:`require` looks for missing ones."""
        self.checkpoint = checkpoint
        self.model_type = architecture.model_type
        self._layers = {layer.index: layer for layer in architecture.layers if layer.is_moe}
        self._places: dict[int, _Place] = {}
        for name in checkpoint.names:
            self._look(name)

    def _look(self, name: str) -> None:
        found = None
        if match := _EACH.match(name):
            found = _Place(match[1], "each", _HUGGING if match[3] == "down_proj" else _NUMBERED)
        elif match := _FUSED.match(name):
            ending = match[3] or ""
            found = _Place(match[1], "blocks" if ending == "_blocks" else "fused", _HUGGING, ending)
        elif match := _DBRX.match(name):
            found = _Place(match[1] + "mlp.", "dbrx", _DBRX_PARTS)
        if found is None or match is None or _MTP.search(name):
            return
        layer = int(match[2])
        if layer in self._layers:
            before = self._places.setdefault(layer, found)
            if (before.prefix, before.kind) != (found.prefix, found.kind):
                raise CalibrationError(
                    f"The checkpoint has experts of layer {layer} both under {shown(before.prefix)} ({before.kind}) "
                    f"and under {shown(found.prefix)} ({found.kind}); which count is not known."
                )

    def require(self, layers: tuple[int, ...]) -> None:
        """Raises CalibrationError with a name that was not understood when a layer's experts are not found."""
        for layer in layers:
            if layer in self._places:
                continue
            near = re.compile(rf"(layers|blocks)\.{layer}\..*expert")
            strange = next(
                (name for name in self.checkpoint.names if near.search(name) and not _MTP.search(name)), None
            )
            if strange is None:
                raise CalibrationError(f"The checkpoint has no tensor of the experts of layer {layer}.")
            raise CalibrationError(
                f"The layout of the experts of layer {layer} is not understood, for example the tensor "
                f"{shown(strange)}; experts.N.gate_proj / up_proj / down_proj.weight, experts.N.w1 / w2 / w3.weight, "
                "fused experts.gate_up_proj and down_proj, and DBRX's experts.mlp.w1 / v1 / w2 are."
            )

    def shape(self, layer: int) -> tuple[int, int, bool]:
        """Inner width, input width, and whether there is a gate, as the architecture has them."""
        tensors = {tensor.name: tensor for tensor in self._layers[layer].expert_tensors}
        up = tensors["up_proj.weight"]
        return up.rows, up.cols, "gate_proj.weight" in tensors

    def experts(self, layer: int) -> int:
        return self._layers[layer].experts

    def load(self, layer: int, expert: int) -> Expert:
        """The weights of one expert as float32. Raises CalibrationError that names the tensor."""
        self.require((layer,))
        place = self._places[layer]
        inner, width, gated = self.shape(layer)
        if place.kind == "each":
            return self._each(place, expert, inner, width, gated)
        if place.kind == "dbrx":
            return self._dbrx(place, self._layers[layer], expert, inner, width)
        return self._fused(place, self._layers[layer], expert, inner, width, gated)

    def stored_bytes(self, layer: int, expert: int) -> int:
        """Bytes that one expert takes in the checkpoint, scales and biases included."""
        place = self._places[layer]
        if place.kind == "each":
            start = f"{place.prefix}{expert}."
            parts = [part for name in place.names.values() for part in self._parts(f"{start}{name}").values()]
            return sum(entry.bytes for entry in parts)
        names = [name for name in self.checkpoint.names if name.startswith(place.prefix)]
        return sum(self.checkpoint.entry(name).bytes for name in names) // self._layers[layer].experts

    # --- one by one --------------------------------------------------------------------------------------------------
    def _parts(self, base: str) -> dict[str, Entry]:
        """Weight, scales, shape and bias of one matrix ``...gate_proj``."""
        ending = ".weight_packed" if f"{base}.weight_packed" in self.checkpoint else ".weight"
        named = {"weight": base + ending, "scale_2": f"{base}.weight_scale_2", "shape": f"{base}.weight_shape"}
        named["bias"] = f"{base}.bias"
        scales = [f"{base}.weight{end}" for end in _SCALES] + [f"{base}.scale"]
        named["scale"] = next((name for name in scales if name in self.checkpoint), "")
        return {part: self.checkpoint.entry(name) for part, name in named.items() if name in self.checkpoint}

    def _each(self, place: _Place, expert: int, inner: int, width: int, gated: bool) -> Expert:
        found: dict[str, np.ndarray] = {}
        for role, part in place.names.items():
            base = f"{place.prefix}{expert}.{part}"
            shape = (width, inner) if role == "down" else (inner, width)
            parts = self._parts(base)
            if "weight" not in parts:
                if role == "gate" and not gated:
                    continue
                raise CalibrationError(f"The checkpoint lacks the tensor {shown(base + '.weight')}.")
            bias = parts.pop("bias", None)
            found[role] = _matrix(parts, shape)
            if bias is not None:
                found[f"{role}_bias"] = _vector(bias, shape[0])
        return Expert(**found)

    # --- fused -------------------------------------------------------------------------------------------------------
    def _fused(self, place: _Place, layer: Layer, expert: int, inner: int, width: int, gated: bool) -> Expert:
        found: dict[str, np.ndarray] = {}
        base = place.prefix + "gate_up_proj"
        if gated and base + place.ending in self.checkpoint:
            joined, turned = self._slice(base, place, layer, expert, (2 * inner, width), None)
            bias = self._bias(base, layer, expert, 2 * inner)
            gate, up = self._halves(inner)
            found = {"gate": np.ascontiguousarray(joined[gate]), "up": np.ascontiguousarray(joined[up])}
            if bias is not None:
                found |= {"gate_bias": bias[gate], "up_bias": bias[up]}
        else:
            turned = None
            for role in ("gate", "up")[not gated :]:
                base = place.prefix + place.names[role]
                found[role], turned = self._slice(base, place, layer, expert, (inner, width), turned)
                bias = self._bias(base, layer, expert, inner)
                if bias is not None:
                    found[f"{role}_bias"] = bias
        base = place.prefix + "down_proj"
        found["down"], _ = self._slice(base, place, layer, expert, (width, inner), turned)
        bias = self._bias(base, layer, expert, width)
        if bias is not None:
            found["down_bias"] = bias
        return Expert(**found)

    def _halves(self, inner: int) -> tuple[slice, slice]:
        if self.model_type in INTERLEAVED:
            return slice(0, None, 2), slice(1, None, 2)
        return slice(0, inner), slice(inner, None)

    def _slice(
        self, base: str, place: _Place, layer: Layer, expert: int, shape: tuple[int, int], turned: bool | None
    ) -> tuple[np.ndarray, bool | None]:
        """One expert's [outputs, inputs] of a fused tensor, and whether the file has inputs first.

        ``turned`` is what an earlier matrix of this layer showed, for a square one that does not show it.
        """
        name = base + place.ending
        entry = self.checkpoint.entry(name)
        rows, columns = shape
        stored: dict[str, tuple[str, np.ndarray]] = {"weight": (entry.dtype, self._one(entry, layer, expert, shape))}
        ends = ("_scales",) if place.kind == "blocks" else (*_SCALES, *(place.ending + end for end in _SCALES))
        scale = next((base + end for end in ends if base + end in self.checkpoint), None)
        if scale is not None:
            found = self.checkpoint.entry(scale)
            stored["scale"] = (found.dtype, self._one(found, layer, expert, shape))
        value = decode.matrix(name, stored)
        first = None
        if value.shape == (rows, columns) and rows != columns:
            first = False
        elif value.shape == (columns, rows) and rows != columns and place.kind != "blocks":
            first = True
        elif value.shape == (rows, columns):
            first = (
                False if place.kind == "blocks" else turned if turned is not None else self.model_type in INPUTS_FIRST
            )
        if first is None:
            raise _wrong_shape(name, [entry.shape[0], *value.shape], [layer.experts, rows, columns])
        return (np.ascontiguousarray(value.T) if first else value), first

    def _one(self, entry: Entry, layer: Layer, expert: int, shape: tuple[int, int]) -> np.ndarray:
        """The raw values of one expert: a slice of the first axis."""
        if len(entry.shape) < 2 or entry.shape[0] != layer.experts or math.prod(entry.shape[1:]) > 2 * math.prod(shape):
            raise _wrong_shape(entry.name, list(entry.shape), [layer.experts, *shape])
        return entry.read(expert, 1)[0]

    def _bias(self, base: str, layer: Layer, expert: int, size: int) -> np.ndarray | None:
        name = base + "_bias"
        if name not in self.checkpoint:
            return None
        entry = self.checkpoint.entry(name)
        if entry.shape != (layer.experts, size):
            raise _wrong_shape(name, list(entry.shape), [layer.experts, size])
        return _finite(entry, entry.read(expert, 1)[0])

    # --- DBRX --------------------------------------------------------------------------------------------------------
    def _dbrx(self, place: _Place, layer: Layer, expert: int, inner: int, width: int) -> Expert:
        """Rows of all experts one after another, each [f, d]; the last matrix is used transposed."""
        found = {}
        for role, part in place.names.items():
            entry = self.checkpoint.entry(place.prefix + part)
            if entry.shape != (layer.experts * inner, width):
                raise _wrong_shape(entry.name, list(entry.shape), [layer.experts * inner, width])
            value = decode.matrix(entry.name, {"weight": (entry.dtype, entry.read(expert * inner, inner))})
            found[role] = np.ascontiguousarray(value.T) if role == "down" else value
        return Expert(**found)


def _matrix(parts: dict[str, Entry], shape: tuple[int, int]) -> np.ndarray:
    entry = parts["weight"]
    for found in parts.values():
        if math.prod(found.shape) > max(math.prod(shape), 2):
            raise _wrong_shape(found.name, list(found.shape), list(shape))
    value = decode.matrix(entry.name, {part: (found.dtype, found.read()) for part, found in parts.items()})
    if value.shape != shape:
        raise _wrong_shape(entry.name, list(value.shape), list(shape))
    return value


def _vector(entry: Entry, size: int) -> np.ndarray:
    if entry.shape != (size,):
        raise _wrong_shape(entry.name, list(entry.shape), [size])
    return _finite(entry, entry.read())


def _finite(entry: Entry, raw: np.ndarray) -> np.ndarray:
    value = decode.plain(entry.dtype, raw)
    if value is None or not np.isfinite(value).all():
        raise CalibrationError(f"The tensor {shown(entry.name)} ({entry.dtype}) does not hold finite numbers.")
    return value


def _wrong_shape(name: str, found: list[int], wanted: list[int]) -> CalibrationError:
    return CalibrationError(
        f"The tensor {shown(name)} has the shape {found}, and this model's has {wanted}; is it another model?"
    )
