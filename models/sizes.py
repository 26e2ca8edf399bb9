"""Bytes of weights: by component, in the native or any named format, scales included."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from models.architecture import Architecture, Tensor
from models.counts import parameters
from models.errors import ModelError, quoted
from models.formats import FORMATS, format_for_bits, weight_format

NATIVE = "native"
SCALES = "scales"
WIDTHS = (16, 8, 4, 3, 2, 1)

KEPT = ("embed", "lm_head", "router", "router_bias", "norms", "hyper_conn", "mtp_dup_tables", "hash_tables_int")
"""Components that a bare format or bit width leaves at 16 bit; a mapping can still name them."""


def _sizes(arch: Architecture, layer: int | None, tensor: Tensor, format_id: str) -> tuple[float, float]:
    """(weights, scales) of all copies of a tensor when its component is wanted in ``format_id``."""
    native = format_id == NATIVE
    if not tensor.quantised:
        bits = FORMATS[arch.native.base].nominal_bits if native else 16
        if native and tensor.stored_bits is not None:
            bits = tensor.stored_bits
        return tensor.parameters * bits / 8, 0.0
    if native:
        format_id = arch.native.format_of(tensor.origin, layer, tensor.name, tensor.component == "mtp")
    form = weight_format(format_id)
    scales = form.scale_bytes(tensor.rows, tensor.cols) * tensor.copies
    return form.matrix_bytes(tensor.rows, tensor.cols) * tensor.copies - scales, scales


def component_bytes(arch: Architecture, formats: Mapping[str, str] | str) -> dict[str, float]:
    """Bytes of each component, with all quantisation scales under ``scales``.

    ``formats`` is ``native``, a format id for every weight matrix (embeddings, LM head, router and norms stay at
    16 bit), or a mapping from component to format id or ``native``; components that it does not name are native.
    """
    wanted = _wanted(arch, formats)
    sizes = dict.fromkeys(wanted, 0.0)
    scales = 0.0
    for layer, tensor in arch.tensors():
        weights, scale = _sizes(arch, layer, tensor, wanted[tensor.component])
        sizes[tensor.component] += weights
        scales += scale
    return {**sizes, SCALES: scales}


def stored_bytes(arch: Architecture, formats: Mapping[str, str] | str) -> dict[str, float]:
    """As :func:`component_bytes`, but each component's quantisation scales are counted with it."""
    wanted = _wanted(arch, formats)
    sizes: dict[str, float] = {}
    for layer, tensor in arch.tensors():
        sizes[tensor.component] = sizes.get(tensor.component, 0.0) + sum(
            _sizes(arch, layer, tensor, wanted[tensor.component])
        )
    return sizes


def _wanted(arch: Architecture, formats: Mapping[str, str] | str) -> dict[str, str]:
    components = parameters(arch).by_component
    if isinstance(formats, str):
        if formats == NATIVE:
            return dict.fromkeys(components, NATIVE)
        kept = weight_format("bf16").id
        chosen = weight_format(formats).id
        return {name: kept if name in KEPT else chosen for name in components}
    for name, format_id in formats.items():
        if name not in components:
            raise ModelError(f"{arch.name} has no component {quoted(name)}; it has {', '.join(components)}.")
        if format_id != NATIVE:
            weight_format(format_id)
    return {name: formats.get(name, NATIVE) for name in components}


@lru_cache(maxsize=1024)
def expert_bytes(arch: Architecture, format_id: str = NATIVE) -> float:
    """Bytes of one routed expert, scales included, in ``native`` or a named format."""
    layer = next(layer for layer in arch.layers if layer.is_moe)
    return sum(sum(_sizes(arch, layer.index, tensor, format_id)) for tensor in layer.expert_tensors)


@lru_cache(maxsize=128)
def _checkpoint(arch: Architecture) -> tuple[tuple[str, float], ...]:
    rows = [(NATIVE, sum(component_bytes(arch, NATIVE).values()))]
    for bits in WIDTHS:
        rows.append((str(bits), sum(component_bytes(arch, format_for_bits(bits)).values())))
    return tuple(rows)


def checkpoint_bytes(arch: Architecture) -> dict[str, float]:
    """Bytes of the whole checkpoint: ``native`` and for 16, 8, 4, 3, 2 and 1 bit.

    N bits: every weight matrix of attention, dense, shared and routed parts and MTP in ``format_for_bits(N)``;
    embeddings, LM head, router and norms at 16 bit. 16 is two bytes per parameter.
    """
    return dict(_checkpoint(arch))


def scale_count(arch: Architecture) -> int:
    """Number of quantisation scales of the native checkpoint: what some published totals hold beside the weights."""
    count = 0
    for layer, tensor in arch.tensors():
        if tensor.quantised:
            form = arch.native.format_of(tensor.origin, layer, tensor.name, tensor.component == "mtp")
            count += weight_format(form).scale_count(tensor.rows, tensor.cols) * tensor.copies
    return count
