"""Units that figures are shown and typed in: GB for bytes, TFLOP/s for FLOP/s; the engine keeps SI."""

from __future__ import annotations

from dataclasses import dataclass

from planner.words.formats import plain_range, trimmed


@dataclass(frozen=True)
class Scale:
    """``shown = value / size`` in ``unit``."""

    size: float
    unit: str


SCALES: dict[str, Scale] = {
    "bytes": Scale(1e9, "GB"),
    "bytes/s": Scale(1e9, "GB/s"),
    "FLOP/s": Scale(1e12, "TFLOP/s"),
    "OP/s": Scale(1e12, "TOP/s"),
    "Hz": Scale(1e9, "GHz"),
    "J/FLOP": Scale(1e-12, "pJ/FLOP"),
    "J/byte": Scale(1e-12, "pJ/byte"),
    "s": Scale(1e-6, "\u00b5s"),
    "share": Scale(1.0, "share"),
    "count": Scale(1.0, ""),
    "factor": Scale(1.0, ""),
}
GIB = Scale(2.0**30, "GiB")


def scale(unit: str, path: str = "") -> Scale:
    """The scale of a unit; capacities of cards and modules are GiB, as they report them."""
    if unit == "bytes" and "capacity" in path:
        return GIB
    return SCALES.get(unit, Scale(1.0, unit))


def shown(value: float | str, unit: str, path: str = "") -> str:
    """A figure with the unit that it reads best in; GB is added to GiB."""
    if isinstance(value, str):
        return value
    if unit.startswith("USD"):
        rest = unit.removeprefix("USD")
        return f"${trimmed(value)}{rest}"
    if unit == "s" and abs(value) >= 0.1:
        return f"{trimmed(value)}\u00a0s"
    by = scale(unit, path)
    name = "" if by.unit == "share" else by.unit
    text = f"{trimmed(value / by.size)}\u00a0{name}".strip("\u00a0")
    return f"{text} = {trimmed(value / 1e9, 3)}\u00a0GB" if by is GIB else text


def range_shown(low: float | None, high: float | None, unit: str, like: float | str, path: str = "") -> str:
    """A range in the unit of its value, without repeating the unit."""
    if low is None or high is None:
        return ""
    size = 1.0 if unit == "s" and isinstance(like, float) and abs(like) >= 0.1 else scale(unit, path).size
    return plain_range(low / size, high / size)
