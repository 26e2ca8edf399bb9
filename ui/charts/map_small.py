"""The map for 32 experts or fewer: layers along x, experts by load along y, the bits written into each cell."""

from __future__ import annotations

from planner.result import Placement
from planner.words.formats import bits as bits_text
from planner.words.formats import significant
from ui.charts.base import Spec, axis, layout, packed, round_ticks
from ui.charts.map_data import LOAD_STEPS, MapData, Order, View, arrange, load_scale, viridis
from ui.theme import NEAR_BLACK, Ink, text_on

HEIGHT = 262
MAP_WIDTH = 0.80
WRITTEN_LAYERS = 64


def figure(place: Placement, view: View, order: Order, pen: Ink) -> Spec:
    """The whole figure as a Plotly specification."""
    data = arrange(place, view, order)
    layers, experts = data.layers, data.experts
    if view == "load":
        scale = load_scale(place)
        values = [
            scale.step(place.load[layer][data.order[layer][rank]]) for rank in range(experts) for layer in range(layers)
        ]
        colours, low, high = viridis(), 0.0, LOAD_STEPS - 1.0
    else:
        values = [data.group[layer][data.order[layer][rank]] for rank in range(experts) for layer in range(layers)]
        n = len(data.groups)
        colours = []
        for index, group in enumerate(data.groups):
            colours += [[index / n, group.colour], [(index + 1) / n, group.colour]]
        low, high = -0.5, n - 0.5
    heat: Spec = {
        "type": "heatmap",
        "z": packed(values, "u1", (experts, layers)),
        "x0": 1,
        "dx": 1,
        "y0": 1,
        "dy": 1,
        "xgap": 1,
        "ygap": 1,
        "zmin": low,
        "zmax": high,
        "colorscale": colours,
        "showscale": False,
        "hoverinfo": "skip",
    }
    mean = [sum(row) / len(row) for row in data.by_rank]
    bars: Spec = {
        "type": "bar",
        "orientation": "h",
        "x": mean,
        "y": list(range(1, experts + 1)),
        "xaxis": "x2",
        "marker": {"color": pen.dense, "line": {"width": 0}},
        "text": [significant(value, 2) if value < 100 else significant(value) for value in mean],
        "textposition": "auto",
        "insidetextanchor": "end",
        "textfont": {"size": 12},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
    return {
        "data": [heat, *_points(place, data, view, order), bars],
        "layout": _layout(data, order, max(mean, default=1.0), pen),
    }


def _points(place: Placement, data: MapData, view: View, order: Order) -> list[Spec]:
    """One trace per colour: it makes the cells clickable and writes their bits in the ink that is read on it.

    One width everywhere is said once, in the legend; written into every cell it would only be noise.
    """
    written = view != "load" and data.layers <= WRITTEN_LAYERS and len({klass.bits for klass in place.classes}) > 1
    traces: list[Spec] = []
    for index, group in enumerate(data.groups):
        cells = [
            (layer + 1, rank + 1, expert)
            for layer in range(data.layers)
            for rank, expert in enumerate(data.order[layer])
            if data.group[layer][expert] == index
        ]
        ink = {"color": text_on(group.colour), "size": 12}
        trace: Spec = {
            "type": "scatter" if written or len(cells) <= 1000 else "scattergl",
            "mode": "markers+text" if written else "markers",
            "name": group.name,
            "x": packed((cell[0] for cell in cells), "u2"),
            "y": packed((cell[1] for cell in cells), "u1"),
            "customdata": packed((cell[2] for cell in cells), "u1"),
            "marker": {"symbol": "square", "size": 14, "opacity": 0, "color": group.colour},
            "selected": {"marker": {"opacity": 0.9, "size": 14, "color": NEAR_BLACK}},
            "unselected": {"marker": {"opacity": 0}},
            "hovertemplate": "<b>%{fullData.name}</b><br>MoE layer %{x}, expert %{customdata}<br>"
            + ("rank %{y} by load<extra></extra>" if order == "load" else "<extra></extra>"),
        }
        if written:
            trace["text"] = [bits_text(place.bits[layer - 1][expert]) for layer, _, expert in cells]
            trace["textfont"] = ink
            trace["textposition"] = "middle center"
            trace["selected"]["textfont"] = {"color": "#FFFFFF"}
            trace["unselected"]["textfont"] = {"color": ink["color"]}
        traces.append(trace)
    return traces


def _layout(data: MapData, order: Order, top: float, pen: Ink) -> Spec:
    x_ticks = [1, *[tick for tick in round_ticks(data.layers, 6)[1:] if tick < 0.9 * data.layers], data.layers]
    y_ticks = list(range(1, data.experts + 1)) if data.experts <= 10 else [
        1, *[tick for tick in round_ticks(data.experts, 5)[1:] if tick < 0.94 * data.experts], data.experts
    ]  # fmt: skip
    muted = {"size": 13, "color": pen.muted}
    return layout(
        pen,
        HEIGHT if data.experts <= 12 else HEIGHT + 8 * (data.experts - 12),
        margin={"l": 44, "r": 14, "t": 4, "b": 46},
        bargap=0.12,
        xaxis=axis(
            pen,
            domain=[0, MAP_WIDTH],
            range=[0.5, data.layers + 0.5],
            tickvals=x_ticks,
            tickangle=0,
            title={"text": "MoE layer", "font": muted, "standoff": 8},
        ),
        yaxis=axis(
            pen,
            range=[data.experts + 0.5, 0.5],
            tickvals=y_ticks,
            title={"text": "expert, by load" if order == "load" else "expert, by number", "font": muted, "standoff": 6},
        ),
        xaxis2=axis(
            pen,
            domain=[MAP_WIDTH + 0.02, 1.0],
            range=[0, 1.08 * top],
            showticklabels=False,
            title={"text": "tokens/step", "font": muted, "standoff": 8},
            anchor="y",
        ),
    )
