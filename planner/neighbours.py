"""Measured runs nearest to a case, by the ratios of their shapes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from planner.accuracy import DATA
from planner.result import Neighbour

MOST = 3
WITHIN = math.log(2.5)
"""Farther than this (root mean square over the quantities) a run says nothing about the case."""


@lru_cache(maxsize=1)
def _rows() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(DATA.read_text(encoding="utf-8"))["rows"])


def distance(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Root mean square of ln(a / b) over the quantities that both have; infinite without any."""
    shared = [name for name in a if name in b and a[name] > 0 and b[name] > 0]
    if not shared:
        return math.inf
    return math.sqrt(sum(math.log(a[name] / b[name]) ** 2 for name in shared) / len(shared))


def nearest_runs(case: Mapping[str, float], regime: str, most: int = MOST) -> tuple[Neighbour, ...]:
    """The nearest measured runs of the regime, nearest first, one for each machine; those too far are left out."""
    found: dict[str, tuple[float, dict[str, Any]]] = {}
    for row in _rows():
        if row["regime"] != regime or "shape" not in row:
            continue
        far = distance(case, row["shape"])
        if far <= WITHIN and far < found.get(row["group"], (math.inf, {}))[0]:
            found[row["group"]] = (far, row)
    chosen = sorted(found.values(), key=lambda item: (item[0], item[1]["id"]))[:most]
    return tuple(
        Neighbour(
            id=row["id"],
            label=row["label"],
            distance=far,
            measured_tokens_per_s=row["measured_tokens_per_s"],
            predicted_tokens_per_s=row["measured_tokens_per_s"] * math.exp(-row["log_ratio"]),
            per=row["per"],
            phase=row["phase"],
        )
        for far, row in chosen
    )
