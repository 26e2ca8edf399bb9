"""A map over two inputs: cells by a metric or by a region, boundaries drawn between regions, real devices as marks.

Cells are one image-like trace; a transparent point on each answers hover and click, which cells of a heat map do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from planner.sweep.boundary import Map, Mark
from ui.charts.base import Spec, axis, axis_title, layout
from ui.theme import VIRIDIS, Ink, rgba, text_on

HEIGHT = 470
EMPTY = "does not fit"


def figure(
    found: Map,
    pen: Ink,
    *,
    x_title: str,
    y_title: str,
    shown: Callable[[float, str], str],
    texts: Mapping[tuple[int, int], str],
    names: Mapping[str, str],
    colours: Mapping[str, str] | None = None,
    marks: Sequence[Mark] = (),
    log_value: bool = False,
    today: tuple[int, int] | None = None,
) -> Spec:
    """``colours`` by region, or None for the metric on a sequential scale; ``shown(value, path)`` writes a tick.

    ``today`` is the row and column of the open scenario, which gets a ring."""
    columns, rows = len(found.xs), len(found.ys)
    values = _matrix(found, colours, log_value)
    traces: list[Spec] = [
        {"type": "heatmap", "z": values, "x": list(range(columns)), "y": list(range(rows)), "showscale": False,
         "hoverinfo": "skip", "xgap": 1, "ygap": 1, **_scale(colours, values)}
    ]  # fmt: skip
    spots = [(row, column) for row in range(rows) for column in range(columns) if found.cells[row][column] is not None]
    traces.append(
        {"type": "scatter", "mode": "markers", "x": [c for _, c in spots], "y": [r for r, _ in spots],
         "customdata": [_index(found, r, c) for r, c in spots], "text": [texts[spot] for spot in spots],
         "hovertemplate": "%{text}<extra></extra>",
         "marker": {"symbol": "square", "size": 22, "opacity": 0, "color": pen.text},
         "selected": {"marker": {"opacity": 0}}, "unselected": {"marker": {"opacity": 0}}}
    )  # fmt: skip
    traces += _edges(found, pen)
    if today is not None:
        traces += [_ring(today, pen.background, 6), _ring(today, pen.text, 3)]
    placed = placed_marks(found, marks)
    if placed:
        traces.append(
            {"type": "scatter", "mode": "markers+text", "x": [p[0] for p in placed], "y": [p[1] for p in placed],
             "text": [str(place + 1) for place in range(len(placed))], "textposition": "middle center",
             "textfont": {"size": 11, "color": pen.text}, "hovertext": [escape(p[2]) for p in placed],
             "hovertemplate": "<b>%{hovertext}</b><extra></extra>",
             "marker": {"symbol": "circle", "size": 18, "color": pen.background,
                        "line": {"width": 1.5, "color": pen.text}}}
        )  # fmt: skip
    taken = [(row, column) for column, row, _ in placed] + ([today] if today is not None else [])
    across, up = _ticks(found.xs, found.x_path, shown, 7), _ticks(found.ys, found.y_path, shown, 9)
    return {
        "data": traces,
        "layout": layout(
            pen,
            HEIGHT,
            margin={"l": 84, "r": 10, "t": 10, "b": 56},
            clickmode="event+select",
            xaxis=axis(pen, range=[-0.5, columns - 0.5], **across, title=axis_title(pen, x_title)),
            yaxis=axis(pen, range=[-0.5, rows - 0.5], **up, title=axis_title(pen, y_title)),
            annotations=_region_names(found, names, colours, pen, taken),
        ),
    }  # fmt: skip


def _ring(today: tuple[int, int], colour: str, width: int) -> Spec:
    """A ring around the open scenario's cell; drawn twice, so that it stands out on light and dark cells."""
    return {
        "type": "scatter", "mode": "markers", "x": [today[1]], "y": [today[0]], "hoverinfo": "skip",
        "marker": {"symbol": "circle-open", "size": 30, "color": colour, "line": {"width": width, "color": colour}},
    }  # fmt: skip


def _index(found: Map, row: int, column: int) -> int:
    cell = found.cells[row][column]
    assert cell is not None
    return cell.index


def _matrix(found: Map, colours: Mapping[str, str] | None, log_value: bool) -> list[list[float | None]]:
    order = list(colours) if colours is not None else []
    rows: list[list[float | None]] = []
    for line in found.cells:
        row: list[float | None] = []
        for cell in line:
            if cell is None or cell.value is None:
                row.append(None)
            elif colours is not None:
                row.append(float(order.index(cell.region)) if cell.region in order else None)
            else:
                row.append(math.log10(cell.value) if log_value and cell.value > 0 else cell.value)
        rows.append(row)
    return rows


