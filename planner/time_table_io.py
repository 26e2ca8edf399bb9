"""Time tables in and out of CSV. What is read is hostile until parsed; what is written is whole or absent.

Columns ``device, tokens, seconds`` and, if wanted, ``format``, in any order, after optional lines that start with
``#``; one of them, ``# tierline-time-table: {...}``, keeps source, model and system.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from models import formats
from planner.context import NATIVE
from planner.csv_tables import CsvTable, Kind
from planner.fields.sentences import nearest, shown
from planner.files import read_limited, write_whole
from planner.time_table import ANY, DEVICES, Curve, TimeTable, TimeTableError

KEY = "tierline-time-table"
KIND = Kind(
    what="time table",
    columns=("device", "tokens", "seconds"),
    optional=("format",),
    key=KEY,
    error=TimeTableError,
    most_bytes=8_000_000,
    most_rows=200_000,
    longest_header=10_000,
)


def read_table(path: str | Path) -> TimeTable:
    """The table in a CSV file. Raises TimeTableError with one sentence."""
    return parse_table(read_limited(path, KIND.most_bytes, "time table file", TimeTableError), Path(path).name)


def parse_table(data: bytes, name: str = "the uploaded file") -> TimeTable:
    """The table in the bytes of a CSV file. ``name`` is only shown."""
    KIND.check_size(data, name)
    table = CsvTable(KIND, data, name)
    rows: dict[tuple[str, str], tuple[list[int], list[float]]] = {}
    for line, row in table:
        cells = {column: row[i].strip() for column, i in table.order.items()}
        key, tokens, seconds = _row(cells, table.where(line))
        found = rows.setdefault(key, ([], []))
        found[0].append(tokens)
        found[1].append(seconds)
    if not rows:
        raise TimeTableError(f"{shown(name)} has no rows; a time table needs at least one of gpu or cpu.")
    curves = tuple(Curve(device, fmt, tuple(n), tuple(s)) for (device, fmt), (n, s) in rows.items())
    return TimeTable(
        curves,
        _text(table.kept, "source") or "imported; the file does not say where its times come from",
        _text(table.kept, "model"),
        _text(table.kept, "system"),
    )


def _row(cells: dict[str, str], where: str) -> tuple[tuple[str, str], int, float]:
    """(device, format), tokens and seconds of a row."""
    device = cells["device"].lower()
    if device not in DEVICES:
        raise TimeTableError(f"{where} has the device {shown(cells['device'])}; accepted are gpu and cpu.")
    fmt = cells.get("format", ANY)
    if fmt not in (ANY, NATIVE) and fmt not in formats.FORMATS:
        close = nearest(fmt, [NATIVE, *formats.FORMATS])
        hint = f"; the nearest is {close[0]}" if close else ""
        raise TimeTableError(f"{where} has the format {shown(fmt)}, which is not known{hint}.")
    try:
        tokens = float(cells["tokens"])
        if tokens != int(tokens):
            raise ValueError
    except (ValueError, OverflowError):
        raise TimeTableError(
            f"{where} has {shown(cells['tokens'])} tokens; a whole number from 1 up is accepted."
        ) from None
    try:
        seconds = float(cells["seconds"])
    except ValueError:
        raise TimeTableError(f"{where} has {shown(cells['seconds'])} seconds; a number above 0 is accepted.") from None
    return (device, fmt), int(tokens), seconds


def _text(kept: dict[str, Any], name: str) -> str:
    value = kept.get(name)
    return value if isinstance(value, str) else ""


def table_bytes(table: TimeTable) -> bytes:
    """The table as a CSV file; reading it back gives the same table, and the same bytes."""
    about = {"source": table.source, "model": table.model, "system": table.system}
    kept = json.dumps({k: v for k, v in about.items() if v}, sort_keys=True)
    lines = [f"# {KEY}: {kept}", "device,format,tokens,seconds"]
    for curve in table.curves:
        lines += [f"{curve.device},{curve.format},{n},{s!r}" for n, s in zip(curve.tokens, curve.seconds, strict=True)]
    return ("\n".join(lines) + "\n").encode()


def digest(table: TimeTable) -> str:
    """SHA-256 of the table as a file, hexadecimal."""
    return hashlib.sha256(table_bytes(table)).hexdigest()


def write_table(table: TimeTable, path: str | Path) -> None:
    """Write a CSV file, whole or not at all."""
    if Path(path).suffix.lower() != ".csv":
        raise TimeTableError(f"The file {shown(Path(path).name)} must end in .csv.")
    write_whole(path, table_bytes(table), TimeTableError)
