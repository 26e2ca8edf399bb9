"""Where the time of a step goes: the exposed parts in one bar, and every lane under it on the same axis."""

from __future__ import annotations

from dataclasses import dataclass

from planner.result import Step, StepPart
from planner.words import names
from planner.words.findings import step_unit
from planner.words.formats import NBSP, significant, trimmed
from ui.charts.base import Spec, axis, axis_title, layout, round_ticks
from ui.theme import Ink, mix, part_colour, text_on

ORDER = ("attention", "dense_shared", "routed_gpu", "routed_cpu", "routed_ndp", "link", "collective", "overhead")
LANES = ("gpu", "cpu", "dram", "ndp", "link", "cxl_link", "network")
ROUTED = ("routed_gpu", "routed_cpu", "routed_ndp")
ROW = 44
STEP_ROW = "Step"


@dataclass(frozen=True)
class Segment:
    """One bar piece: exposed work is solid, hidden work is pale with an outline."""

    row: str
    part: str
    start_s: float
    length_s: float
    hidden: bool


def ordered_parts(step: Step) -> list[StepPart]:
    """Parts in the order that they have everywhere on the page."""
    return sorted(step.parts, key=lambda part: ORDER.index(part.part) if part.part in ORDER else len(ORDER))


def segments(step: Step) -> list[Segment]:
    """All pieces. Exposed parts follow each other and add up to the step; what hides is placed in free time of its
    own lane, from the start of the routed experts on, because that is what it hides behind."""
    pieces: list[Segment] = []
    solid: dict[str, list[tuple[float, float]]] = {}
    at, zone = 0.0, None
    for part in ordered_parts(step):
        if zone is None and part.part not in ("attention", "dense_shared"):
            zone = at
        if part.exposed_s <= 0:
            continue
        pieces.append(Segment(STEP_ROW, part.part, at, part.exposed_s, False))
        if part.lane in LANES:
            pieces.append(Segment(part.lane, part.part, at, part.exposed_s, False))
            solid.setdefault(part.lane, []).append((at, at + part.exposed_s))
        at += part.exposed_s
    total = max(at, step.total_s)
    for part in ordered_parts(step):
        left = part.busy_s - part.exposed_s
        if part.lane not in LANES or left <= 1e-9 * total:
            continue
        taken = solid.setdefault(part.lane, [])
        for low, high in _gaps(taken, total, zone or 0.0):
            length = min(left, high - low)
            pieces.append(Segment(part.lane, part.part, low, length, True))
            taken.append((low, low + length))
            left -= length
            if left <= 1e-9 * total:
                break
    return pieces


def _gaps(taken: list[tuple[float, float]], total: float, zone: float) -> list[tuple[float, float]]:
    """Free time of a lane: first what lies at or after ``zone``, then what lies before it."""
    free, at = [], 0.0
    for low, high in [*sorted(taken), (total, total)]:
        if low > at:
            free.append((at, low))
        at = max(at, high)
    after = [(max(low, zone), high) for low, high in free if high > zone]
    before = [(low, min(high, zone)) for low, high in free if low < zone]
    return after + before


def lanes_of(step: Step) -> list[str]:
    """The lanes that do anything, in their fixed order."""
    return [lane for lane in LANES if any(part.lane == lane and part.busy_s > 0 for part in step.parts)]


def _merged(pieces: list[Segment]) -> list[Segment]:
    """Neighbouring pieces of one part and kind as one bar, so that it is labelled once."""
    merged: list[Segment] = []
    for piece in sorted(pieces, key=lambda p: (p.row, p.start_s)):
        last = merged[-1] if merged else None
        if (
            last is not None
            and (last.row, last.part, last.hidden) == (piece.row, piece.part, piece.hidden)
            and abs(last.start_s + last.length_s - piece.start_s) <= 1e-9 * (piece.start_s + piece.length_s)
        ):
            merged[-1] = Segment(last.row, last.part, last.start_s, last.length_s + piece.length_s, last.hidden)
        else:
            merged.append(piece)
    return merged


