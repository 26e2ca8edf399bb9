"""A total split into its parts: one bar from zero to the total, without an axis, because every part is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.result import Share
from planner.words.formats import significant
from ui.charts.base import Spec, axis, layout
from ui.theme import HATCHED, Ink, device_colour, text_on

HEIGHT = 40

ORDER = ("gpu", "cpu", "dimms", "ndp", "cxl", "links", "chassis", "electricity", "electricity_idle", "rent", "other")
SHORT = {
    "gpu": "GPU",
    "cpu": "CPU",
    "dimms": "DIMMs",
    "ndp": "NDP",
    "cxl": "CXL-NDP",
    "chassis": "chassis",
    "links": "links",
    "electricity": "electricity",
    "electricity_idle": "idle",
    "rent": "rent",
    "other": "other",
}


@dataclass(frozen=True)
class Row:
    """One part of energy and cost; None where the part has no share in one of them."""

    id: str
    name: str
    energy: float | None
    cost: float | None


def rows(energy: Sequence[Share], cost: Sequence[Share]) -> list[Row]:
    """Energy and cost side by side, one row per part, in the order that parts have everywhere.

    Money has chassis and links in one part, so energy is shown in the same one.
    """
    joined: dict[str, Row] = {}
    together = any(share.id == "chassis" and "link" in share.name.lower() for share in cost)
    for kind, shares in (("energy", energy), ("cost", cost)):
        for share in shares:
            key = "chassis" if together and share.id == "links" else share.id
            row = joined.get(key) or Row(key, share.name, None, None)
            name = share.name if kind == "cost" else row.name
            if share.value == 0:
                continue
            if kind == "energy":
                joined[key] = Row(key, name, (row.energy or 0.0) + share.value, row.cost)
            else:
                joined[key] = Row(key, name, row.energy, (row.cost or 0.0) + share.value)
    return sorted(joined.values(), key=lambda row: ORDER.index(row.id) if row.id in ORDER else len(ORDER))


def figure(parts: Sequence[tuple[str, str, float]], pen: Ink) -> Spec:
    """``parts`` are (id, name, value); their sum is the whole width."""
    total = sum(value for _, _, value in parts) or 1.0
    traces: list[Spec] = []
    at = 0.0
    for ident, name, value in parts:
        colour = device_colour(ident, pen)
        marker: Spec = {"color": colour, "line": {"color": pen.background, "width": 1}}
        if ident in HATCHED:
            marker["pattern"] = {
                "shape": "/", "fillmode": "overlay", "fgcolor": pen.background, "size": 7, "solidity": 0.35,
            }  # fmt: skip
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": [0],
                "x": [value],
                "base": [at],
                "width": 0.96,
                "marker": marker,
                "text": [f"{SHORT.get(ident, name)} {significant(value, 2)}"],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "textfont": {"size": 13, "color": text_on(colour)},
                "hovertemplate": f"{name}: {significant(value)}<extra></extra>",
            }
        )
        at += value
    return {
        "data": traces,
        "layout": layout(
            pen,
            HEIGHT,
            barmode="overlay",
            uniformtext={"mode": "hide", "minsize": 13},
            xaxis=axis(pen, range=[0, total], showticklabels=False),
            yaxis=axis(pen, range=[-0.5, 0.5], showticklabels=False),
        ),
    }
