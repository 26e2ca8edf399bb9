"""Points or curves in a plane of two figures: clickable points, curves with direct labels, a shaded region, marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from planner.words.formats import trimmed
from ui.charts.base import Spec, axis, axis_title, layout
from ui.theme import TIERS, Ink, rgba

HEIGHT = 440
MANY = 20  # points of a curve beyond which its marks are small
COLOURS = (
    TIERS["gpu"],
    TIERS["streamed"],
    TIERS["dimm_ndp"],
    TIERS["cxl_ndp"],
    TIERS["host"],
    "#56B4E9",
    TIERS["nvme"],
)
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "triangle-down")
SYMBOL_WORDS = ("circle", "square", "diamond", "triangle", "cross", "star", "triangle, down")


@dataclass(frozen=True)
class Series:
    """Points of one name: figures, what each says on hover, and the number that a click answers with."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    texts: Sequence[str]
    indices: Sequence[int]
    line: bool = False
    step: bool = False
    hollow: frozenset[int] = frozenset()  # indices drawn as outlines: they miss the targets
    place: int = 0  # of colour and symbol


@dataclass(frozen=True)
class Note:
    """A word at a point of the plane; ``dx`` and ``dy`` in pixels."""

    x: float
    y: float
    text: str
    dx: int = 0
    dy: int = -16


