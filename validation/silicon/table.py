"""The silicon table of ``aiconfigurator-core``: found in the installed package, read row by row, never copied.

``systems/silicon_sample.csv`` (Apache-2.0, NVIDIA) lists served runs with their mean TTFT and TPOT. Any CSV with the
same columns can stand in for it.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

PACKAGE, DISTRIBUTION, INSIDE = "aiconfigurator_core", "aiconfigurator-core", ("systems", "silicon_sample.csv")
NEEDED = (
    "id", "silicon_data_source", "backend", "backend_version", "model_path", "system", "precision", "mode", "isl",
    "osl", "gemm_quant_mode", "moe_quant_mode", "batch_size", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size",
    "moe_ep_size", "silicon_ttft_ms", "silicon_tpot_ms",
)  # fmt: skip
"""Columns that are read; those of disaggregated runs are not."""


class TableError(Exception):
    """The table cannot be had or read, with the reason in one sentence."""


@dataclass(frozen=True)
class Row:
    """One served run as the table states it. Sizes that it leaves out are None."""

    id: str
    source: str
    backend: str
    version: str
    model: str
    system: str
    precision: str
    mode: str
    prompt_tokens: int
    output_tokens: int
    gemm_mode: str
    moe_mode: str
    batch: int | None
    tensor: int | None
    pipeline: int | None
    attention_data: int | None
    moe_tensor: int | None
    moe_expert: int | None
    ttft_s: float
    tpot_s: float

    @property
    def concurrency_stated(self) -> int | None:
        found = re.search(r"silicon_concurrency=(\d+)", self.source)
        return int(found.group(1)) if found else None

    @property
    def measured_on(self) -> str | None:
        """Date of the run, where its source names one."""
        found = re.search(r"measured=(\d{4}-\d{2}-\d{2})", self.source)
        return found.group(1) if found else None


def installed() -> Path | None:
    """Where the installed package keeps the table; None where the package is not installed."""
    spec = util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))).joinpath(*INSIDE)
    return path if path.is_file() else None


def version() -> str:
    """Version of the installed package; empty where it is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def digest(path: Path) -> str:
    """SHA-256 of the file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path: Path | None = None) -> tuple[Row, ...]:
    """All rows of the table; of the installed package when no path is given. Raises TableError."""
    chosen = path or installed()
    if chosen is None:
        raise TableError(
            f"The package {DISTRIBUTION} is not installed, so its table of measurements cannot be read; "
            f"install it (pip install {DISTRIBUTION}) or name a CSV file with the same columns."
        )
    try:
        with chosen.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
            if missing:
                raise TableError(f"{chosen.name} has no column {missing[0]}; it takes {', '.join(NEEDED)}.")
            return tuple(_row(number, cells) for number, cells in enumerate(reader, start=2))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{chosen} cannot be read: {error}.") from None


def _row(number: int, cells: dict[str, str]) -> Row:
    def size(name: str) -> int | None:
        text = (cells[name] or "").strip()
        if not text:
            return None
        return round(_number(number, name, text))

    def whole(name: str) -> int:
        found = size(name)
        if found is None or found < 1:
            raise TableError(f"line {number}: {name} is {cells[name]!r}; it takes a whole number of tokens above 0.")
        return found

    return Row(
        id=cells["id"].strip(),
        source=cells["silicon_data_source"] or "",
        backend=cells["backend"].strip(),
        version=(cells["backend_version"] or "").strip(),
        model=cells["model_path"].strip(),
        system=cells["system"].strip(),
        precision=(cells["precision"] or "").strip(),
        mode=cells["mode"].strip(),
        prompt_tokens=whole("isl"),
        output_tokens=whole("osl"),
        gemm_mode=(cells["gemm_quant_mode"] or "").strip(),
        moe_mode=(cells["moe_quant_mode"] or "").strip(),
        batch=size("batch_size"),
        tensor=size("tp_size"),
        pipeline=size("pp_size"),
        attention_data=size("attention_dp_size"),
        moe_tensor=size("moe_tp_size"),
        moe_expert=size("moe_ep_size"),
        ttft_s=_number(number, "silicon_ttft_ms", cells["silicon_ttft_ms"]) / 1e3,
        tpot_s=_number(number, "silicon_tpot_ms", cells["silicon_tpot_ms"]) / 1e3,
    )


def _number(line: int, name: str, text: str) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise TableError(f"line {line}: {name} is {text!r}; it takes a number.")
    return value
