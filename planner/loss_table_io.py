"""Loss tables in and out of CSV and Parquet. What is read is hostile until parsed; what is written is whole or absent.

CSV: columns ``layer, expert, bits, loss`` in any order, after optional lines that start with ``#``; one of them,
``# tierline-loss-table: {...}``, keeps the provenance. Parquet keeps it in the metadata of the file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner.csv_tables import CsvTable, Kind
from planner.fields.sentences import shown
from planner.files import read_limited, write_whole
from planner.loss_table import BITS, COLUMNS, LossTable, LossTableError, Provenance, table_from_rows

KEY = "tierline-loss-table"
SUFFIXES = (".csv", ".parquet")
Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""layer, expert, bits (int64) and loss (float64), one entry per row"""
_PARQUET_MAGIC = b"PAR1"
_FAR = 10**9
KIND = Kind(
    what="loss table",
    columns=COLUMNS,
    key=KEY,
    error=LossTableError,
    most_bytes=64_000_000,
    most_rows=2_000_000,
    longest_header=200_000,
    not_text="is neither CSV in UTF-8 nor Parquet",
)


def read_table(path: str | Path) -> LossTable:
    """The table in a CSV or Parquet file. Raises LossTableError with one sentence."""
    return parse_table(read_limited(path, KIND.most_bytes, "loss table file", LossTableError), Path(path).name)


def parse_table(data: bytes, name: str = "the uploaded file") -> LossTable:
    """The table in the bytes of a CSV or Parquet file (told apart by content). ``name`` is only shown."""
    KIND.check_size(data, name)
    columns, kept = _parquet(data, name) if data[:4] == _PARQUET_MAGIC else _csv(data, name)
    provenance = Provenance.from_dict(kept, otherwise="imported; the file does not say where its losses come from")
    return table_from_rows(*columns, kept.get("surrogate") is True, provenance)


# --- CSV -----------------------------------------------------------------------------------------------------------
def _csv(data: bytes, name: str) -> tuple[Columns, dict[str, Any]]:
    table = CsvTable(KIND, data, name)
    rows = [row for _, row in table]
    by_name = [[row[table.order[column]] for row in rows] for column in COLUMNS]
    layer, expert, bits = (_whole(by_name[i], COLUMNS[i]) for i in range(3))
    return (layer, expert, bits, _real(by_name[3])), table.kept


def _real(cells: Sequence[str]) -> np.ndarray:
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            values[row] = float(cell)
        except ValueError:
            raise LossTableError(
                f"Row {row + 1:,} of the loss table has the loss {shown(cell)}; accepted is a number from 0 up."
            ) from None
    return values


def _whole(cells: Sequence[str], column: str) -> np.ndarray:
    values = np.empty(len(cells), np.int64)
    for row, cell in enumerate(cells):
        try:
            # a spreadsheet may write 3 as 3.0
            number = int(cell) if len(cell) < 12 and cell.strip().lstrip("-").isdecimal() else float(cell)
            if number != int(number) or abs(number) > _FAR:
                raise ValueError
        except (ValueError, OverflowError):
            raise LossTableError(
                f"Row {row + 1:,} of the loss table has {column} {shown(cell)}; a whole number is accepted."
            ) from None
        values[row] = int(number)
    return values


# --- Parquet -------------------------------------------------------------------------------------------------------
def _parquet(data: bytes, name: str) -> tuple[Columns, dict[str, Any]]:
    """Sizes and types are checked on the metadata, before anything is decompressed."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        file = pyarrow.parquet.ParquetFile(io.BytesIO(data))
        schema, metadata = file.schema_arrow, file.metadata
        order = KIND.order(schema.names, name)
        KIND.check_rows(metadata.num_rows, name)
        unpacked = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        if unpacked > 4 * KIND.most_bytes:
            raise LossTableError(f"{shown(name)} unpacks to {unpacked / 1e6:,.0f} MB, more than is accepted.")
        for column in COLUMNS:
            kind = schema.types[order[column]]
            if not (pyarrow.types.is_integer(kind) or (column == "loss" and pyarrow.types.is_floating(kind))):
                wanted = "numbers are" if column == "loss" else "whole numbers are"
                raise LossTableError(f"The column {column} of {shown(name)} is of type {kind}; {wanted} accepted.")
        table = file.read(columns=list(COLUMNS))
        for column in COLUMNS:
            if table[column].null_count:
                raise LossTableError(
                    f"{table[column].null_count:,} rows of {shown(name)} have no {column}; every row needs one."
                )
        whole = (np.asarray(table[column].to_numpy()) for column in COLUMNS[:3])
        layer, expert, bits = (np.clip(values, -_FAR, _FAR).astype(np.int64) for values in whole)
        loss = np.asarray(table["loss"].to_numpy(), np.float64)
    except LossTableError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        reason = " ".join(str(error).split())[:120]
        raise LossTableError(f"{shown(name)} is not a Parquet file that can be read: {reason}.") from None
    stated = (schema.metadata or {}).get(KEY.encode(), b"")
    return (layer, expert, bits, loss), KIND.kept(stated.decode(errors="replace")) if stated else {}


# --- out -----------------------------------------------------------------------------------------------------------
def table_bytes(table: LossTable, kind: str = "csv") -> bytes:
    """The table as the bytes of a ``csv`` or ``parquet`` file; reading them back gives the same digest."""
    layer, expert, bits = (
        np.ascontiguousarray(axis.ravel())
        for axis in np.broadcast_arrays(
            np.array(table.layers, np.int32)[:, None, None],
            np.arange(table.experts, dtype=np.int32)[None, :, None],
            np.array(BITS, np.int32)[None, None, :],
        )
    )
    return rows_bytes(layer, expert, bits, table.values.ravel(), table.surrogate, table.provenance, kind)


def rows_bytes(
    layer: np.ndarray,
    expert: np.ndarray,
    bits: np.ndarray,
    loss: np.ndarray,
    surrogate: bool,
    provenance: Provenance,
    kind: str = "csv",
) -> bytes:
    """Rows as a file; also for some layers or bit-widths only, which is a part of a table and no table."""
    kept = json.dumps({**provenance.as_dict(), "surrogate": surrogate}, sort_keys=True)
    if kind == "csv":
        lines = [f"# {KEY}: {kept}", ",".join(COLUMNS)]
        rows = zip(layer.tolist(), expert.tolist(), bits.tolist(), loss.tolist(), strict=True)
        lines += [f"{a},{b},{c},{d!r}" for a, b, c, d in rows]
        return ("\n".join(lines) + "\n").encode()
    if kind != "parquet":
        raise LossTableError(f"A loss table is written as csv or parquet, not as {shown(kind)}.")
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    written = pyarrow.table(dict(zip(COLUMNS, (layer, expert, bits, loss), strict=True)))
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(written.replace_schema_metadata({KEY: kept}), buffer)
    return buffer.getvalue()


def kind_of(path: str | Path) -> str:
    """``csv`` or ``parquet`` by the end of a file's name; LossTableError for another."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise LossTableError(f"The file {shown(Path(path).name)} must end in {' or '.join(SUFFIXES)}.")
    return suffix[1:]


def write_table(table: LossTable, path: str | Path) -> None:
    """Write a CSV or Parquet file by its name, whole or not at all."""
    write_whole(path, table_bytes(table, kind_of(path)), LossTableError)
