"""Memory by tier: a bar per tier from zero to its capacity, parts in their fixed order, the surplus beyond it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.result import MemoryTier
from planner.words import names
from planner.words.formats import count, gb
from ui.charts.base import Spec, axis, layout
from ui.theme import TIERS, Ink, mix, text_on, tier_colour

ROW = 74
BAR = 0.54

# Words that name an item, what it is drawn as; the first that is found counts.
KINDS: tuple[tuple[str, str], ...] = (
    ("kv", "kv"),
    ("recurrent", "kv"),
    ("state", "kv"),
    ("activation", "activations"),
    ("reserve", "reserve"),
    ("framework", "reserve"),
    ("attention", "attention"),
    ("expert", "experts"),
    ("routed", "experts"),
    ("replica", "experts"),
    ("original", "experts"),
    ("buffer", "experts"),
    ("duplicate", "experts"),
    ("load peak", "activations"),
)
RANK = {"attention": 0, "dense": 1, "experts": 2, "kv": 3, "activations": 4, "reserve": 5}


@dataclass(frozen=True)
class Piece:
    """One part of a tier as it is drawn and listed."""

    name: str
    kind: str
    bytes: float
    colour: str


def kind_of(name: str) -> str:
    """What an item of the ledger is drawn as; whatever is not named otherwise is dense and shared weights."""
    text = name.lower()
    return next((kind for word, kind in KINDS if word in text), "dense")


def colour_of(name: str, tier: str, pen: Ink) -> str:
    """The colour of an item: experts have that of whoever computes them, the rest the page's common ones."""
    kind = kind_of(name)
    if kind == "experts":
        text = name.lower()
        if "cxl" in text:
            return TIERS["cxl_ndp"]
        if "ndp" in text:
            return TIERS["dimm_ndp"]
        base = TIERS.get(tier, TIERS["host"])
        width = re.search(r"at (\d+(?:\.\d+)?) bit", text)
        if width is not None:
            return tier_colour(tier, float(width.group(1)))
        # Copies and buffers are experts too, but not the experts themselves.
        return mix(base, "#FFFFFF", 0.45) if any(w in text for w in ("buffer", "duplicate", "replica")) else base
    return {
        "attention": pen.attention,
        "dense": pen.dense,
        "kv": pen.kv,
        "activations": pen.activations,
        "reserve": pen.hatch,
    }[kind]


def pieces(tier: MemoryTier, pen: Ink) -> list[Piece]:
    """The items of a tier in the order that parts have everywhere."""
    found = [Piece(i.name, kind_of(i.name), i.bytes, colour_of(i.name, tier.tier, pen)) for i in tier.items if i.bytes]
    return sorted(found, key=lambda piece: RANK[piece.kind])


def uneven_bytes(tier: MemoryTier) -> float:
    """Capacity that stays unused because the fullest device is full before the others; all devices together."""
    return max(tier.capacity_bytes - tier.used_bytes - tier.free_bytes, 0.0)


def heading(tier: MemoryTier) -> str:
    """``GPU HBM 80.6 of 85.9 GB``, in Plotly's HTML."""
    name = names.plain_tier(tier.name)
    text = f"<b>{name}</b>{tier.name[len(name) :]}"
    if tier.devices > 1:
        text += f", {count(tier.devices)} devices"
    return f"{text}  {gb(tier.used_bytes)} of {gb(tier.capacity_bytes)}\u00a0GB"


def figure(tiers: tuple[MemoryTier, ...], pen: Ink) -> Spec:
    """One figure for all tiers; every bar is drawn in shares of its own capacity, so a tier's end is its capacity."""
    n = len(tiers)
    top = max([1.0, *(tier.used_bytes / max(tier.capacity_bytes, 1.0) for tier in tiers)])
    traces: list[Spec] = []
    shapes: list[Spec] = []
    notes: list[Spec] = []
    for index, tier in enumerate(tiers):
        y = n - 1 - index
        scale = 1.0 / max(tier.capacity_bytes, 1.0)
        at = 0.0
        for piece in pieces(tier, pen):
            traces.append(_bar(piece, y, at, piece.bytes * scale, pen))
            at += piece.bytes * scale
        uneven = uneven_bytes(tier) * scale
        if uneven > 0.002:
            traces.append(_bar(Piece("uneven split", "reserve", uneven_bytes(tier), pen.hatch), y, at, uneven, pen))
            at += uneven
        if tier.free_bytes > 0:
            traces.append(_free(y, at, 1.0 - at, tier.free_bytes, pen))
        notes.append(
            {"x": 0, "y": y + 0.47, "xref": "x", "yref": "y", "xanchor": "left", "yanchor": "middle", "xshift": -2,
             "text": heading(tier), "showarrow": False, "font": {"size": 13, "color": pen.text}}
        )  # fmt: skip
        if at > 1.0 + 1e-9:
            low, high = y - BAR / 2 - 0.06, y + BAR / 2 + 0.02
            shapes.append(
                {"type": "rect", "x0": 1.0, "x1": at, "y0": y - BAR / 2, "y1": y + BAR / 2, "xref": "x", "yref": "y",
                 "line": {"color": pen.over, "width": 3}}
            )  # fmt: skip
            shapes.append(
                {"type": "line", "x0": 1.0, "x1": 1.0, "y0": low, "y1": high, "line": {"color": pen.text, "width": 2}}
            )
            notes.append(
                {"x": at, "y": y + 0.47, "xref": "x", "yref": "y", "xanchor": "right", "yanchor": "middle",
                 "text": f"<b>{gb(tier.used_bytes - tier.capacity_bytes)}\u00a0GB over capacity</b>",
                 "showarrow": False, "font": {"size": 13, "color": pen.over}}
            )  # fmt: skip
    return {
        "data": traces,
        "layout": layout(
            pen,
            ROW * n + 4,
            margin={"l": 2, "r": 4, "t": 0, "b": 0},
            barmode="overlay",
            uniformtext={"mode": "hide", "minsize": 13},
            xaxis=axis(pen, range=[0, top * 1.004], showticklabels=False),
            yaxis=axis(pen, range=[-0.36, n - 0.36], showticklabels=False),
            shapes=shapes,
            annotations=notes,
        ),
    }


def _bar(piece: Piece, y: int, start: float, length: float, pen: Ink) -> Spec:
    marker: Spec = {"color": piece.colour, "line": {"color": pen.background, "width": 1}}
    if piece.kind == "reserve":
        marker["pattern"] = {
            "shape": "/",
            "fillmode": "overlay",
            "fgcolor": pen.background,
            "size": 7,
            "solidity": 0.35,
        }
    return {
        "type": "bar",
        "orientation": "h",
        "y": [y],
        "x": [length],
        "base": [start],
        "width": BAR,
        "marker": marker,
        "text": [f"{piece.name} {gb(piece.bytes)}"],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"size": 13, "color": text_on(piece.colour)},
        "hovertemplate": f"{piece.name}: {gb(piece.bytes)} GB<extra></extra>",
    }


def _free(y: int, start: float, length: float, free_bytes: float, pen: Ink) -> Spec:
    return {
        "type": "bar",
        "orientation": "h",
        "y": [y],
        "x": [length],
        "base": [start],
        "width": BAR,
        "marker": {"color": "rgba(0,0,0,0)", "line": {"color": pen.muted, "width": 1}},
        "text": [f"free {gb(free_bytes)}"],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"size": 13, "color": pen.text},
        "hovertemplate": f"free: {gb(free_bytes)} GB<extra></extra>",
    }
