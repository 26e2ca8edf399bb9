"""The map for more than 32 experts: an image-like heat map, margins, and invisible points that can be clicked."""

from __future__ import annotations

from planner.result import Placement
from planner.words.formats import count
from ui.charts.base import Spec, axis, layout, packed, round_ticks
from ui.charts.map_data import LOAD_STEPS, MapData, Order, View, arrange, busiest_share, load_scale, quantile, viridis
from ui.theme import NEAR_BLACK, VIRIDIS, Ink, rgba, text_on

HEIGHT = 430
MAP_WIDTH = 0.80
MAP_TOP = 0.74
# A band is named inside the map when it is at least this wide on average.
NAMED_BAND = 0.12


def figure(place: Placement, view: View, order: Order, pen: Ink) -> Spec:
    """The whole figure as a Plotly specification."""
    data = arrange(place, view, order)
    traces = [_cells(place, data, view), *_points(data, order), *_curve(data, pen), *_margin(place, data, view, pen)]
    return {"data": traces, "layout": _layout(data, view, order, pen)}


def _cells(place: Placement, data: MapData, view: View) -> Spec:
    if view == "load":
        scale = load_scale(place)
        z = (scale.step(place.load[layer][expert]) for layer in range(data.layers) for expert in data.order[layer])
        colours, top = viridis(), LOAD_STEPS - 1
        return _heat(packed(z, "u1", (data.layers, data.experts)), colours, 0, top)
    z = (data.group[layer][expert] for layer in range(data.layers) for expert in data.order[layer])
    n = len(data.groups)
    steps: list[list[float | str]] = []
    for index, group in enumerate(data.groups):
        steps += [[index / n, group.colour], [(index + 1) / n, group.colour]]
    return _heat(packed(z, "u1", (data.layers, data.experts)), steps, -0.5, n - 0.5)


def _heat(z: Spec, colours: list[list[float | str]], low: float, high: float) -> Spec:
    return {
        "type": "heatmap",
        "z": z,
        "x0": 1,
        "dx": 1,
        "y0": 1,
        "dy": 1,
        "zmin": low,
        "zmax": high,
        "colorscale": colours,
        "showscale": False,
        "hoverinfo": "skip",
    }


def _points(data: MapData, order: Order) -> list[Spec]:
    """One transparent trace per colour, named after it, so that no cell needs a text of its own."""
    wide = "u2" if data.experts > 255 else "u1"
    tall = "u2" if data.layers > 255 else "u1"
    traces: list[Spec] = []
    for index, group in enumerate(data.groups):
        cells = [
            (rank + 1, layer + 1, expert)
            for layer in range(data.layers)
            for rank, expert in enumerate(data.order[layer])
            if data.group[layer][expert] == index
        ]
        traces.append(
            {
                "type": "scattergl",
                "mode": "markers",
                "name": group.name,
                "x": packed((cell[0] for cell in cells), wide),
                "y": packed((cell[1] for cell in cells), tall),
                "customdata": packed((cell[2] for cell in cells), wide),
                "marker": {"symbol": "square", "size": 9, "opacity": 0, "color": group.colour},
                "selected": {"marker": {"opacity": 1, "size": 9, "color": NEAR_BLACK}},
                "unselected": {"marker": {"opacity": 0}},
                "hovertemplate": "<b>%{fullData.name}</b><br>MoE layer %{y}, expert %{customdata}<br>"
                + ("rank %{x} by load<extra></extra>" if order == "load" else "<extra></extra>"),
            }
        )
    return traces


def _curve(data: MapData, pen: Ink) -> list[Spec]:
    """Tokens per expert and step: mean over the layers and the band that holds 80 % of them."""
    x = list(range(1, data.experts + 1))
    mean = [sum(row) / len(row) or None for row in data.by_rank]
    low = [quantile(row, 0.1) for row in data.by_rank]
    high = [quantile(row, 0.9) for row in data.by_rank]
    floor = min((value for value in mean if value), default=1.0) / 10
    shared = {"type": "scatter", "mode": "lines", "x": x, "yaxis": "y2", "hoverinfo": "skip"}
    return [
        {**shared, "y": [max(value, floor) for value in high], "line": {"width": 0}},
        {**shared, "y": [max(value, floor) for value in low], "line": {"width": 0}, "fill": "tonexty",
         "fillcolor": rgba(pen.muted, 0.25)},
        {**shared, "y": mean, "line": {"width": 2, "color": pen.text}},
    ]  # fmt: skip


