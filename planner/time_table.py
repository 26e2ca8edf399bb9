"""Measured time of one expert against its tokens, on the GPU and on the CPU: TriMoE's tables f_calc(L).

TriMoE (arXiv 2603.01058) profiles both devices offline over token counts. A table holds one curve for each device and,
if wanted, weight format. Between two points it is interpolated linearly along the running maximum of the seconds, so
more tokens never take less time; below the first point its seconds hold, beyond the last they grow in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from planner.errors import PlanError
from planner.fields.sentences import shown
from planner.physics.operation import Array

DEVICES = ("gpu", "cpu")
ANY = ""
"""format of a curve that holds for all"""
MOST_TOKENS, LONGEST_S = 10_000_000, 1e6
LONGEST_TEXT = 500


class TimeTableError(PlanError):
    """A time table that cannot be used; the message is one sentence."""

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))


def plain(text: str) -> str:
    """One printable line of bounded length: what a file says of itself is shown on pages and terminals."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:LONGEST_TEXT]).split())


@dataclass(frozen=True)
class Curve:
    """Seconds of one expert with so many tokens, weights read from the device's memory. Raises TimeTableError."""

    device: str
    format: str
    tokens: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise TimeTableError(f"The device {shown(self.device)} of a time table must be gpu or cpu.")
        if not self.tokens or len(self.tokens) != len(self.seconds):
            raise TimeTableError(f"{self.name} has {len(self.tokens)} token counts for {len(self.seconds)} times.")
        last = 0
        for tokens, seconds in zip(self.tokens, self.seconds, strict=True):
            if not 1 <= tokens <= MOST_TOKENS:
                raise TimeTableError(
                    f"{self.name} has a row of {shown(tokens)} tokens; accepted are whole numbers "
                    f"from 1 to {MOST_TOKENS:,}."
                )
            if tokens <= last:
                raise TimeTableError(
                    f"{self.name} has {tokens:,} tokens after {last:,}; the tokens of a device must rise row by row."
                )
            if not 0 < seconds <= LONGEST_S:
                raise TimeTableError(
                    f"{self.name} takes {shown(seconds)} seconds at {tokens:,} tokens; accepted is a number above 0, "
                    f"at most {LONGEST_S:,.0f}."
                )
            last = tokens

    @property
    def name(self) -> str:
        """As sentences name it."""
        return f"The {self.device.upper()}" + (f" at {self.format}" if self.format else "")

    @cached_property
    def falling(self) -> tuple[int, ...]:
        """Token counts at which the table is faster than at fewer tokens; the running maximum stands for them."""
        most = np.maximum.accumulate(self.seconds)
        return tuple(n for n, s, m in zip(self.tokens, self.seconds, most, strict=True) if s < m)

    def __call__(self, tokens: ArrayLike) -> Array:
        """Seconds at any tokens, same shape; 0 for none."""
        given = np.asarray(tokens, float)
        at = np.array(self.tokens, float)
        seconds = np.maximum.accumulate(self.seconds)
        found = np.interp(given, at, seconds)
        return np.where(given > 0, found * np.maximum(given / at[-1], 1.0), 0.0)


@dataclass(frozen=True)
class TimeTable:
    """Curves, each (device, format) once, and where they come from. Raises TimeTableError."""

    curves: tuple[Curve, ...]
    source: str
    model: str = ""
    system: str = ""

    def __post_init__(self) -> None:
        if not self.curves:
            raise TimeTableError("A time table needs at least one row of gpu or cpu.")
        for name in ("source", "model", "system"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        ordered = sorted(self.curves, key=lambda c: (c.device, c.format))
        for first, second in pairwise(ordered):
            if (first.device, first.format) == (second.device, second.format):
                raise TimeTableError(f"{first.name} has two curves in the time table.")
        object.__setattr__(self, "curves", tuple(ordered))

    def curve(self, device: str, fmt: str) -> Curve | None:
        """The curve of a device at a weight format; None if the table leaves the device out.

        Raises TimeTableError where it has the device, but neither this format nor one for all.
        """
        mine = {c.format: c for c in self.curves if c.device == device}
        if not mine:
            return None
        found = mine.get(fmt) or mine.get(ANY)
        if found is None:
            raise TimeTableError(
                f"The time table has no rows of {device} at format {shown(fmt)}; it has {', '.join(sorted(mine))}. Add "
                "them, or leave the column format out."
            )
        return found
