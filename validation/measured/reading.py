"""Reads measured runs from a CSV: the published table, or a person's own with the few columns that matter."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from planner.errors import PlanError
from planner.fields.sentences import nearest, shown
from validation.measured.runs import COLUMNS, Run

MAX_BYTES = 256 * 2**20
MAX_CELL = 4_000
ALIASES = {
    "model_id": "model",
    "model_name": "model",
    "bits": "weight_bits",
    "gpus": "n_gpu",
    "gpu_count": "n_gpu",
    "cpu_bandwidth_GBps": "mem_GBps_theoretical",
    "memory_bandwidth_GBps": "mem_GBps_theoretical",
    "bandwidth_GBps": "mem_GBps_theoretical",
    "prompt_tokens": "input_len",
    "prompt_len": "input_len",
    "output_tokens": "output_len",
    "engine": "system_family",
    "framework": "system_family",
    "tok_s": "tokens_per_s",
}
REQUIRED = ("model",)
_NUMBERS = {f.name for f in fields(Run) if "float" in str(f.type) or "int" in str(f.type)}
_CHOICES = {
    "per": ("request", "total"),
    "tokens_counted": ("output", "input", "input+output"),
    "phase": ("decode", "prefill", "e2e"),
}
_BOUNDS = {
    "tokens_per_s": (0.0, 1e7),
    "weight_bits": (1.0, 32.0),
    "mem_GBps_theoretical": (1.0, 1e5),
    "mem_GBps_measured": (1.0, 1e5),
    "mem_MTs": (100.0, 5e4),
    "n_gpu": (0.0, 1e5),
    "batch": (1.0, 1e6),
    "concurrency": (1.0, 1e6),
    "input_len": (0.0, 1e7),
    "output_len": (0.0, 1e7),
    "context_depth": (0.0, 1e7),
}


@dataclass(frozen=True)
class Line:
    """One line of the file: its number, the run, or why it is none."""

    number: int
    id: str
    run: Run | None
    problem: str = ""


def read_file(path: Path) -> Iterator[Line]:
    """Lines of a CSV file, one after the other. Raises PlanError for what is not such a file."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror or error}.") from None
    if size > MAX_BYTES:
        raise PlanError(f"{path} has {size:,} bytes; a table of runs may have up to {MAX_BYTES:,}.")
    yield from read_text(decode(path.read_bytes(), str(path)), str(path))


def decode(data: bytes, name: str) -> str:
    """Text of the file: UTF-8 with or without a mark, UTF-16 with one, else Windows-1252. Raises PlanError."""
    if b"\0" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise PlanError(f"{name} is not a CSV file: it holds zero bytes.")
    for encoding in ("utf-16",) if data.startswith((b"\xff\xfe", b"\xfe\xff")) else ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("cp1252", errors="replace")


def read_text(text: str, name: str) -> Iterator[Line]:
    """Like :func:`read_file`, for text."""
    sample = text[:4096].split("\n", 1)[0]
    delimiter = max(",;\t", key=sample.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        header = [cell.strip() for cell in next(reader)]
    except (StopIteration, csv.Error):
        raise PlanError(f"{name} is empty; it takes a header with at least the columns {_wanted()}.") from None
    names = columns_of(header, name)
    number = 1
    try:
        for number, cells in enumerate(reader, start=2):
            if not any(cell.strip() for cell in cells):
                continue
            yield _line(number, dict(zip(names, cells, strict=False)), len(cells), len(header))
    except csv.Error as error:
        raise PlanError(f"{name}, line {number + 1}: {error}.") from None


def _wanted() -> str:
    return "model, gpu or cpu, batch, phase and tokens_per_s"


def columns_of(header: list[str], name: str) -> list[str]:
    """Field of each column; what is not known keeps its own name. Raises PlanError when a needed one is missing."""
    given = set(header)
    names = []
    for cell in header:
        alias = ALIASES.get(cell, cell)
        # The published table has both model_id and model_name: the id wins, the name stands in where it is empty.
        names.append("model_name" if cell == "model_name" and "model_id" in given else alias)
    for wanted in REQUIRED:
        if wanted not in names:
            close = nearest(wanted, dict.fromkeys(header), cutoff=0.6)
            hint = f"; the nearest column is {shown(close[0])}" if close else ""
            raise PlanError(f"{name} has no column {wanted}{hint}; it takes at least {_wanted()}.")
    twice = sorted({n for n in names if names.count(n) > 1 and n in COLUMNS})
    if twice:
        raise PlanError(f"{name} has the column {twice[0]} twice.")
    return names


def _line(number: int, cells: Mapping[str, str], width: int, expected: int) -> Line:
    ident = (cells.get("id") or "").strip()[:80] or f"row {number}"
    if width != expected:
        return Line(number, ident, None, f"line {number} has {width} cells where the header has {expected}")
    values: dict[str, Any] = {"id": ident}
    try:
        for field in fields(Run):
            if field.name == "id":
                continue
            text = (cells.get(field.name) or "").strip()
            if field.name == "model" and not text:
                text = (cells.get("model_name") or "").strip()
            if not text:
                continue
            if len(text) > MAX_CELL:
                raise ValueError(f"{field.name} has {len(text):,} characters; up to {MAX_CELL:,} are read")
            values[field.name] = _value(field.name, text)
    except ValueError as error:
        return Line(number, ident, None, f"line {number}: {error}")
    if "model" not in values:
        return Line(number, ident, None, f"line {number}: model is empty")
    defaults = {f.name: f.default for f in fields(Run) if f.default is not MISSING}
    return Line(number, ident, Run(**{**defaults, **values}))


def _value(name: str, text: str) -> Any:
    if name == "usable":
        return text not in ("0", "false", "no")
    if name in _CHOICES:
        folded = text.casefold()
        if folded not in _CHOICES[name]:
            raise ValueError(f"{name} is {shown(text)}; it takes {', '.join(_CHOICES[name])}")
        return folded
    if name not in _NUMBERS:
        return text
    try:
        value = float(text.replace(",", "").replace("\u202f", "").replace(" ", ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{name} is {shown(text)}; it takes a number")
    low, high = _BOUNDS.get(name, (0.0, 1e12))
    if not low <= value <= high:
        raise ValueError(
            f"{name} is {shown(text)}; it takes a number from {low:g} to {high:g}{_unit_hint(name, value)}"
        )
    if name in ("n_gpu", "sockets", "cores_per_socket", "top_k_used"):
        return round(value)
    return value


def _unit_hint(name: str, value: float) -> str:
    if "GBps" in name and value > 1e5:
        return f" GB/s (in bytes/s? {value / 1e9:g} GB/s)"
    return ""