@dataclass(frozen=True)
class Axes:
    """What both axes say, and whether they are logarithmic."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Extras:
    """A path through the frontier, a shaded region right of ``least_x``, notes, and vertical or level lines."""

    path: Sequence[tuple[float, float]] = ()
    least_x: float | None = None
    region: str = ""
    notes: Sequence[Note] = ()
    verticals: Sequence[tuple[float, str]] = ()
    levels: Sequence[tuple[float, str]] = field(default_factory=tuple)


def figure(series: Sequence[Series], axes: Axes, extras: Extras, pen: Ink) -> Spec:
    """The chart. At most seven series have a colour and a symbol of their own."""
    xs = [x for one in series for x in one.xs] + [x for x, _ in extras.verticals]
    ys = [y for one in series for y in one.ys] + [y for y, _ in extras.levels]
    if extras.least_x is not None:
        xs.append(extras.least_x)
    x_range, y_range = _range(xs, axes.log_x), _range(ys, axes.log_y)
    shapes, notes = _frame(extras, axes, x_range, pen)
    traces: list[Spec] = []
    if extras.path:
        traces.append(
            {"type": "scatter", "mode": "lines", "x": [x for x, _ in extras.path], "y": [y for _, y in extras.path],
             "hoverinfo": "skip", "line": {"color": pen.text, "width": 1.5, "dash": "dot"}}
        )  # fmt: skip
    traces += [_trace(one, pen) for one in series]
    return {
        "data": traces,
        "layout": layout(
            pen,
            HEIGHT,
            margin={"l": 66, "r": 14, "t": 16, "b": 52},
            clickmode="event+select",
            xaxis=axis(pen, showgrid=True, gridcolor=pen.grid, range=x_range, **_ticks(axes.log_x, x_range),
                       title=axis_title(pen, axes.x)),
            yaxis=axis(pen, showgrid=True, gridcolor=pen.grid, range=y_range, **_ticks(axes.log_y, y_range),
                       title=axis_title(pen, axes.y)),
            shapes=shapes,
            annotations=[*notes, *(_note(one, axes, x_range, pen) for one in extras.notes)],
        ),
    }  # fmt: skip


def _trace(one: Series, pen: Ink) -> Spec:
    colour, symbol = COLOURS[one.place % len(COLOURS)], SYMBOLS[one.place % len(SYMBOLS)]
    symbols = [f"{symbol}-open" if index in one.hollow else symbol for index in one.indices]
    trace: Spec = {
        "type": "scatter", "mode": "lines+markers" if one.line or one.step else "markers", "name": escape(one.name),
        "x": list(one.xs), "y": list(one.ys), "text": list(one.texts), "customdata": list(one.indices),
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": colour, "symbol": symbols, "size": 10, "line": {"width": 2, "color": colour}},
        "selected": {"marker": {"size": 14}}, "unselected": {"marker": {"opacity": 1.0}},
    }  # fmt: skip
    if one.line or one.step:
        trace["line"] = {"color": colour, "width": 2, **({"shape": "hv"} if one.step else {})}
        trace["marker"]["size"] = 7 if len(one.xs) <= MANY else 4
    return trace


def _frame(extras: Extras, axes: Axes, x_range: list[float], pen: Ink) -> tuple[list[Spec], list[Spec]]:
    shapes: list[Spec] = []
    notes: list[Spec] = []
    small = {"size": 13, "color": pen.muted}
    if extras.least_x is not None:
        far = 10 ** x_range[1] if axes.log_x else x_range[1]
        shapes.append(
            {"type": "rect", "xref": "x", "yref": "paper", "x0": extras.least_x, "x1": max(far, extras.least_x),
             "y0": 0, "y1": 1, "line": {"width": 0}, "fillcolor": rgba(TIERS["dimm_ndp"], 0.13), "layer": "below"}
        )  # fmt: skip
        notes.append(
            {"x": 1, "xref": "paper", "y": 1, "yref": "paper", "xanchor": "right", "yanchor": "top", "xshift": -6,
             "yshift": -4, "text": escape(extras.region), "showarrow": False, "font": small}
        )  # fmt: skip
    for x, text in extras.verticals:
        shapes.append(
            {"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1,
             "line": {"color": pen.muted, "width": 1.5, "dash": "dash"}}
        )  # fmt: skip
        at = _log(x) if axes.log_x else x
        right = at > (x_range[0] + x_range[1]) / 2
        notes.append(
            {"x": at, "xref": "x", "y": 0, "yref": "paper", "xanchor": "right" if right else "left",
             "yanchor": "bottom", "xshift": -5 if right else 5, "yshift": 4, "text": escape(text), "showarrow": False,
             "font": small}
        )  # fmt: skip
    for y, text in extras.levels:
        shapes.append(
            {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y,
             "line": {"color": pen.muted, "width": 1.5, "dash": "dash"}}
        )  # fmt: skip
        notes.append(
            {"x": 0, "xref": "paper", "y": _log(y) if axes.log_y else y, "yref": "y", "xanchor": "left",
             "yanchor": "bottom", "xshift": 6, "text": escape(text), "showarrow": False, "font": small}
        )  # fmt: skip
    return shapes, notes


def _note(one: Note, axes: Axes, ends: Sequence[float], pen: Ink) -> Spec:
    """A word at its point; at the edge it is written inwards, so that a narrow screen does not cut it off."""
    x = _log(one.x) if axes.log_x else one.x
    part = (x - ends[0]) / (ends[1] - ends[0])
    return {
        "x": x, "xanchor": "right" if part > 0.75 and one.dx <= 0 else "center",
        "y": _log(one.y) if axes.log_y else one.y, "text": escape(one.text),
        "showarrow": False, "xshift": one.dx, "yshift": -one.dy, "font": {"size": 13, "color": pen.text},
        "bgcolor": rgba(pen.background, 0.8),
    }  # fmt: skip


def _log(value: float) -> float:
    return math.log10(value) if value > 0 else 0.0


def _ticks(log: bool, ends: Sequence[float]) -> Spec:
    if not log:
        return {"exponentformat": "SI", "nticks": 8}
    low, high = 10 ** ends[0], 10 ** ends[1]
    powers = range(math.floor(ends[0]), math.ceil(ends[1]) + 1)
    factors = (1, 2, 5) if ends[1] - ends[0] < 2.5 else (1,)
    values = [factor * 10.0**power for power in powers for factor in factors if low <= factor * 10.0**power <= high]
    return {"type": "log", "tickvals": values, "ticktext": [trimmed(value, 3) for value in values], "tickangle": 0}


def _range(values: Sequence[float], log: bool) -> list[float]:
    """A little room around the values; from zero on a linear axis whose values are above it."""
    if log:
        known = [value for value in values if value > 0] or [1.0]
        low, high = math.log10(min(known)), math.log10(max(known))
        room = max(0.06 * (high - low), 0.08)
        return [low - room, high + room]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return [0.0 if low >= 0 else low * 1.08, high * 1.08 or 1.0]
