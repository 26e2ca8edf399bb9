"""An axis as people type it: ``workload.batch=1,8,64``, ``economics.pue=linear:1:2:5``."""

from __future__ import annotations

from planner.fields import parse_text, shown
from planner.fields.table import field_for
from planner.sweep.design import SweepError

FORMS = "PATH=V1,V2,... or PATH=linear:LOW:HIGH:COUNT, PATH=log:LOW:HIGH:COUNT, PATH=range:LOW:HIGH:STEP"
_SPANS = ("linear", "log", "range")


def axis_from(text: str) -> dict[str, object]:
    """One ``--axis`` as the axis of a spec. Raises SweepError."""
    path, equals, values = text.partition("=")
    path = path.strip()
    if not equals or not path or not values.strip():
        raise SweepError(f"The axis is {shown(text)}; it takes {FORMS}.")
    kind, colon, rest = values.strip().partition(":")
    if colon and kind in _SPANS:
        parts = rest.split(":")
        if len(parts) != 3:
            last = "STEP" if kind == "range" else "COUNT"
            raise SweepError(f"The axis is {shown(text)}; {kind} takes LOW:HIGH:{last}.")
        low, high = (_number(text, part) for part in parts[:2])
        if kind == "range":
            return {"path": path, kind: {"low": low, "high": high, "step": _number(text, parts[2])}}
        return {"path": path, kind: {"low": low, "high": high, "count": _count(text, parts[2])}}
    return {"path": path, "values": [_value(path, part.strip()) for part in values.split(",")]}


def _value(path: str, text: str) -> object:
    found = field_for(path)
    return text if found is None else parse_text(found[0], text, found[1])


def _number(axis_text: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SweepError(f"The axis is {shown(axis_text)}; {shown(text)} is no number.") from None


def _count(axis_text: str, text: str) -> int:
    value = _number(axis_text, text.replace("_", ""))
    if not value.is_integer():
        raise SweepError(f"The axis is {shown(axis_text)}; {shown(text)} is no whole number of values.")
    return int(value)
