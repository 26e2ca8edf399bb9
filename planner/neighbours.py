"""Measured runs nearest to a case, by the ratios of their shapes, and whether a plan contradicts one of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from planner.accuracy import DATA, residuals, spread
from planner.result import Neighbour

MOST = 3
WITHIN = math.log(2.5)
"""Farther than this (root mean square over the quantities) a run says nothing about the case."""

ALIKE = math.log(1.25)
"""A run is very similar where no quantity of its shape differs by more than this."""
BAND = 0.95
FRESH = ("decode", "prefill")
"""Phases whose rate a shape tells; end to end it also hangs on how a context splits into prompt and output."""


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


def apart(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Largest ln of a ratio over all quantities; infinite unless both have the same ones."""
    if a.keys() != b.keys() or not a or min(*a.values(), *b.values()) <= 0:
        return math.inf
    return max(abs(math.log(a[name] / b[name])) for name in a)


def contradictions(
    case: Mapping[str, float], regime: str, engine: str | None, rates: Mapping[tuple[str, str], float]
) -> tuple[str, ...]:
    """A sentence for each phase whose rate is far from that of the most similar measured run.

    ``rates`` maps (phase, unit as in the data) to the plan's own figure, tokens/s. Far is outside the 95 % band of what
    other machines' runs of the kind missed, widened by the factor that the shapes differ by.
    """
    found: dict[str, tuple[tuple[float, bool], str]] = {}
    for row in _rows():
        value = rates.get((row["phase"], row["per"]))
        if row["regime"] != regime or row["phase"] not in FRESH or not value or "shape" not in row:
            continue
        far = apart(case, row["shape"])
        rank = far, row["family"] != engine  # of runs as similar, the one on the plan's own engine
        if far > ALIKE or rank >= found.get(row["phase"], ((math.inf, True), ""))[0]:
            continue
        # Another engine than the plan's may differ by as much as engines do.
        family = engine if engine == row["family"] else None
        others = [r for r in residuals() if r.group != row["group"]]
        around = spread(regime, row["phase"], family, among=others, coverage=BAND)
        if around is None:
            continue
        low, high = value * around.low * math.exp(-far), value * around.high * math.exp(far)
        measured = row["measured_tokens_per_s"]
        text = ""
        if not low <= measured <= high:
            text = (
                f"This plan says {_plain(value)} {row['per'].split(',')[0]} in {row['phase']}; a very similar run "
                f"measured {_plain(measured)} ({row['label']}, {row['id']}), outside the 95 % band ({_plain(low)} to "
                f"{_plain(high)}): check both before relying on it."
            )
        found[row["phase"]] = (rank, text)
    return tuple(text for _, text in found.values() if text)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
