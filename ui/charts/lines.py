"""A few series over the steps of a simulation: from zero, each line named at its right end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.words.formats import trimmed
from ui.charts.base import Spec, axis, axis_title, layout, packed, round_ticks
from ui.theme import Ink

HEIGHT = 262
LABEL_PX = 17  # least distance of two names at the right end
PLOT_PX = HEIGHT - 62
NAMES_PX = 92


@dataclass(frozen=True)
class Line:
    """One series: what it is called beside its end, its values by step, and how it is drawn."""

    name: str
    values: Sequence[float]
    colour: str


def figure(lines: Sequence[Line], unit: str, pen: Ink, top: float | None = None, mean: float | None = None) -> Spec:
    """``lines`` over steps 1, 2, ...; ``top`` fixes the upper end; ``mean`` is drawn and named."""
    steps = max((len(line.values) for line in lines), default=0)
    highest = top or 1.08 * max((max(line.values, default=0.0) for line in lines), default=0.0) or 1.0
    traces: list[Spec] = [
        {
            "type": "scatter",
            "mode": "lines" if steps > 1 else "markers",
            "name": line.name,
            "x": packed(range(1, steps + 1), "u2"),
            "y": packed(line.values, "f4"),
            "line": {"color": line.colour, "width": 2},
            "marker": {"color": line.colour, "size": 7},
            "hovertemplate": f"step %{{x}}: %{{y:.3s}} {unit}<extra>{line.name}</extra>",
        }
        for line in lines
    ]
    notes = _names(lines, highest, pen)
    shapes: list[Spec] = []
    if mean is not None:
        shapes.append(
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": mean, "y1": mean,
             "line": {"color": pen.muted, "width": 1, "dash": "dot"}}
        )  # fmt: skip
        notes.append(_note(f"mean {trimmed(mean, 3)}", mean, 0.0, pen.muted))
    ticks = [tick for tick in round_ticks(steps) if tick >= 1 and (tick <= 0.94 * steps or tick == steps)]
    return {
        "data": traces,
        "layout": layout(
            pen,
            HEIGHT,
            margin={"l": 62, "r": NAMES_PX, "t": 12, "b": 50},
            hovermode="x",
            xaxis=axis(pen, range=[1, max(steps, 2)], tickvals=sorted({1, *ticks, steps}), tickangle=0,
                       title=axis_title(pen, "decode step")),
            yaxis=axis(pen, range=[0, highest], tickvals=round_ticks(highest, 6), showgrid=True, gridcolor=pen.grid,
                       ticktext=[trimmed(tick, 3) for tick in round_ticks(highest, 6)],
                       title=axis_title(pen, unit)),
            shapes=shapes,
            annotations=notes,
        ),
    }  # fmt: skip


def _names(lines: Sequence[Line], highest: float, pen: Ink) -> list[Spec]:
    """The name of each line at its end, moved apart where two ends are close."""
    if len(lines) < 2:
        return []
    ends = sorted((line.values[-1] / highest * PLOT_PX, line) for line in lines if line.values)
    notes, least = [], 0.0
    # From the lowest up, each at least a line of text above the one below; the whole stack stays inside.
    room = PLOT_PX - LABEL_PX * (len(ends) - 1)
    for index, (at, line) in enumerate(ends):
        place = max(min(at, room + LABEL_PX * index), least)
        least = place + LABEL_PX
        notes.append(_note(line.name, at / PLOT_PX * highest, place - at, pen.text))
    return notes


def _note(text: str, y: float, shift: float, colour: str) -> Spec:
    return {
        "x": 1, "xref": "paper", "y": y, "yref": "y", "xanchor": "left", "xshift": 6, "yshift": shift,
        "text": text, "showarrow": False, "align": "left", "font": {"size": 13, "color": colour},
    }  # fmt: skip
