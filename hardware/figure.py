"""One figure of a device: a number that says where it comes from.

Units are SI and stand in the figure (and at the end of its path): bytes, bytes/s, FLOP/s, s, W, J, USD.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["datasheet", "measured", "fitted", "published-simulation", "assumed", "derived"]
KINDS: tuple[str, ...] = get_args(Kind)
FIELDS: tuple[str, ...] = ("value", "unit", "low", "high", "source", "date", "kind")


class HardwareError(ValueError):
    """A wrong system, path or value; the message is one sentence for people."""


class MissingFigureError(HardwareError):
    """A figure that nobody has given: it must never be read as zero."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with unit, range, source, date and kind.

    ``value`` is None where the part has no such thing (FP4 on a Hopper GPU) or where no figure was seen;
    ``source`` then says which. ``low`` and ``high`` bound the value where a range is known. ``date`` is when
    the source states it (year, year-month or day). ``edited`` marks a figure that the user changed.
    """

    value: float | None
    unit: str
    low: float | None
    high: float | None
    source: str
    date: str | None
    kind: Kind
    edited: bool = False

    @classmethod
    def from_json(cls, raw: Any, where: str) -> Figure:
        """Read the seven fields of ``raw``; ``where`` names the place in a catalog error (a ValueError)."""
        if not isinstance(raw, dict) or set(raw) != set(FIELDS):
            raise HardwareError(f"{where} must have exactly the fields {', '.join(FIELDS)}")
        figure = cls(**raw)
        problem = figure.problem()
        if problem:
            raise HardwareError(f"{where} {problem}")
        return figure

    def problem(self) -> str | None:
        """What is wrong with this figure, or None."""
        if self.kind not in KINDS:
            return f"has the kind {self.kind!r}, which is none of {', '.join(KINDS)}"
        if not self.source:
            return "names no source"
        numbers = [x for x in (self.low, self.value, self.high) if x is not None]
        if any(isinstance(x, bool) or not isinstance(x, (int, float)) or not math.isfinite(x) for x in numbers):
            return "has a value that is not a finite number"
        if self.value is None and (self.low is not None or self.high is not None):
            return "has a range but no value"
        if numbers != sorted(numbers):
            return f"has its value {self.value:g} outside its range"
        return None
