"""The loss tables of this machine, kept by their content, and which losses a scenario uses.

A scenario names a table by digest (``policy.options["loss_table"]``).
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass

import numpy as np

from planner.fields.sentences import shown
from planner.keeper import Keeper
from planner.loss_table import BITS, MAX_EXPERTS, MAX_LAYERS, LossTable, LossTableError, Provenance
from planner.losses import DEFAULT_SPREAD, LARGEST_SPREAD, surrogate_losses

SURROGATE = "surrogate"
_DAMAGE = (OSError, EOFError, ValueError, KeyError, AttributeError, TypeError, RecursionError, zipfile.BadZipFile)


def _written(table: LossTable) -> bytes:
    about = json.dumps({**table.provenance.as_dict(), "surrogate": table.surrogate})
    buffer = io.BytesIO()
    np.savez(buffer, layers=np.array(table.layers), values=table.values, about=np.frombuffer(about.encode(), np.uint8))
    return buffer.getvalue()


def _read(data: bytes) -> LossTable:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            kept = json.loads(bytes(file["about"]).decode())
            about = Provenance.from_dict(kept, otherwise="not stated")
            return LossTable(tuple(file["layers"].tolist()), file["values"], kept.get("surrogate") is True, about)
    except _DAMAGE:
        raise ValueError("no loss table as it is kept") from None


_TABLES = Keeper[LossTable](
    folder="loss_tables",
    suffix=".npz",
    plural="loss tables",
    subject="The loss table",
    option="policy.options.loss_table",
    accepted=f"{SURROGATE}, {SURROGATE}:SPREAD, or the 64 hexadecimal digits of a loss table's digest, which "
    "import-losses prints",
    again="import the file that it came from (import-losses)",
    largest_bytes=MAX_LAYERS * MAX_EXPERTS * len(BITS) * 8 + 10_000_000,
    read=_read,
    write=_written,
    digest=lambda table: table.digest,
    error=LossTableError,
    open_at_once=8,
)
directory, known, get = _TABLES.directory, _TABLES.known, _TABLES.get


def register(table: LossTable) -> str:
    """Keep a table and return its digest; keeping it again does nothing. Raises LossTableError if a loss rises."""
    return _TABLES.register(table.require_falling())


@dataclass(frozen=True)
class LossChoice:
    """Which losses a scenario uses: a kept table, or the surrogate with a spread of its sensitivities."""

    digest: str | None = None
    spread: float = DEFAULT_SPREAD

    @classmethod
    def parse(cls, text: str) -> LossChoice:
        """``surrogate``, ``surrogate:0.8`` (its spread), or the digest of a kept table. Raises LossTableError."""
        word, _, spread = text.strip().partition(":")
        if word != SURROGATE:
            return cls(digest=_TABLES.named(text.strip()))
        if not spread:
            return cls()
        try:
            value = float(spread)
        except ValueError:
            value = float("nan")
        if not 0.0 <= value <= LARGEST_SPREAD:
            raise LossTableError(
                f"policy.options.loss_table is {shown(text)}; the spread of the surrogate is a number from 0 to "
                f"{LARGEST_SPREAD:g}."
            )
        return cls(spread=value)

    def table(self, layers: int, experts: int, seed: int = 0) -> LossTable:
        """The table itself; the surrogate is made for this many MoE layers and experts."""
        return get(self.digest) if self.digest else surrogate_losses(layers, experts, self.spread, seed)

    def losses(self, moe_layers: tuple[int, ...], experts: int, seed: int = 0) -> np.ndarray:
        """float64 [MoE layers, experts, 4] for a model; raises LossTableError when the table is of another shape."""
        table = self.table(len(moe_layers), experts, seed)
        return table.for_model(moe_layers, experts) if self.digest else table.values

    def sentence(self, model_id: str) -> str:
        """What the losses rest on, for the assumptions of a result."""
        if not self.digest:
            return surrogate_losses(1, 1, self.spread).source
        about = get(self.digest).provenance
        other = f"; measured on {about.model}, not on {model_id}" if about.model and about.model != model_id else ""
        return f"loss table {self.digest[:12]}: {about.source}{other}"

    def facts(self, model_id: str) -> tuple[tuple[str, str], ...]:
        """Label and sentence of a table's provenance, for the reports of a result; nothing for the surrogate."""
        if not self.digest:
            return ()
        table = get(self.digest)
        about = table.provenance
        words = [
            f"{about.source[:1].upper()}{about.source[1:]}",
            f"quantised by {about.method}" if about.method else "",
            f"activations: {about.calibration}" if about.calibration else "",
            f"groups of {about.group_size} weights" if about.group_size else "",
            f"measured on {about.model}, not on {model_id}" if about.model and about.model != model_id else "",
            ", ".join(part for part in (about.software, about.date) if part),
            *about.notes,
            f"digest {self.digest[:12]}",
        ]
        text = "; ".join(word.rstrip(". ") for word in words if word)
        return (("Loss table", f"{text}."),)