def figure(step: Step, pen: Ink, ndp_tier: str = "dimm_ndp") -> Spec:
    """The whole figure as a Plotly specification; ``ndp_tier`` gives NDP its colour."""
    factor, unit = step_unit(step.total_s)
    total = step.total_s * factor
    lanes = lanes_of(step)
    rows = [STEP_ROW, *lanes]
    labels = {STEP_ROW: f"<b>{STEP_ROW}</b>", **{lane: names.lane(lane) for lane in lanes}}
    place = {row: len(rows) - 1 - index for index, row in enumerate(rows)}
    traces: list[Spec] = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [place[lane] for lane in lanes],
            "x": [total] * len(lanes),
            "width": 0.66,
            "marker": {"color": pen.track, "line": {"width": 0}},
            "hoverinfo": "skip",
        }
    ]
    traces += [_bar(piece, place[piece.row], factor, unit, pen, ndp_tier) for piece in _merged(segments(step))]
    ticks = [tick for tick in round_ticks(total) if tick < 0.93 * total or tick == 0]
    return {
        "data": traces,
        "layout": layout(
            pen,
            54 + ROW * len(rows),
            margin={"l": 84, "r": 22, "t": 2, "b": 48},
            barmode="overlay",
            uniformtext={"mode": "hide", "minsize": 13},
            xaxis=axis(
                pen,
                range=[0, total],
                tickangle=0,
                showgrid=True,
                gridcolor=pen.grid,
                tickvals=[*ticks, total],
                ticktext=[*map(trimmed, ticks), significant(total)],
                title=axis_title(pen, f"{unit}, all layers added up"),
            ),
            yaxis=axis(
                pen,
                range=[-0.5, len(rows) - 0.5],
                tickvals=[place[row] for row in rows],
                ticktext=[labels[row] for row in rows],
                tickfont={"size": 14, "color": pen.text},
            ),
            shapes=[
                {"type": "line", "x0": total, "x1": total, "y0": 0, "y1": 1, "xref": "x", "yref": "paper",
                 "line": {"color": pen.text, "width": 2}}
            ],
            annotations=_waiting(step, lanes, place, factor, unit, pen),
        ),
    }  # fmt: skip


def _bar(piece: Segment, y: int, factor: float, unit: str, pen: Ink, ndp_tier: str) -> Spec:
    colour = part_colour(piece.part, pen, ndp_tier)
    length = piece.length_s * factor
    fill = mix(colour, pen.background, 0.72) if piece.hidden else colour
    words = names.PART_BAR.get(piece.part, names.part(piece.part))
    if piece.row == STEP_ROW and piece.part in ROUTED:
        words = names.part(piece.part).replace("routed", "experts")
    if piece.part == "link" and not piece.hidden and piece.row != STEP_ROW:
        words = "transfer"
    value = f"{significant(length)}{NBSP}{unit}"
    state = "hidden behind other work" if piece.hidden else "exposed"
    return {
        "type": "bar",
        "orientation": "h",
        "y": [y],
        "x": [length],
        "base": [piece.start_s * factor],
        "width": 0.8 if piece.row == STEP_ROW else 0.66,
        "marker": {
            "color": fill,
            "line": {"color": colour if piece.hidden else pen.background, "width": 1.5 if piece.hidden else 0.5},
        },
        "text": [f"{words} {value}"],
        "textposition": "inside",
        "insidetextanchor": "start",
        "textfont": {"size": 13, "color": pen.text if piece.hidden else text_on(colour)},
        "textangle": 0,
        "hovertemplate": f"{names.part(piece.part)}: {value} {state}<extra></extra>",
    }


def _waiting(step: Step, lanes: list[str], place: dict[str, int], factor: float, unit: str, pen: Ink) -> list[Spec]:
    """How long a lane does nothing, written where it ends the step idle and there is room for it."""
    notes: list[Spec] = []
    for lane in lanes:
        busy = sum(part.busy_s for part in step.parts if part.lane == lane)
        end = max((p.start_s + p.length_s for p in segments(step) if p.row == lane), default=0.0)
        idle = step.total_s - busy
        if step.total_s - end < 0.42 * step.total_s:
            continue
        notes.append(
            {"x": step.total_s * factor, "y": place[lane], "xref": "x", "yref": "y", "xanchor": "right", "xshift": -6,
             "text": f"waiting {significant(idle * factor)}{NBSP}{unit}", "showarrow": False,
             "font": {"size": 13, "color": pen.muted}}
        )  # fmt: skip
    return notes
