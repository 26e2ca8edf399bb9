"""Predicted against measured: one point per run on two log axes, the line of equality and a band around it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from planner.measured_runs import MeasuredRun
from planner.words import sureness
from planner.words.formats import signed_percent, significant
from ui.charts.base import Spec, axis, axis_title, layout, packed
from ui.theme import LINK, TIERS, Ink, mix, rgba

HEIGHT = 480
# A kind of run has the colour of the tier that its experts are read from, and a symbol of its own.
MARKS: dict[str, tuple[str, str, str]] = {
    "cpu_experts": (TIERS["host"], "circle", "circle"),
    "cpu_only": (mix(TIERS["host"], "#7A7A7A", 0.55), "square", "square"),
    "pcie_stream": (TIERS["streamed"], "triangle-up", "triangle"),
    "gpu_expert_cache": (LINK, "diamond", "diamond"),
    "all_gpu": (TIERS["gpu"], "cross", "cross"),
    "unified_memory": (TIERS["nvme"], "star", "star"),
}
OTHER = ("#7A7A7A", "circle", "circle")


@dataclass(frozen=True)
class Band:
    """A band around equality: ``predicted`` between ``low`` and ``high`` times ``measured``."""

    low: float
    high: float
    name: str


FACTORS = (Band(1 / 2, 2.0, "\u00d72"), Band(1 / 1.25, 1.25, "\u00d71.25"))


def figure(runs: Sequence[MeasuredRun], bands: Sequence[Band], near: Iterable[str], pen: Ink) -> Spec:
    """Runs as points by kind; ``near`` are ids of the open scenario's neighbours, which get a ring."""
    low, high = _ends(runs)
    traces = [_band(band, low, high, pen) for band in bands]
    traces.append(
        {"type": "scatter", "mode": "lines", "x": [low, high], "y": [low, high], "hoverinfo": "skip",
         "line": {"color": pen.muted, "width": 1}}
    )  # fmt: skip
    for name in sorted({run.regime for run in runs}, key=_order):
        traces.append(_points([run for run in runs if run.regime == name], name))
    ringed = [run for run in runs if run.id in set(near)]
    if ringed:
        traces.append(
            {"type": "scatter", "mode": "markers", "x": [run.measured_tokens_per_s for run in ringed],
             "y": [run.predicted_tokens_per_s for run in ringed], "hoverinfo": "skip",
             "marker": {"symbol": "circle-open", "size": 16, "color": pen.text, "line": {"width": 2}}}
        )  # fmt: skip
    ticks = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    scale = {
        "type": "log", "range": [math.log10(low), math.log10(high)], "tickvals": ticks,
        "ticktext": [f"{tick:g}" if tick < 1e4 else f"{tick / 1e3:g}k" for tick in ticks],
        "showgrid": True, "gridcolor": pen.grid,
    }  # fmt: skip
    return {
        "data": traces,
        "layout": layout(
            pen,
            HEIGHT,
            margin={"l": 56, "r": 12, "t": 12, "b": 48},
            xaxis=axis(pen, **scale, title=axis_title(pen, "measured, tokens/s")),
            yaxis=axis(pen, **scale, title=axis_title(pen, "predicted, tokens/s")),
            annotations=[_name(band, low, high, pen) for band in bands[:1]],  # those inside it are named beside
        ),
    }


def _order(name: str) -> int:
    names = list(MARKS)
    return names.index(name) if name in names else len(names)


def _ends(runs: Sequence[MeasuredRun]) -> tuple[float, float]:
    values = [v for run in runs for v in (run.measured_tokens_per_s, run.predicted_tokens_per_s)]
    return min(values, default=1.0) / 1.6, max(values, default=100.0) * 1.6


def _band(band: Band, low: float, high: float, pen: Ink) -> Spec:
    """A closed polygon; on two log axes its edges are straight."""
    return {
        "type": "scatter", "mode": "lines", "hoverinfo": "skip", "fill": "toself", "fillcolor": rgba(pen.muted, 0.13),
        "line": {"width": 0}, "x": [low, high, high, low],
        "y": [low * band.low, high * band.low, high * band.high, low * band.high],
    }  # fmt: skip


def _name(band: Band, low: float, high: float, pen: Ink) -> Spec:
    """The band's name under its lower edge, where runs are few."""
    at = low * (high / low) ** 0.88
    return {
        "x": math.log10(at), "y": math.log10(at * band.low), "xref": "x", "yref": "y", "text": band.name,
        "showarrow": False, "xanchor": "center", "yanchor": "top", "font": {"size": 13, "color": pen.muted},
    }  # fmt: skip


def _points(runs: Sequence[MeasuredRun], name: str) -> Spec:
    colour, symbol, _ = MARKS.get(name, OTHER)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": sureness.regime(name),
        "x": packed([run.measured_tokens_per_s for run in runs], "f4"),
        "y": packed([run.predicted_tokens_per_s for run in runs], "f4"),
        "text": [_hover(run) for run in runs],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": colour, "symbol": symbol, "size": 8, "opacity": 0.8},
    }


def _hover(run: MeasuredRun) -> str:
    head, _, rest = run.label.partition(", ")
    lines = [
        f"<b>{escape(head)}</b>",
        escape(f"{rest}; {sureness.phase(run.phase)}"),
        f"{significant(run.measured_tokens_per_s)} {sureness.per(run.per)} measured",
        f"{significant(run.predicted_tokens_per_s)} predicted: {signed_percent(run.error)}\u202f% ({escape(run.id)})",
    ]
    return "<br>".join(lines)
