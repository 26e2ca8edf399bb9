"""The loss tables of this machine, found by their content.

A scenario is small and must give the same figures wherever it is opened, so it names a table by digest
(``policy.options["loss_table"]``); the table itself lies in ``loss_tables/`` of the data directory (``TIERLINE_DATA``,
else the user's own), and a table that was changed on disk is refused.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from planner.data_folder import folder
from planner.fields.sentences import shown
from planner.loss_table import BITS, MAX_EXPERTS, MAX_LAYERS, LossTable, LossTableError, Provenance
from planner.loss_table_io import write_whole
from planner.losses import DEFAULT_SPREAD, LARGEST_SPREAD, surrogate_losses

SURROGATE = "surrogate"
FOLDER, SUFFIX = "loss_tables", ".npz"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SHORTEST = 8
_DAMAGE = (OSError, EOFError, ValueError, KeyError, AttributeError, TypeError, RecursionError)
_LARGEST_BYTES = MAX_LAYERS * MAX_EXPERTS * len(BITS) * 8 + 10_000_000


def directory() -> Path:
    """Where tables are kept; made when the first one is."""
    return folder(FOLDER)


def register(table: LossTable) -> str:
    """Keep a table and return its digest; keeping it again does nothing. Raises LossTableError if a loss rises."""
    table.require_falling()
    home = directory()
    path = home / f"{table.digest}{SUFFIX}"
    if not path.is_file():
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise LossTableError(f"The folder for loss tables, {shown(str(home))}, cannot be made: {reason}.") from None
        kept = json.dumps({**table.provenance.as_dict(), "surrogate": table.surrogate})
        buffer = io.BytesIO()
        np.savez(
            buffer, layers=np.array(table.layers), values=table.values, about=np.frombuffer(kept.encode(), np.uint8)
        )
        write_whole(path, buffer.getvalue())
    return table.digest


def get(digest: str) -> LossTable:
    """The table with this digest. Raises LossTableError when this machine has none, or it is damaged."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise LossTableError(
            f"A loss table is named by the 64 hexadecimal digits of its digest or as {SURROGATE}, not by "
            f"{shown(digest)}; import-losses and calibrate-losses --register print the digest."
        )
    return _get(directory() / f"{digest}{SUFFIX}", digest)


def known() -> tuple[str, ...]:
    """Digests of the tables that this machine has, in order."""
    try:
        names = [path.name.removesuffix(SUFFIX) for path in directory().iterdir() if path.suffix == SUFFIX]
    except OSError:
        return ()
    return tuple(sorted(name for name in names if _DIGEST.fullmatch(name)))


def find(beginning: str) -> str:
    """The one known digest that starts so (at least eight digits). Raises LossTableError for none or several."""
    found = [digest for digest in known() if digest.startswith(beginning)] if len(beginning) >= _SHORTEST else []
    if len(found) != 1:
        what = f"{len(found)} loss tables of this machine start" if found else "no loss table of this machine starts"
        raise LossTableError(f"The digest {shown(beginning)} is not one: {what} so; at least {_SHORTEST} digits.")
    return found[0]


@lru_cache(maxsize=8)
def _get(path: Path, digest: str) -> LossTable:
    short = digest[:12]
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ValueError("too large")
        with np.load(path, allow_pickle=False) as file:
            kept = json.loads(bytes(file["about"]).decode())
            about = Provenance.from_dict(kept, otherwise="not stated")
            table = LossTable(tuple(file["layers"].tolist()), file["values"], kept.get("surrogate") is True, about)
    except FileNotFoundError:
        raise LossTableError(
            f"The loss table {short}... is not on this machine; import the file that it came from (import-losses)."
        ) from None
    except (*_DAMAGE, zipfile.BadZipFile):
        raise LossTableError(f"The loss table {short}... is damaged on disk; import it again.") from None
    if table.digest != digest:
        raise LossTableError(f"The loss table {short}... was changed on disk; import it again.")
    return table


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
            if not _DIGEST.fullmatch(text.strip()):
                raise LossTableError(
                    f"loss_table is {shown(text)}; accepted is {SURROGATE}, {SURROGATE}:SPREAD, or the 64 hexadecimal "
                    "digits of a loss table's digest."
                )
            return cls(digest=text.strip())
        if not spread:
            return cls()
        try:
            value = float(spread)
        except ValueError:
            value = float("nan")
        if not 0.0 <= value <= LARGEST_SPREAD:
            raise LossTableError(
                f"loss_table is {shown(text)}; the spread of the surrogate is a number from 0 to {LARGEST_SPREAD:g}."
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
