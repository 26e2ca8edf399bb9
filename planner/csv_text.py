"""Rows as CSV text that no spreadsheet runs: a text that starts like a formula is quoted."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

_PLAIN = str.maketrans({"\u202f": " ", "\u00a0": " ", "\u2212": "-"})
_NEGATIVE = re.compile(r"-\d[\d., ]*(e[-+]?\d+)?( ?[%\w$][^=+*|!()]*)?", re.IGNORECASE)
"""a negative number with its unit, which no spreadsheet computes with"""


def to_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV text: floats with all their digits, truth as true and false, nothing as an empty cell."""
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
        if text[:1] in ("=", "+", "@", "\t", "\r") or (text[:1] == "-" and not _NEGATIVE.fullmatch(text)):
            return "'" + text
        return text
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else cell
