"""The frontier as inline SVG: no script, colours from the page's style, all text escaped."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from html import escape

from planner.brief.records import Frontier, Point
from planner.words.formats import count, significant, trimmed

WIDTH, HEIGHT = 460, 236
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 16, 40
STEPS = (1.0, 2.0, 5.0)


def frontier_svg(found: Frontier) -> str:
    """Output tokens/s per GPU over tokens/s per user, both log; the chosen batch marked, the target's side shaded."""
    points = sorted(found.points, key=lambda p: p.tokens_per_s_user)
    if not points:
        return ""
    target = found.least_tokens_per_s_user
    across = [p.tokens_per_s_user for p in points] + ([target] if target else [])
    x = _Scale(min(across), max(across), LEFT, WIDTH - RIGHT)
    y = _Scale(min(p.tokens_per_s_per_gpu for p in points), max(p.tokens_per_s_per_gpu for p in points),
               HEIGHT - BOTTOM, TOP)  # fmt: skip
    alt = escape(_alt(found), quote=True)
    parts = [f'<svg class="b-chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{alt}">']
    if target:
        # The side that meets it is named at the upper right: the curve falls there.
        at, bottom = x(target), HEIGHT - BOTTOM
        parts.append(
            f'<rect class="b-meets" x="{at:.1f}" y="{TOP}" width="{max(WIDTH - RIGHT - at, 0):.1f}" '
            f'height="{bottom - TOP}"/><line class="b-target" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>'
            f"{_text(WIDTH - RIGHT - 4, TOP + 12, 'meets TPOT target', 'b-small b-end')}"
        )
    for tick in x.ticks():
        parts.append(f'<line class="b-grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(_text(x(tick), HEIGHT - BOTTOM + 14, trimmed(tick), "b-tick b-mid"))
    for tick in y.ticks():
        parts.append(f'<line class="b-grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(_text(LEFT - 5, y(tick) + 4, trimmed(tick), "b-tick b-end"))
    line = " ".join(f"{x(p.tokens_per_s_user):.1f},{y(p.tokens_per_s_per_gpu):.1f}" for p in points)
    parts.append(f'<polyline class="b-line" points="{line}"/>')
    parts += [_mark(p, x(p.tokens_per_s_user), y(p.tokens_per_s_per_gpu)) for p in points]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "output tok/s per user", "b-tick b-mid"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text class="b-tick b-mid" transform="translate(12 {middle:.1f}) rotate(-90)">output tok/s per '
        f"{escape(found.per)}</text></svg>"
    )
    return "".join(parts)


def frontier_image(found: Frontier, inks: Mapping[str, str]) -> str:
    """The same chart as an image element with everything in it: ``inks`` are the style's colours by name."""
    ink, muted, line = inks["ink"], inks["muted"], inks["line"]
    style = (
        f"text{{font:11.5px system-ui,sans-serif;fill:{ink}}}.b-tick{{fill:{muted}}}.b-mid{{text-anchor:middle}}"
        f".b-end{{text-anchor:end}}.b-bold{{font-weight:650}}.b-grid{{stroke:{line}}}.b-meets{{fill:{inks['meets']}}}"
        f".b-target{{stroke:{ink};stroke-dasharray:4 3}}.b-line{{fill:none;stroke:{inks['accent']};stroke-width:1.5}}"
        f".b-point{{fill:{inks['accent']}}}.b-chosen{{fill:{ink};stroke:{inks['ground']};stroke-width:2}}"
    )
    svg = frontier_svg(found).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    whole = svg.replace(">", f"><style>{style}</style>", 1)
    data = base64.b64encode(whole.encode()).decode("ascii")
    return f'<img class="b-chart" alt="{escape(_alt(found), quote=True)}" src="data:image/svg+xml;base64,{data}">'


class _Scale:
    """A log axis with a little room at both ends."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        room = max((high / low) ** 0.06, 1.12) if low > 0 else 1.12
        self.low, self.high = math.log10(low / room), math.log10(high * room)
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """1, 2, 5 of each decade inside; whole decades only where these would be too many."""
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        found = [s * 10.0**d for d in decades for s in STEPS if self.low <= math.log10(s * 10.0**d) <= self.high]
        return found if len(found) <= 6 else [t for t in found if f"{t:e}"[0] == "1"] or found[:6]


def _mark(point: Point, x: float, y: float) -> str:
    name = f"batch {count(point.batch)}" if point.chosen else count(point.batch)
    kind = "b-chosen" if point.chosen else "b-point"
    return (
        f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{6 if point.chosen else 3}"/>'
        f"{_text(x + 8, y - 5, name, 'b-small b-bold' if point.chosen else 'b-small')}"
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _alt(found: Frontier) -> str:
    rows = ", ".join(
        f"batch {count(p.batch)}: {significant(p.tokens_per_s_user)} per user and "
        f"{significant(p.tokens_per_s_per_gpu)} per {found.per}"
        for p in found.points
    )
    return f"Output tokens per second per {found.per} against output tokens per second per user. {rows}"
