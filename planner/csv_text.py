"""Rows as CSV text that no spreadsheet runs: a text that starts like a formula is quoted."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

_PLAIN = str.maketrans({"\u202f": " ", "\u00a0": " ", "\u2212": "-"})


def to_csv(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as CSV text. A leading =, +, - or @ of a text is quoted, so that no spreadsheet runs it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([harmless(cell) for cell in head])
    for row in rows:
        writer.writerow([harmless(cell) for cell in row])
    return out.getvalue()


def harmless(cell: object) -> object:
    """A cell as a spreadsheet shows it and never computes it; numbers stay numbers, nothing stays empty."""
    if isinstance(cell, str):
        text = cell.translate(_PLAIN)
        if text[:1] in ("=", "+", "@", "\t", "\r") or (text[:1] == "-" and not text[1:2].isdigit()):
            return "'" + text
        return text
    return "" if cell is None else cell
