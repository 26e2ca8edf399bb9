"""What a config cannot tell about its checkpoint: small notes with sources, kept in ``catalog/notes.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.architecture import FormatRule, NativeFormat


@dataclass(frozen=True)
class Note:
    """``mtp_layers`` is how many MTP blocks the checkpoint stores (None: as many as the config declares)."""

    mtp_layers: int | None = None
    mtp_duplicate_tables: bool = False
    native: NativeFormat | None = None
    notes: tuple[str, ...] = ()


def read_note(row: Mapping[str, Any]) -> Note:
    """A row of ``notes.json`` under ``checkpoints``."""
    native = None
    if "native" in row:
        stated = row["native"]
        native = NativeFormat(
            base=stated.get("base", "bf16"),
            by_component=tuple(stated["by_component"].items()),
            rules=tuple(
                FormatRule(rule["component"], rule["format"], frozenset(rule["layers"]))
                for rule in stated.get("rules", ())
            ),
            mtp=stated.get("mtp"),
            source=stated["source"],
        )
    notes = tuple(row.get("notes", ())) + ((f"MTP: {row['mtp_source']}",) if "mtp_source" in row else ())
    return Note(row.get("mtp_layers"), row.get("mtp_duplicate_tables", False), native, notes)