def _margin(place: Placement, data: MapData, view: View, pen: Ink) -> list[Spec]:
    y = list(range(1, data.layers + 1))
    shared = {"type": "bar", "orientation": "h", "y": y, "xaxis": "x2", "hovertemplate": "layer %{y}: %{x:.0f} %"}
    if view == "load":
        busiest = busiest_share(place, 0.1)
        bar = {**shared, "x": [100 * value for value in busiest], "marker": {"color": pen.dense, "line": {"width": 0}}}
        return [{**bar, "name": "busiest tenth"}]
    return [
        {
            **shared,
            "x": [100 * value for value in data.shares[index]],
            "name": group.name,
            "marker": {"color": group.colour, "line": {"width": 0}},
        }
        for index, group in enumerate(data.groups)
    ]


def _layout(data: MapData, view: View, order: Order, pen: Ink) -> Spec:
    ranked = "ranked by load within its layer" if order == "load" else "by its number"
    x_ticks = [1, *[tick for tick in round_ticks(data.experts, 4)[1:] if tick < 0.9 * data.experts], data.experts]
    y_ticks = [1, *[tick for tick in round_ticks(data.layers, 7)[1:] if tick < 0.94 * data.layers], data.layers]
    every = [value for row in data.by_rank for value in row if value > 0]
    high = max(every, default=1.0)
    notes = [
        {"x": MAP_WIDTH, "y": 1.0, "xref": "paper", "yref": "paper", "xanchor": "right", "yanchor": "top",
         "text": "tokens per expert and step", "showarrow": False, "font": {"size": 13, "color": pen.muted}},
        *(_band_names(data) if order == "load" and view != "load" else []),
    ]  # fmt: skip
    return layout(
        pen,
        HEIGHT,
        margin={"l": 58, "r": 12, "t": 6, "b": 44},
        barmode="stack",
        bargap=0,
        annotations=notes,
        xaxis=axis(
            pen,
            domain=[0, MAP_WIDTH],
            range=[0.5, data.experts + 0.5],
            tickvals=x_ticks,
            tickangle=0,
            title={"text": f"expert, {ranked}", "font": {"size": 13, "color": pen.muted}, "standoff": 8},
            anchor="y",
        ),
        yaxis=axis(
            pen,
            domain=[0, MAP_TOP],
            range=[data.layers + 0.5, 0.5],
            tickvals=y_ticks,
            title={"text": "MoE layer", "font": {"size": 13, "color": pen.muted}, "standoff": 6},
            anchor="x",
        ),
        xaxis2=axis(
            pen,
            domain=[MAP_WIDTH + 0.025, 1.0],
            range=[0, 100],
            tickvals=[0, 50, 100],
            ticktext=["", "50", "100"],
            tickangle=0,
            title={
                "text": "busiest 10 %" if view == "load" else "% of tokens",
                "font": {"size": 13, "color": pen.muted},
                "standoff": 8,
            },
            anchor="y",
        ),
        yaxis2=axis(
            pen,
            domain=[MAP_TOP + 0.04, 1.0],
            type="log",
            showgrid=True,
            gridcolor=pen.grid,
            tickvals=_decades(high),
            ticktext=[_decade_text(value) for value in _decades(high)],
            anchor="x",
        ),
    )


def _decades(high: float) -> list[float]:
    """The two powers of ten that the curve passes: below its top, and one tenth of that."""
    top = 10.0 ** (len(str(int(high))) - 1) if high >= 1 else 10.0 ** -len(str(int(1 / high)))
    return [top / 10, top]


def _decade_text(value: float) -> str:
    return count(value) if value >= 1 else f"{value:.6f}".rstrip("0")


def _band_names(data: MapData) -> list[Spec]:
    notes: list[Spec] = []
    for index, group in enumerate(data.groups):
        if group.experts < NAMED_BAND * data.layers * data.experts:
            continue
        ranks = sorted(
            rank
            for layer in range(data.layers)
            for rank, expert in enumerate(data.order[layer])
            if data.group[layer][expert] == index
        )
        # Names of neighbouring bands stand at different heights, so that they never meet on a narrow screen.
        level = (0.3, 0.5, 0.7)[len(notes) % 3]
        notes.append(
            {"x": ranks[len(ranks) // 2] + 1, "y": 1 + level * (data.layers - 1), "xref": "x", "yref": "y",
             "text": f"<b>{group.short}</b>", "showarrow": False, "font": {"size": 13, "color": text_on(group.colour)}}
        )  # fmt: skip
    return notes


def load_legend(place: Placement) -> tuple[list[str], list[float]]:
    """Colours of the scale from little to much, and the loads at its ends and in its middle (tokens per step)."""
    scale = load_scale(place)
    return list(VIRIDIS), [scale.low, (scale.low * scale.high) ** 0.5, scale.high]
