"""The rows of the last stored run: predictions in four significant digits, and the engine version that made them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner import ENGINE_VERSION
from validation.published.compact import compact_json
from validation.published.records import Alternative, ClaimRow, Value

FILE = Path(__file__).parent / "snapshot.json"
DIGITS = 4


@dataclass(frozen=True)
class Snapshot:
    engine_version: str
    rows: tuple[ClaimRow, ...]


def snapshot() -> Snapshot:
    """The stored rows. Raises FileNotFoundError if there are none."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return Snapshot(found["engine_version"], tuple(_row(row) for row in found["rows"]))


def text(rows: Iterable[ClaimRow]) -> str:
    """What the file holds for these rows."""
    stored = {"engine_version": ENGINE_VERSION, "rows": [_short(dataclasses.asdict(row)) for row in rows]}
    return compact_json(stored) + "\n"


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {k: v if k == "published" else _short(v) for k, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, list | tuple) else value


def _value(given: Any) -> Value | None:
    if given is None:
        return None
    return (float(given[0]), float(given[1])) if isinstance(given, list) else float(given)


def _row(row: dict[str, Any]) -> ClaimRow:
    alternatives = tuple(
        Alternative(a["setting"], _value(a["published"]), _value(a["predicted"]), a["error"])
        for a in row["alternatives"]
    )
    values = {name: _value(row[name]) for name in ("published", "predicted")}
    return ClaimRow(**{**row, **values, "alternatives": alternatives, "contradictions": tuple(row["contradictions"])})
