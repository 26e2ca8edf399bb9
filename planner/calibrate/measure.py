"""Losses of the experts of a checkpoint, one expert in memory at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from planner.calibrate.errors import CalibrationError
from planner.calibrate.experts import Activation, Expert, hidden, output, relative_error
from planner.calibrate.gptq import gptq, hessian_factor
from planner.calibrate.layouts import ExpertReader
from planner.calibrate.quantise import round_to_nearest

Method = Literal["rtn", "gptq"]
METHODS: tuple[Method, ...] = ("rtn", "gptq")


class Source(Protocol):
    """Where the inputs of a layer's experts come from."""

    @property
    def sentence(self) -> str: ...

    def of_layer(self, layer: int, width: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Measured:
    """Losses of some layers at some bit-widths."""

    layers: tuple[int, ...]
    bits: tuple[int, ...]
    losses: np.ndarray
    """float64 [layers, experts, bits]"""
    read_bytes: int
    """bytes of expert weights in the checkpoint that were read"""
    seconds: float


def measure(
    reader: ExpertReader,
    layers: Sequence[int],
    source: Source,
    activation: Activation,
    bits: Sequence[int] = (1, 2, 3, 4),
    method: Method = "gptq",
    group_size: int = 128,
    progress: Callable[[int, int, int], None] | None = None,
) -> Measured:
    """Quantise every expert of ``layers`` and compare its output with the full-precision one over the activations.

    Every expert of a layer sees the same activations. GPTQ uses the full-precision inputs of each matrix. ``progress``
    is called with layer, expert and experts before each expert. Raises CalibrationError.
    """
    start = time.perf_counter()
    reader.require(tuple(layers))
    experts = {reader.experts(layer) for layer in layers}
    if len(experts) != 1:
        raise CalibrationError(f"The layers have {sorted(experts)} experts; a loss table needs as many in each.")
    losses = np.empty((len(layers), experts.pop(), len(bits)))
    read = 0
    for i, layer in enumerate(layers):
        _, width, gated = reader.shape(layer)
        if gated != activation.gated:
            raise CalibrationError(
                f"The experts of layer {layer} have {'a' if gated else 'no'} gate, which does not go with the "
                f"activation {activation.kind}."
            )
        x = source.of_layer(layer, width)
        first = hessian_factor(x) if method == "gptq" else None
        each = reader.stored_bytes(layer, 0)
        for expert in range(losses.shape[1]):
            if progress is not None:
                progress(layer, expert, losses.shape[1])
            weights = reader.load(layer, expert)
            read += each
            try:
                losses[i, expert] = expert_losses(weights, x, activation, bits, method, group_size, first)
            except CalibrationError as error:
                raise CalibrationError(f"Layer {layer}, expert {expert}: {error}") from None
    return Measured(tuple(layers), tuple(bits), losses, read, time.perf_counter() - start)


def expert_losses(
    expert: Expert,
    x: np.ndarray,
    activation: Activation,
    bits: Sequence[int],
    method: Method,
    group_size: int,
    first_factor: np.ndarray | None,
) -> list[float]:
    """Relative error of one expert's output at each bit-width, over inputs x, float32 [samples, d].

    first_factor: Hessian factor of x for GPTQ; the last matrix has its own, from the expert's inner activations.
    """
    inner = hidden(expert, x, activation)
    reference = output(expert, inner)
    if not (np.isfinite(inner).all() and np.isfinite(reference).all()):
        raise CalibrationError("its output over these activations is not finite.")
    last_factor = hessian_factor(inner) if method == "gptq" else None

    def quantised(weights: np.ndarray, factor: np.ndarray | None, width: int) -> np.ndarray:
        if factor is None:
            return round_to_nearest(weights, width, group_size)
        return gptq(weights, factor, width, group_size)

    losses = []
    for width in bits:
        gate = None if expert.gate is None else quantised(expert.gate, first_factor, width)
        up = quantised(expert.up, first_factor, width)
        changed = expert.with_weights(gate, up, quantised(expert.down, last_factor, width))
        losses.append(relative_error(output(changed, hidden(changed, x, activation)), reference))
    return losses
