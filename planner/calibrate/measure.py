"""Losses of the experts of a checkpoint, one expert in memory at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from planner.calibrate.errors import CalibrationError
from planner.calibrate.experts import Activation, Expert, hidden, output, relative_error
from planner.calibrate.gptq import factor_of, gptq, second_moment
from planner.calibrate.layouts import ExpertReader
from planner.calibrate.quantise import round_to_nearest

Method = Literal["rtn", "gptq"]
METHODS: tuple[Method, ...] = ("rtn", "gptq")
HELD_OUT = 4
"""One sample in so many is kept from GPTQ: on samples that it was fitted to, its error looks too small."""
RTN_SAMPLES = 256
GPTQ_SAMPLES = (1024, 16_384)
"""Least and most drawn samples for GPTQ; between them it gets two for each inner channel of an expert."""
_CHUNK = 1024


class Source(Protocol):
    """Where the inputs of a layer's experts come from."""

    @property
    def sentence(self) -> str: ...

    def of_layer(self, layer: int, width: int, wanted: int) -> np.ndarray: ...

    def second_moment(self, width: int) -> np.ndarray | None: ...


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

    Every expert of a layer sees the same activations. Round-to-nearest is compared over all of them. GPTQ is fitted to
    three of four, each matrix on its full-precision inputs, and compared over the others. ``progress`` is called with
    layer, expert and experts before each expert. Raises CalibrationError.
    """
    start = time.perf_counter()
    reader.require(tuple(layers))
    experts = {reader.experts(layer) for layer in layers}
    if len(experts) != 1:
        raise CalibrationError(f"The layers have {sorted(experts)} experts; a loss table needs as many in each.")
    losses = np.empty((len(layers), experts.pop(), len(bits)))
    read = 0
    for i, layer in enumerate(layers):
        inner, width, gated = reader.shape(layer)
        if gated != activation.gated:
            raise CalibrationError(
                f"The experts of layer {layer} have {'a' if gated else 'no'} gate, which does not go with the "
                f"activation {activation.kind}."
            )
        inputs = _inputs(source, layer, width, inner, method)
        each = reader.stored_bytes(layer, 0)
        for expert in range(losses.shape[1]):
            if progress is not None:
                progress(layer, expert, losses.shape[1])
            weights = reader.load(layer, expert)
            read += each
            try:
                losses[i, expert] = expert_losses(weights, inputs, activation, bits, group_size)
            except CalibrationError as error:
                raise CalibrationError(f"Layer {layer}, expert {expert}: {error}") from None
    return Measured(tuple(layers), tuple(bits), losses, read, time.perf_counter() - start)


@dataclass(frozen=True)
class Inputs:
    """Activations of one layer. ``fit`` and ``factor`` are there for GPTQ only."""

    compare: np.ndarray
    """float32 [samples, d]: the losses are over these"""
    fit: np.ndarray | None = None
    """float32 [other samples, d]"""
    factor: np.ndarray | None = None
    """Hessian factor of the inputs, float32 [d, d]"""


def _inputs(source: Source, layer: int, width: int, inner: int, method: Method) -> Inputs:
    if method == "rtn":
        return Inputs(source.of_layer(layer, width, RTN_SAMPLES))
    least, most = GPTQ_SAMPLES
    x = source.of_layer(layer, width, min(max(2 * inner * HELD_OUT // (HELD_OUT - 1), least), most))
    return split(x, source.second_moment(width))


def split(x: np.ndarray, moment: np.ndarray | None = None) -> Inputs:
    """Inputs for GPTQ: every fourth sample to compare over, the others to fit to. moment: E[x x^T] where known."""
    if len(x) < HELD_OUT:
        raise CalibrationError(f"GPTQ needs at least {HELD_OUT} samples and got {len(x)}; rtn does with one.")
    held = np.arange(len(x)) % HELD_OUT == HELD_OUT - 1
    fit = x[~held]
    return Inputs(x[held], fit, factor_of(second_moment([fit], x.shape[1]) if moment is None else moment))


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused, in words
def expert_losses(
    expert: Expert, inputs: Inputs, activation: Activation, bits: Sequence[int], group_size: int
) -> list[float]:
    """Relative error of one expert's output at each bit-width: by GPTQ if the inputs have a factor, else rounded."""
    x = inputs.compare
    reference = output(expert, hidden(expert, x, activation))
    if not np.isfinite(reference).all():
        raise CalibrationError("its output over these activations is not finite.")
    weights = (expert.up, expert.down) if expert.gate is None else (expert.gate, expert.up, expert.down)
    if not reference.any() and all(w.any() for w in weights):
        raise CalibrationError("its output over these activations is zero throughout, so they say nothing of its loss.")
    last = None
    if inputs.fit is not None:
        fit = inputs.fit
        parts = (hidden(expert, fit[i : i + _CHUNK], activation) for i in range(0, len(fit), _CHUNK))
        moment = second_moment(parts, expert.down.shape[1])
        if not np.isfinite(moment).all():
            raise CalibrationError("its inner activations are not finite.")
        last = factor_of(moment)

    def quantised(weights: np.ndarray, factor: np.ndarray | None, width: int) -> np.ndarray:
        if factor is None:
            return round_to_nearest(weights, width, group_size)
        return gptq(weights, factor, width, group_size)

    losses = []
    for width in bits:
        gate = None if expert.gate is None else quantised(expert.gate, inputs.factor, width)
        up = quantised(expert.up, inputs.factor, width)
        changed = expert.with_weights(gate, up, quantised(expert.down, last, width))
        losses.append(relative_error(output(changed, hidden(changed, x, activation)), reference))
        if not np.isfinite(losses[-1]):
            raise CalibrationError(f"its output at {width} bits is not finite.")
    return losses
