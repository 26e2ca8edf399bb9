"""Tornado: bars from the plan to both ends of each input's range, the widest on top."""

from __future__ import annotations

from html import escape
from textwrap import wrap

from planner.sensitivities import Tornado
from planner.words.formats import shorten, signed_percent
from ui.charts.base import Spec, axis, layout
from ui.theme import TIERS, Ink

ROW_PX = 34
MOST = 10
ROOM = 1.5  # times the longest bar: its figure stands beside it on a narrow screen too


def figure(found: Tornado, pen: Ink) -> Spec:
    """At most ten inputs; what is better and what is worse is a colour and a side, and each end says its value."""
    bars = found.bars[:MOST][::-1]
    names = ["<br>".join(escape(line) for line in wrap(shorten(bar.label, 44), 22)) for bar in bars]
    traces: list[Spec] = []
    for end, colour in (("low", TIERS["gpu"]), ("high", TIERS["host"])):
        changes = [100 * getattr(bar, f"at_{end}") for bar in bars]
        traces.append(
            {"type": "bar", "orientation": "h", "y": list(range(len(bars))), "x": changes, "width": 0.62,
             "marker": {"color": colour, "pattern": {"shape": "/" if end == "high" else "", "fillmode": "overlay",
                                                     "solidity": 0.25,
                                                     "fgcolor": pen.background}},
             "text": [f"{signed_percent(change / 100)}\u202f%" if abs(change) >= 0.05 else "" for change in changes],
             "textposition": "outside", "cliponaxis": False, "textfont": {"size": 13, "color": pen.text},
             "hovertext": [f"{escape(bar.label)} {escape(bar.range_text)}: {signed_percent(change / 100)} % at {end}"
                           for bar, change in zip(bars, changes, strict=True)],
             "hovertemplate": "%{hovertext}<extra></extra>"}
        )  # fmt: skip
    widest = max((100 * bar.size for bar in bars), default=1.0)
    return {
        "data": traces,
        "layout": layout(
            pen,
            70 + ROW_PX * len(bars),
            barmode="overlay",
            margin={"l": 0, "r": 10, "t": 6, "b": 46},
            xaxis=axis(pen, range=[-ROOM * widest, ROOM * widest], showgrid=True, gridcolor=pen.grid, zeroline=True,
                       zerolinecolor=pen.muted,
                       title={"text": "change, %", "font": {"size": 13, "color": pen.muted}}),
            yaxis=axis(pen, tickvals=list(range(len(bars))), ticktext=names,
                       range=[-0.6, len(bars) - 0.4], automargin=True),
        ),
    }  # fmt: skip