def _scale(colours: Mapping[str, str] | None, values: Sequence[Sequence[float | None]]) -> Spec:
    if colours is None:
        known = [value for row in values for value in row if value is not None] or [0.0]
        stops = [[place / (len(VIRIDIS) - 1), colour] for place, colour in enumerate(VIRIDIS)]
        return {"colorscale": stops, "zmin": min(known), "zmax": max(max(known), min(known) + 1e-12)}
    count = max(len(colours), 1)
    steps = [
        [edge / count, colour] for place, colour in enumerate(colours.values()) for edge in (place, place + 1)
    ] or [[0, "#888888"], [1, "#888888"]]
    return {"colorscale": steps, "zmin": -0.5, "zmax": count - 0.5}


def _ticks(values: Sequence[float], path: str, shown: Callable[[float, str], str], most: int) -> Spec:
    every = max(1, math.ceil(len(values) / most))
    places = list(range(0, len(values), every))
    return {"tickvals": places, "ticktext": [escape(shown(values[place], path)) for place in places], "tickangle": 0}


def _edges(found: Map, pen: Ink) -> list[Spec]:
    """The boundary between regions as lines of their own, below the marks; drawn twice, to stand out on any cell."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for row, column, side in found.edges():
        right = side == "right"
        xs += [column + 0.5 if right else column - 0.5, column + 0.5, None]
        ys += [row - 0.5 if right else row + 0.5, row + 0.5, None]
    return [
        {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "hoverinfo": "skip",
         "line": {"color": colour, "width": width}}
        for colour, width in ((pen.background, 6), (pen.text, 2.5)) if xs
    ]  # fmt: skip


def _region_names(
    found: Map,
    names: Mapping[str, str],
    colours: Mapping[str, str] | None,
    pen: Ink,
    marks: Sequence[tuple[float, float]],
) -> list[Spec]:
    """The name of each region of some size near its middle, off the marks and inside the frame."""
    places: dict[str, list[tuple[int, int]]] = {}
    for row, line in enumerate(found.cells):
        for column, cell in enumerate(line):
            if cell is not None:
                places.setdefault(cell.region, []).append((row, column))
    notes: list[Spec] = []
    used: set[int] = set()
    for region, cells in places.items():
        if len(cells) < 3:
            continue
        row_mean = sum(row for row, _ in cells) / len(cells)
        column_mean = sum(column for _, column in cells) / len(cells)
        free = [at for at in cells if not any(abs(at[0] - r) < 0.6 and abs(at[1] - c) < 2 for r, c in marks)] or cells
        free = [at for at in free if at[0] not in used] or free  # on a narrow screen two names in a row would overlap
        row, column = min(free, key=lambda at: (at[0] - row_mean) ** 2 + (at[1] - column_mean) ** 2)
        used.add(row)
        side = "left" if column < 0.2 * len(found.xs) else "right" if column >= 0.8 * len(found.xs) else "center"
        shift = {"left": -0.4, "right": 0.4, "center": 0.0}[side]
        ground = colours[region] if colours and region in colours else ""
        notes.append(
            {"x": column + shift, "xanchor": side, "y": row, "text": escape(names.get(region, region or EMPTY)),
             "showarrow": False, "font": {"size": 13, "color": text_on(ground) if ground else pen.text},
             "bgcolor": ground or rgba(pen.background, 0.78), "borderpad": 3}
        )  # fmt: skip
    return notes


def placed_marks(found: Map, marks: Sequence[Mark]) -> list[tuple[float, float, str]]:
    """Marks with both figures that lie on the map, in its own steps; those that touch share a number."""
    at: dict[tuple[float, float], list[str]] = {}
    for mark in marks:
        if mark.x is None or mark.y is None:
            continue
        x, y = _place(found.xs, mark.x), _place(found.ys, mark.y)
        if x is not None and y is not None:
            at.setdefault((round(2 * x) / 2, round(2 * y) / 2), []).append(mark.name)
    return [(x, y, ", ".join(names)) for (x, y), names in at.items()]


def _place(values: Sequence[float], value: float) -> float | None:
    """Where a value lies between the steps of an axis; None outside."""
    if len(values) < 2:
        return 0.0 if values and math.isclose(values[0], value) else None
    if not values[0] <= value <= values[-1]:
        return None
    above = next(place for place, step in enumerate(values) if step >= value)
    if above == 0:
        return 0.0
    low, high = values[above - 1], values[above]
    if low > 0:
        return above - 1 + math.log(value / low) / math.log(high / low)
    return above - 1 + (value - low) / (high - low)
