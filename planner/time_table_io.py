"""Time tables in and out of CSV. What is read is hostile until parsed; what is written is whole or absent.

Columns ``device, tokens, seconds`` and, if wanted, ``format``, in any order, after optional lines that start with
``#``; one of them, ``# tierline-time-table: {...}``, keeps source, model and system.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models import formats
from planner.context import NATIVE
from planner.fields.sentences import nearest, shown
from planner.loss_table_io import write_whole
from planner.time_table import ANY, DEVICES, Curve, TimeTable, TimeTableError

COLUMNS = ("device", "tokens", "seconds")
OPTIONAL = ("format",)
KEY = "tierline-time-table"
MAX_FILE_BYTES = 8_000_000
MAX_ROWS = 200_000
_LONGEST_HEADER = 10_000


def read_table(path: str | Path) -> TimeTable:
    """The table in a CSV file. Raises TimeTableError with one sentence."""
    name = Path(path).name
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise TimeTableError(f"There is no time table file {shown(name)}.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not valid"
        raise TimeTableError(f"The time table file {shown(name)} cannot be read: {reason}.") from None
    return parse_table(data, name)


def parse_table(data: bytes, name: str = "the uploaded file") -> TimeTable:
    """The table in the bytes of a CSV file. ``name`` is only shown."""
    if len(data) > MAX_FILE_BYTES:
        raise TimeTableError(
            f"The time table {shown(name)} is larger than {MAX_FILE_BYTES / 1e6:.0f} MB, the most that is accepted."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TimeTableError(f"{shown(name)} is not CSV in UTF-8.") from None
    kept: dict[str, Any] = {}
    start = skipped = 0
    lines = io.StringIO(text, newline="")
    for line in lines:
        if line.startswith("#"):
            kept = kept or _kept(line)
        elif line.strip():
            break
        start, skipped = start + len(line), skipped + 1
    lines.seek(start)
    reader = csv.reader(lines, strict=True)
    rows: dict[tuple[str, str], tuple[list[int], list[float]]] = {}
    try:
        order = _order([cell.strip().lower() for cell in next(reader, [])], name)
        for number, row in enumerate((row for row in reader if row), 1):
            where = f"Line {skipped + reader.line_num:,} of {shown(name)}"
            if number > MAX_ROWS:
                raise TimeTableError(f"{shown(name)} has more than {MAX_ROWS:,} rows, the most that is accepted.")
            if len(row) != len(order):
                raise TimeTableError(f"{where} has {len(row)} values; the header names {len(order)} columns.")
            cells = {column: row[i].strip() for column, i in order.items()}
            key, tokens, seconds = _row(cells, where)
            found = rows.setdefault(key, ([], []))
            found[0].append(tokens)
            found[1].append(seconds)
    except csv.Error as error:
        raise TimeTableError(f"Line {skipped + reader.line_num:,} of {shown(name)} is not CSV: {error}.") from None
    if not rows:
        raise TimeTableError(f"{shown(name)} has no rows; a time table needs at least one of gpu or cpu.")
    curves = tuple(Curve(device, fmt, tuple(n), tuple(s)) for (device, fmt), (n, s) in rows.items())
    return TimeTable(
        curves,
        _text(kept, "source") or "imported; the file does not say where its times come from",
        _text(kept, "model"),
        _text(kept, "system"),
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


def _order(header: Sequence[str], name: str) -> dict[str, int]:
    """Position of each column."""
    accepted = f"{', '.join(COLUMNS)} and, if wanted, {OPTIONAL[0]}"
    for column in header:
        if column not in COLUMNS + OPTIONAL:
            close = nearest(column, COLUMNS + OPTIONAL)
            hint = f"; the nearest is {close[0]}" if close else ""
            raise TimeTableError(
                f"{shown(name)} has the column {shown(column)}; the columns of a time table are {accepted}, separated "
                f"by commas{hint}."
            )
        if header.count(column) > 1:
            raise TimeTableError(f"{shown(name)} has the column {column} twice.")
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise TimeTableError(
            f"{shown(name)} lacks the column {missing[0]}; the columns of a time table are {accepted}."
        )
    return {column: header.index(column) for column in header}


def _kept(line: str) -> dict[str, Any]:
    """Source, model and system in a comment line; most comments have none, and anything odd says nothing."""
    text = line.lstrip("# ")
    if not text.startswith(f"{KEY}:") or len(text) > _LONGEST_HEADER:
        return {}
    try:
        found = json.loads(text.removeprefix(f"{KEY}:"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


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
    write_whole(path, table_bytes(table))
