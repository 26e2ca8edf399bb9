"""The loss of every expert at 1, 2, 3 and 4 bits, and where it comes from.

Loss is the mean squared error of the quantised expert's output over the mean square of the reference output, so that
measured, imported and surrogate tables are on one axis: 0 is exact, 1 is as wrong as answering zero.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from planner.errors import PlanError
from planner.fields.sentences import shown

BITS = (1, 2, 3, 4)
COLUMNS = ("layer", "expert", "bits", "loss")
MAX_LAYERS, MAX_EXPERTS = 1024, 4096
LONGEST_TEXT, MOST_NOTES = 2000, 50
_NAMED = 4


class LossTableError(PlanError):
    """A loss table that cannot be used; the message is one sentence."""

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))


def _plain(text: str) -> str:
    """One printable line; what a file says of itself is shown on pages and terminals."""
    one = " ".join("".join(c if c.isprintable() else " " for c in text[:LONGEST_TEXT]).split())
    return one.encode(errors="replace").decode()


@dataclass(frozen=True)
class Provenance:
    """Where the losses come from. Texts are cut to one printable line."""

    source: str
    """in words: measured on what, or assumed how"""
    method: str = ""
    """``rtn``, ``gptq`` or what else quantised the weights"""
    calibration: str = ""
    """the activations over which the outputs were compared"""
    model: str = ""
    """id of the model that was measured"""
    group_size: int | None = None
    """weights that share one scale; None: not known or not applicable"""
    software: str = ""
    date: str = ""
    """YYYY-MM-DD"""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str):
                object.__setattr__(self, field.name, _plain(value))
        object.__setattr__(self, "notes", tuple(_plain(note) for note in self.notes[:MOST_NOTES]))

    def as_dict(self) -> dict[str, Any]:
        """What a file keeps, without what is empty."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: list(v) if isinstance(v, tuple) else v for key, v in found.items() if v not in ("", None, ())}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], otherwise: str) -> Provenance:
        """From a file that may hold anything: what is not a text is dropped; ``otherwise`` stands for no source."""
        texts = {field.name: found[field.name] for field in fields(cls) if isinstance(found.get(field.name), str)}
        for name in ("notes", "group_size"):
            texts.pop(name, None)
        notes = found.get("notes")
        group = found.get("group_size")
        return cls(
            **{"source": otherwise, **texts},  # type: ignore[arg-type]
            group_size=group if isinstance(group, int) and not isinstance(group, bool) and 0 <= group < 10**6 else None,
            notes=tuple(n for n in notes if isinstance(n, str)) if isinstance(notes, list) else (),
        )


