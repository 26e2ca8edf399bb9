"""The waterfall of reasons: from the base's value over each group's contribution to the other side's value."""

from __future__ import annotations

import math
from html import escape
from textwrap import wrap

from planner.compare import Delta
from planner.words.comparison import TIMES, signed_text, value_text
from planner.words.formats import NBSP, seconds_unit, shorten, trimmed
from ui.charts.base import Spec, axis, layout, round_ticks
from ui.theme import LINK, SLATE, TIERS, Ink

ROW = 36
LABEL_PX = 132


def figure(delta: Delta, base: str, other: str, pen: Ink) -> Spec:
    """Rows from top to bottom: base, parts (largest first), other. Signs are written, not only coloured."""
    assert delta.base is not None and delta.other is not None
    like = max(abs(delta.base), abs(delta.other))
    factor = seconds_unit(like)[0] if delta.metric in TIMES else 1.0
    unit = seconds_unit(like)[1] if delta.metric in TIMES else delta.unit
    parts = [part for part in sorted(delta.parts, key=lambda p: -abs(p.value)) if part.value != 0]
    rows = [(escape(shorten(base, 20)), 0.0, delta.base, value_text(delta.metric, delta.base, like), SLATE)]
    at = delta.base
    for part in parts:
        colour = TIERS["streamed"] if part.value > 0 else LINK
        rows.append((part.name, at, part.value, signed_text(delta.metric, part.value, like), colour))
        at += part.value
    rows.append((escape(shorten(other, 20)), 0.0, delta.other, value_text(delta.metric, delta.other, like), SLATE))
    ends = [edge * factor for _, start, length, _, _ in rows for edge in (start, start + length)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = (high - low) * 0.3
    ticks = round_ticks(high - low, 6)
    step = ticks[1] if len(ticks) > 1 else 1.0
    ticks = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    whole = pen.text if pen.mode == "dark" else SLATE
    return {
        "data": [
            {"type": "bar", "orientation": "h", "y": list(range(len(rows))), "base": [r[1] * factor for r in rows],
             "x": [r[2] * factor for r in rows], "width": 0.62,
             "marker": {"color": [whole if r[4] == SLATE else r[4] for r in rows],
                        "pattern": {"shape": ["/" if r[4] == LINK else "" for r in rows], "size": 6,
                                    "solidity": 0.25, "fgcolor": pen.background, "fillmode": "overlay"}},
             "hovertemplate": [f"{r[0]}: {r[3]}<extra></extra>" for r in rows]}
        ],
        "layout": layout(
            pen,
            ROW * len(rows) + 52,
            margin={"l": LABEL_PX, "r": 10, "t": 2, "b": 46},
            xaxis=axis(pen, range=[low * 1.02, high + room], tickvals=ticks, tickangle=0, showgrid=True,
                       ticktext=[trimmed(tick, 3) for tick in ticks], gridcolor=pen.grid, zeroline=True,
                       zerolinecolor=pen.muted,
                       title={"text": unit, "font": {"size": 13, "color": pen.muted}, "standoff": 6}),
            yaxis=axis(pen, range=[len(rows) - 0.5, -0.5], tickvals=list(range(len(rows))),
                       ticktext=[_wrapped(r[0]) for r in rows], tickfont={"size": 13, "color": pen.text}),
            annotations=[
                {"x": max(r[1], r[1] + r[2]) * factor, "y": i, "xref": "x", "yref": "y", "xanchor": "left",
                 "xshift": 5, "showarrow": False, "text": r[3].partition(NBSP)[0],
                 "font": {"size": 13, "color": pen.text}}
                for i, r in enumerate(rows)
            ],
        ),
    }  # fmt: skip


def _wrapped(text: str, width: int = 22) -> str:
    """A long name on several lines; already escaped."""
    return "<br>".join(wrap(text, width, break_long_words=False))
