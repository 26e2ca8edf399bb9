"""What all charts share: the layout, and arrays packed as a browser reads them fastest."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterable
from typing import Any

from ui.theme import Ink

FONT = '"Source Sans", sans-serif'
CONFIG: dict[str, Any] = {"displayModeBar": False, "doubleClick": False, "scrollZoom": False, "showTips": False}

Spec = dict[str, Any]

_CODES = {"u1": "B", "u2": "H", "f4": "f"}


def packed(values: Iterable[float], kind: str = "u1", shape: tuple[int, int] | None = None) -> Spec:
    """A typed array in Plotly's base64 form: a tenth of the bytes of a list of numbers.

    ``kind`` is u1 (0 to 255), u2 (0 to 65 535) or f4; ``shape`` is (rows, columns) for a matrix.
    """
    data = array(_CODES[kind], values)
    spec: Spec = {"dtype": kind, "bdata": base64.b64encode(data.tobytes()).decode("ascii")}
    if shape is not None:
        spec["shape"] = f"{shape[0]}, {shape[1]}"
    return spec


def layout(pen: Ink, height: int, **more: Any) -> Spec:
    """Common layout: transparent ground, one font, no legend, nothing that moves."""
    return {
        "height": height,
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 13, "color": pen.text},
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": {"font": {"family": FONT, "size": 13, "color": pen.text}, "bgcolor": pen.background,
                       "bordercolor": pen.muted, "align": "left"},
        **more,
    }  # fmt: skip


def axis(pen: Ink, **more: Any) -> Spec:
    """A quiet axis: no lines of its own, muted labels, fixed range."""
    return {
        "showgrid": False,
        "zeroline": False,
        "showline": False,
        "fixedrange": True,
        "ticks": "",
        "tickfont": {"size": 13, "color": pen.muted},
        "title": {"font": {"size": 13, "color": pen.muted}},
        **more,
    }


def axis_title(pen: Ink, text: str, standoff: int = 8) -> Spec:
    """The title of an axis: what is on it and its unit."""
    return {"text": text, "font": {"size": 13, "color": pen.muted}, "standoff": standoff}


def round_ticks(top: float, most: int = 7) -> list[float]:
    """Round numbers from zero up to ``top``: 0, 100, 200 ..., at most ``most`` of them."""
    if top <= 0:
        return [0.0]
    step = 10.0 ** len(str(int(top)))
    for factor in (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0):
        if top / (step * factor) <= most - 1:
            step = step * factor
            break
    ticks, value = [], 0.0
    while value <= top * 1.0001:
        ticks.append(round(value, 10))
        value += step
    return ticks
