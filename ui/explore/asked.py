"""What a reader chose to see of a sweep, as a record that is saved with it, and what all views of it share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from planner.sweep import METRICS, SweepResult
from planner.sweep.load import ApiPrice
from ui import tables
from ui.charts import plane
from ui.tables import LegendItem, Swatch

CLICK = {"on_select": "rerun", "selection_mode": "points"}
METRIC = "tokens_per_s_gpu"


@dataclass(frozen=True)
class Asked:
    """What a view needs beside the sweep: the metrics and axes that the reader chose, and an API's price.

    ``x`` and ``y`` are paths of axes on a map, and ``x`` is the metric across in a free sweep.
    """

    metric: str = METRIC
    x: str = ""
    y: str = ""
    api: ApiPrice | None = None

    def saved(self) -> dict[str, object]:
        """As JSON can hold it; :func:`restored` reads it back."""
        api = None if self.api is None else [self.api.usd_per_million_input, self.api.usd_per_million_output]
        return {"metric": self.metric, "x": self.x, "y": self.y, "api": api}


View = Callable[[SweepResult, Asked, str], int | None]

_MAPS = {"map": "tokens_per_s_system", "winners": "tokens_per_s_end_to_end"}
_FIRST = {**_MAPS, "experts": "tokens_per_s_system"}


def restored(question: str, result: SweepResult, given: object) -> Asked:
    """The view that was saved with a sweep; where it has none, or one that does not go with it, what fits it best."""
    saved: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    metric, x, y = (str(saved.get(name) or "") for name in ("metric", "x", "y"))
    if metric not in METRICS:
        metric = _FIRST.get(question, METRIC)
    if question in _MAPS:
        if x == y or x not in result.paths or y not in result.paths:
            x, y = (*result.paths, "", "")[:2]
    elif x not in METRICS:
        x = "usd_per_million_output_tokens"
    return Asked(metric, x, y, _api(saved.get("api")))


def _api(given: object) -> ApiPrice | None:
    if not isinstance(given, (list, tuple)) or len(given) != 2:
        return None
    prices = [float(one) for one in given if isinstance(one, (int, float)) and math.isfinite(one) and one >= 0]
    return ApiPrice(*prices) if len(prices) == 2 else None


def legend(lines: list[plane.Series], hollow: bool) -> None:
    """Colours and symbols of the series, and what an outline means."""
    items = [
        LegendItem(
            Swatch(plane.COLOURS[line.place % len(plane.COLOURS)]), line.name, plane.SYMBOL_WORDS[line.place % 7]
        )
        for line in lines
        if line.name
    ]
    if hollow:
        items.append(LegendItem(Swatch("", "outline"), "Outlined", "misses the targets"))
    if items:
        st.html(tables.legend(items))