@dataclass(frozen=True, eq=False)
class LossTable:
    """Losses of a model's MoE layers. Raises LossTableError when the arrays are not a table.

    A measured loss may rise with bits; :meth:`rising` says where. What selects bit-widths refuses such a table.
    """

    layers: tuple[int, ...]
    """index of each MoE layer, as the checkpoint counts layers, ascending"""
    values: np.ndarray
    """float64 [layers, experts, 4]: relative mean squared error at 1, 2, 3, 4 bits; read-only"""
    surrogate: bool
    provenance: Provenance

    def __post_init__(self) -> None:
        layers = tuple(int(layer) for layer in self.layers)
        values = np.array(self.values, np.float64)
        if values.ndim != 3 or values.shape[0] != len(layers) or values.shape[2] != len(BITS) or 0 in values.shape:
            raise LossTableError(
                f"The losses have shape {values.shape}; accepted is [layers, experts, 4] for {len(layers)} layers."
            )
        if len(layers) > MAX_LAYERS or values.shape[1] > MAX_EXPERTS:
            raise LossTableError(
                f"The losses are of {len(layers)} layers of {values.shape[1]} experts; up to {MAX_LAYERS:,} layers of "
                f"{MAX_EXPERTS:,} experts are accepted."
            )
        if list(layers) != sorted(set(layers)) or layers[0] < 0:
            raise LossTableError("The layers of a loss table must be whole numbers from 0 up, each once, ascending.")
        bad = ~np.isfinite(values) | (values < 0)
        if bad.any():
            layer, expert, bit = (int(i[0]) for i in np.nonzero(bad))
            raise LossTableError(
                f"The loss of layer {layers[layer]}, expert {expert} at {BITS[bit]} bits is "
                f"{shown(float(values[layer, expert, bit]))}; accepted is a number from 0 up."
            )
        values.flags.writeable = False
        object.__setattr__(self, "layers", layers)
        object.__setattr__(self, "values", values)

    @property
    def experts(self) -> int:
        """Routed experts of each layer."""
        return int(self.values.shape[1])

    @property
    def source(self) -> str:
        """In words, where the losses come from."""
        return self.provenance.source

    @cached_property
    def digest(self) -> str:
        """SHA-256 over losses and provenance: the same table has the same digest on every machine."""
        head = json.dumps(
            {
                "layers": self.layers,
                "experts": self.experts,
                "surrogate": self.surrogate,
                "provenance": self.provenance.as_dict(),
            },
            sort_keys=True,
        )
        return hashlib.sha256(head.encode() + self.values.astype("<f8").tobytes()).hexdigest()

    def rising(self) -> list[tuple[int, int, int]]:
        """(layer, expert, bits) wherever the loss is larger than at one bit less; equal is accepted."""
        layer, expert, step = np.nonzero(np.diff(self.values, axis=2) > 0)
        return [(self.layers[a], int(b), BITS[c + 1]) for a, b, c in zip(layer, expert, step, strict=True)]

    def require_falling(self) -> LossTable:
        """The table itself; raises LossTableError that says where a loss rises with bits."""
        rises = self.rising()
        if rises:
            layer, expert, bits = rises[0]
            row = self.values[self.layers.index(layer), expert]
            more = f" (and at {len(rises) - 1:,} more places)" if len(rises) > 1 else ""
            raise LossTableError(
                f"The loss of layer {layer}, expert {expert} rises from {row[bits - 2]:.6g} at {bits - 1} bits to "
                f"{row[bits - 1]:.6g} at {bits}{more}; a loss may not rise with bits, so measure again with more "
                "samples or have it repaired (calibrate-losses --repair)."
            )
        return self

    def repaired(self) -> LossTable:
        """The nearest table in least squares whose losses do not rise with bits; its notes say how many did."""
        rises = self.rising()
        if not rises:
            return self
        values = np.array(self.values)
        for layer, expert in {(layer, expert) for layer, expert, _ in rises}:
            row = self.layers.index(layer)
            values[row, expert] = falling(values[row, expert])
        note = f"{len(rises)} of {self.values.size} losses rose with bits and were levelled by least squares."
        was = self.provenance
        kept = {field.name: getattr(was, field.name) for field in fields(was)}
        return LossTable(self.layers, values, self.surrogate, Provenance(**{**kept, "notes": (*was.notes, note)}))

    def for_model(self, moe_layers: Sequence[int], experts: int) -> np.ndarray:
        """float64 [MoE layers, experts, 4] for a model with these MoE layers; raises LossTableError if it is another's.

        moe_layers: indices as the checkpoint counts layers (``Architecture.moe_layers``).
        """
        wanted = [int(layer) for layer in moe_layers]
        if self.experts != experts:
            raise LossTableError(
                f"The loss table has {self.experts} experts in each layer; the model has {experts} routed experts."
            )
        missing = sorted(set(wanted) - set(self.layers))
        foreign = sorted(set(self.layers) - set(wanted))
        if missing or foreign:
            which = f"lacks {_listed('layer', missing)}" if missing else f"also has {_listed('layer', foreign)}"
            raise LossTableError(
                f"The loss table {which}; the MoE layers of the model are {_spans(wanted)}, counted as in its "
                f"checkpoint, and the table has {_spans(self.layers)}."
            )
        self.require_falling()
        return self.values


