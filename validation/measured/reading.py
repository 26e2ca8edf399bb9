"""Reads measured runs from a CSV: the published table, or a person's own with the few columns that matter."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from planner.errors import PlanError
from planner.fields.sentences import nearest, one_of, shown
from validation.measured.runs import COLUMNS, Run

MAX_BYTES = 256 * 2**20
MAX_CELL = 4_000
MARKS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
)
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
KNOWN = {name.casefold(): name for name in COLUMNS} | {name.casefold(): field for name, field in ALIASES.items()}
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


_WHOLE_FIELDS = ("n_gpu", "sockets", "cores_per_socket", "top_k_used")
_WHOLE = (*_WHOLE_FIELDS, "batch", "concurrency", "n_requests")
_SPACES = str.maketrans("", "", " \u00a0\u202f\u2009")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+")


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
        if size > MAX_BYTES:
            raise PlanError(f"{path} has {size:,} bytes; a table of runs may have up to {MAX_BYTES:,}.")
        data = path.read_bytes()
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror or error}.") from None
    yield from read_text(decode(data, str(path)), str(path))


def decode(data: bytes, name: str) -> str:
    """Text of the file: UTF-8, UTF-16 or UTF-32, with or without a mark, else Windows-1252. Raises PlanError."""
    marked = next((encoding for mark, encoding in MARKS if data.startswith(mark)), None)
    if marked is None and b"\0" in data[:4096]:
        marked = _unmarked(data)
        if marked is None:
            raise PlanError(f"{name} is not a CSV file: it holds zero bytes.")
    for encoding in (marked,) if marked else ("utf-8", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    if marked:
        raise PlanError(f"{name} begins like {marked.upper()} text, and is not; save it as UTF-8.")
    return data.decode("cp1252", errors="replace")


def _unmarked(data: bytes) -> str | None:
    """UTF-16 without a mark: every second byte of a header in plain letters is zero."""
    for encoding, zeros, letters in (("utf-16-le", 1, 0), ("utf-16-be", 0, 1)):
        head = data[:128]
        if len(head) >= 4 and not any(head[zeros::2]) and all(head[letters::2]):
            return encoding
    return None


def read_text(text: str, name: str) -> Iterator[Line]:
    """Like :func:`read_file`, for text."""
    whole, text = text, text.lstrip("\r\n")
    skipped = len(whole[: len(whole) - len(text)].splitlines())
    sample = text[:4096].replace("\r", "\n").split("\n", 1)[0]
    delimiter = max(",;\t", key=sample.count)
    csv.field_size_limit(MAX_BYTES)  # one huge cell is that row's fault, not the file's
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = [cell.strip() for cell in next(reader, [])]
    if not any(header):
        raise PlanError(f"{name} is empty; it takes a header with at least the columns {_wanted()}.")
    names = columns_of(header, name)
    before = skipped + reader.line_num
    try:
        for cells in reader:
            number, before = before + 1, skipped + reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            yield _line(number, names, cells, delimiter)
    except csv.Error as error:
        raise PlanError(f"{name}, line {before + 1}: {error}.") from None


def _wanted() -> str:
    return "model, gpu or cpu, batch, phase and tokens_per_s"


def columns_of(header: list[str], name: str) -> list[str]:
    """Field of each column; what is not known keeps its own name. Raises PlanError when a needed one is missing."""
    given = set(header)
    names = []
    for cell in header:
        alias = KNOWN.get(cell.casefold(), cell)
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


def _line(number: int, names: list[str], row: list[str], delimiter: str) -> Line:
    cells = dict(zip(names, row, strict=False))
    ident = (cells.get("id") or "").strip()[:80] or f"row {number}"
    if len(row) != len(names):
        if any("\n" in cell or "\r" in cell for cell in row):
            return Line(number, ident, None, f"line {number}: a quotation mark opens and is not closed in its line")
        held = "1 cell" if len(row) == 1 else f"{len(row):,} cells"
        return Line(number, ident, None, f"line {number} has {held} where the header has {len(names)}")
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
            values[field.name] = _value(field.name, text, delimiter)
    except ValueError as error:
        return Line(number, ident, None, f"line {number}: {error}")
    if "model" not in values:
        return Line(number, ident, None, f"line {number}: model is empty")
    defaults = {f.name: f.default for f in fields(Run) if f.default is not MISSING}
    return Line(number, ident, Run(**{**defaults, **values}))


def _value(name: str, text: str, delimiter: str) -> Any:
    if name == "usable":
        return text.casefold() not in ("0", "false", "no")
    if name in _CHOICES:
        folded = text.casefold()
        if folded not in _CHOICES[name]:
            raise ValueError(f"{name} is {shown(text)}; it takes {one_of(_CHOICES[name])}")
        return folded
    if name not in _NUMBERS:
        return text
    value = _number(name, text, delimiter)
    low, high = _BOUNDS.get(name, (0.0, 1e12))
    if not low <= value <= high:
        raise ValueError(
            f"{name} is {shown(text)}; it takes a number from {low:g} to {high:g}{_unit_hint(name, value)}"
        )
    if name == "tokens_per_s" and value == 0:
        raise ValueError(f"{name} is {shown(text)}; it takes a number above 0, or an empty cell")
    if name in _WHOLE:
        if value != round(value):
            raise ValueError(f"{name} is {shown(text)}; it takes a whole number")
        return round(value) if name in _WHOLE_FIELDS else value
    return value


def _number(name: str, text: str, delimiter: str) -> float:
    """A number with a decimal point; a comma groups thousands, or stands for the point where cells end otherwise.

    ``1,500`` in a table with semicolons may be either, and is refused rather than guessed.
    """
    plain = text.translate(_SPACES)
    if delimiter != ",":
        if _GROUPED.fullmatch(plain) and "." not in plain and plain.count(",") == 1:
            raise ValueError(
                f"{name} is {shown(text)}, which may be {plain.replace(',', '')} or {plain.replace(',', '.')}; "
                "it takes a number without thousands separators"
            )
        if _DECIMAL_COMMA.fullmatch(plain):
            plain = plain.replace(".", "").replace(",", ".")
    if "," in plain and _GROUPED.fullmatch(plain):
        plain = plain.replace(",", "")
    try:
        value = float(plain) if "_" not in plain else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        hint = " with a decimal point, such as 12.5" if "," in plain else ""
        raise ValueError(f"{name} is {shown(text)}; it takes a number{hint}")
    return value


def _unit_hint(name: str, value: float) -> str:
    if "GBps" in name and value > 1e5:
        return f" GB/s (in bytes/s? {value / 1e9:g} GB/s)"
    return ""
