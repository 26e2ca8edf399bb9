"""Charts of a comparison: headline bars with ranges, time and memory, each on one axis for all sides."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from planner.compare import Comparison, Side
from planner.words import names
from planner.words.comparison import TIMES, value_text
from planner.words.findings import step_unit
from planner.words.formats import gb, seconds_unit, shorten, significant, trimmed
from ui.charts.base import Spec, axis, layout, round_ticks
from ui.theme import SLATE, TIERS, Ink, mix, part_colour, text_on

SHOWN = ("tpot_s", "tokens_per_s_end_to_end", "usd_per_million_output_tokens")
UNITS = {"usd_per_million_output_tokens": "USD per million output tokens"}
BAR = 34
LABEL_PX = 118


def label(side: Side) -> str:
    """The name of a side as an axis shows it: short, and as text."""
    return escape(shorten(side.label, 15))


def headline(found: Comparison, metric: str, pen: Ink) -> Spec:
    """One figure, one bar for each side from zero, with its 80 % range as a whisker."""
    n = len(found.sides)
    values = [side.figures[metric] for side in found.sides]
    spans = [side.intervals.get(metric) for side in found.sides]
    known = [i for i, value in enumerate(values) if value is not None]
    top = max([0.0, *(v for v in values if v is not None), *(s[1] for s in spans if s is not None)]) or 1.0
    factor, unit = 1.0, UNITS.get(metric, names.HEADLINE[metric][1])
    if metric in TIMES:
        factor, unit = seconds_unit(max((v for v in values if v is not None), default=1.0))
    shown = [(values[i] or 0.0) * factor for i in known]
    other = mix(SLATE, "#FFFFFF", 0.45)
    base = SLATE if pen.mode == "light" else pen.text
    ranged = [i for i in known if spans[i] is not None]
    ends = [spans[i] or (0.0, 0.0) for i in ranged]
    bars: Spec = {
        "type": "bar", "orientation": "h", "y": known, "x": shown, "width": 0.62,
        "marker": {"color": [base if i == 0 else other for i in known]},
        "hovertemplate": [f"{label(found.sides[i])}: {value_text(metric, values[i])}<extra></extra>" for i in known],
    }  # fmt: skip
    at = [(values[i] or 0.0) * factor for i in ranged]
    whiskers: Spec = {
        "type": "scatter", "mode": "markers", "x": at, "y": ranged, "hoverinfo": "skip",
        "marker": {"size": 1, "color": pen.muted},
        "error_x": {"type": "data", "symmetric": False, "color": pen.muted, "thickness": 2, "width": 5,
                    "array": [end[1] * factor - x for end, x in zip(ends, at, strict=True)],
                    "arrayminus": [x - end[0] * factor for end, x in zip(ends, at, strict=True)]},
    }  # fmt: skip
    spec = _stacked([bars, whiskers], [label(side) for side in found.sides], top * factor, unit, pen, bar=BAR)
    spec["layout"]["annotations"] = [
        _none("no figure" if found.sides[i].fits else "has no plan", i, pen) for i in range(n) if i not in known
    ]
    return spec


def _none(text: str, y: int, pen: Ink) -> Spec:
    return {"x": 0, "y": y, "xref": "x", "yref": "y", "xanchor": "left", "xshift": 4, "text": text,
            "showarrow": False, "font": {"size": 13, "color": pen.muted}}  # fmt: skip


def time(sides: Sequence[Side], pen: Ink) -> Spec:
    """Exposed parts of a decode step, one stacked bar for each side on one axis."""
    planned = [side for side in sides if side.step]
    top = max((sum(part.value for part in side.step) for side in planned), default=1.0)
    factor, unit = step_unit(top)
    order = list(dict.fromkeys(name for name in names.PARTS if any(p.id == name for s in planned for p in s.step)))
    traces: list[Spec] = []
    for part in order:
        tier = "cxl_ndp" if any(m.id == "cxl_ndp" for side in planned for m in side.memory) else "dimm_ndp"
        colour = part_colour(part, pen, tier)
        rows = [(i, p.value * factor) for i, side in enumerate(planned) for p in side.step if p.id == part]
        traces.append(
            {"type": "bar", "orientation": "h", "name": names.part(part), "y": [i for i, _ in rows],
             "x": [v for _, v in rows], "width": 0.66,
             "marker": {"color": colour, "line": {"color": pen.background, "width": 0.5}},
             "text": [f"{names.PART_BAR.get(part, part)} {significant(v)}" for _, v in rows],
             "textposition": "inside", "insidetextanchor": "middle", "textangle": 0,
             "textfont": {"size": 13, "color": text_on(colour)},
             "hovertemplate": f"{names.part(part)}: %{{x:.3g}} {unit}<extra></extra>"}
        )  # fmt: skip
    return _stacked(traces, [label(side) for side in planned], top * factor, f"{unit} of a decode step", pen)


def memory(sides: Sequence[Side], pen: Ink) -> Spec:
    """Bytes used in each tier, its capacity as an outline, on one axis for all sides."""
    rows = [(side, tier) for side in sides for tier in side.memory]
    top = max((max(tier.of or 0.0, tier.value) for _, tier in rows), default=1.0) / 1e9
    outline: Spec = {
        "type": "bar", "orientation": "h", "y": list(range(len(rows))), "x": [(t.of or 0.0) / 1e9 for _, t in rows],
        "width": 0.66, "marker": {"color": "rgba(0,0,0,0)", "line": {"color": pen.muted, "width": 1}},
        "hovertemplate": [f"{t.name}: capacity {gb(t.of or 0.0)} GB<extra></extra>" for _, t in rows],
    }  # fmt: skip
    used: Spec = {
        "type": "bar", "orientation": "h", "y": list(range(len(rows))), "x": [t.value / 1e9 for _, t in rows],
        "width": 0.66,
        "marker": {"color": [pen.over if t.of is not None and t.value > t.of else TIERS.get(t.id, "#7A7A7A")
                             for _, t in rows]},
        "hovertemplate": [f"{t.name}: {gb(t.value)} of {gb(t.of or 0.0)} GB<extra></extra>" for _, t in rows],
    }  # fmt: skip
    texts = [f"{label(side)}<br>{escape(tier.name)}" for side, tier in rows]
    spec = _stacked([used, outline], texts, top, "GB used, outline = capacity", pen, bar=44)
    spec["layout"]["barmode"] = "overlay"
    return spec


def _stacked(traces: list[Spec], labels: list[str], top: float, unit: str, pen: Ink, bar: int = 40) -> Spec:
    n, ticks = max(len(labels), 1), round_ticks(top, 6)
    return {
        "data": traces,
        "layout": layout(
            pen,
            bar * n + 52,
            margin={"l": LABEL_PX, "r": 14, "t": 2, "b": 46},
            barmode="stack",
            uniformtext={"mode": "hide", "minsize": 12},
            xaxis=axis(pen, range=[0, top * 1.02], tickvals=ticks, tickangle=0, showgrid=True,
                       ticktext=[trimmed(tick, 3) for tick in ticks], gridcolor=pen.grid,
                       title={"text": unit, "font": {"size": 13, "color": pen.muted}, "standoff": 6}),
            yaxis=axis(pen, range=[n - 0.5, -0.5], tickvals=list(range(n)), ticktext=labels,
                       tickfont={"size": 13, "color": pen.text}),
        ),
    }  # fmt: skip