def falling(row: np.ndarray) -> np.ndarray:
    """The non-increasing row nearest to ``row`` in least squares (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in row:
        mean, size = float(value), 1
        while blocks and blocks[-1][0] < mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    return np.concatenate([np.full(size, mean) for mean, size in blocks])


def _listed(what: str, numbers: Sequence[int]) -> str:
    some = [str(n) for n in numbers[:_NAMED]]
    more = len(numbers) - len(some)
    plural = "s" if len(numbers) > 1 else ""
    return f"{what}{plural} {', '.join(some)}{f' and {more:,} more' if more else ''}"


def _spans(numbers: Iterable[int]) -> str:
    """``3 to 60``, or ``1, 3 to 5`` (at most four spans)."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [str(a) if a == b else f"{a} to {b}" for a, b in spans]
    return ", ".join(texts[:_NAMED]) + (" ..." if len(texts) > _NAMED else "")


def table_from_rows(
    layer: np.ndarray, expert: np.ndarray, bits: np.ndarray, loss: np.ndarray, surrogate: bool, provenance: Provenance
) -> LossTable:
    """A table from one row per layer, expert and bit-width, in any order.

    layer, expert, bits: int64 [rows]; loss: float64 [rows]. Raises LossTableError for a number out of range, a
    duplicate, an expert that is missing (which), a loss that is negative, not a number, or rises with bits (where).
    """
    if not layer.size:
        raise LossTableError("The loss table has no rows; one for each layer, expert and bit-width is needed.")
    _in_range("layer", layer, 0, MAX_LAYERS - 1)
    _in_range("expert", expert, 0, MAX_EXPERTS - 1)
    _in_range("bits", bits, BITS[0], BITS[-1])
    layers, position = np.unique(layer, return_inverse=True)
    experts = int(expert.max()) + 1
    cell = (position * experts + expert) * len(BITS) + bits - 1
    seen = np.bincount(cell, minlength=len(layers) * experts * len(BITS)).reshape(len(layers), experts, len(BITS))
    _once_each(seen, layers)
    values = np.empty(seen.size)
    values[cell] = loss
    shaped = values.reshape(seen.shape)
    return LossTable(tuple(int(n) for n in layers), shaped, surrogate, provenance).require_falling()


def _in_range(name: str, column: np.ndarray, low: int, high: int) -> None:
    bad = (column < low) | (column > high)
    if bad.any():
        row = int(np.argmax(bad))
        raise LossTableError(
            f"Row {row + 1:,} of the loss table has {name} {int(column[row])}; accepted is a whole number from {low} "
            f"to {high:,}."
        )


def _once_each(seen: np.ndarray, layers: np.ndarray) -> None:
    """Refuses a cell that is given twice, an expert without any row, and an expert that lacks a bit-width."""
    if (seen > 1).any():
        layer, expert, bit = (int(i[0]) for i in np.nonzero(seen > 1))
        raise LossTableError(
            f"The loss table gives layer {layers[layer]}, expert {expert} at {BITS[bit]} bits "
            f"{int(seen[layer, expert, bit])} times; once is accepted."
        )
    absent = (seen == 0).all(axis=2)
    if absent.any():
        layer = int(np.argmax(absent.any(axis=1)))
        others = int(absent.any(axis=1).sum()) - 1
        more = f" (and experts of {others} more layers)" if others else ""
        missing = [int(e) for e in np.nonzero(absent[layer])[0]]
        raise LossTableError(
            f"The loss table lacks {_listed('expert', missing)} of layer {layers[layer]}{more}; another layer has "
            f"{seen.shape[1]} experts, and every layer needs all of them."
        )
    if (seen == 0).any():
        layer, expert, bit = (int(i[0]) for i in np.nonzero(seen == 0))
        raise LossTableError(
            f"The loss table lacks layer {layers[layer]}, expert {expert} at {BITS[bit]} bits; every expert needs its "
            "loss at 1, 2, 3 and 4 bits."
        )
