"""Read a figure back from how a card writes it, independently of the code that wrote it."""

from __future__ import annotations

import re
from dataclasses import dataclass

SI = {
    "ms": 1e-3,
    "s": 1.0,
    "µs": 1e-6,
    "min": 60.0,
    "h": 3600.0,
    "output tok/s": 1.0,
    "k output tok/s": 1e3,
    "M output tok/s": 1e6,
    "J/token": 1.0,
    "mJ/token": 1e-3,
    "kJ/token": 1e3,
    "/M tokens": 1.0,
}


@dataclass(frozen=True)
class Shown:
    """A written number in SI, and half a unit of its last written digit."""

    value: float
    rounding: float

    def is_(self, exact: float) -> bool:
        """Whether ``exact`` may be written like this."""
        return abs(self.value - exact) <= self.rounding * (1 + 1e-9)


def _number(text: str, factor: float) -> Shown:
    plain = re.sub(r"[\s$]", "", text)
    decimals = len(plain.partition(".")[2])
    zeros = len(plain) - len(plain.rstrip("0")) if decimals == 0 else 0
    digits = len(plain.lstrip("0").replace(".", ""))
    # Whole numbers beyond three digits end in zeros that were rounded to: 1 360 stands for 1,355 to 1,365.
    place = 10.0 ** min(zeros, max(digits - 3, 0)) if decimals == 0 else 10.0**-decimals
    return Shown(float(plain) * factor, 0.5 * place * factor)


def read(value: str) -> tuple[Shown, float]:
    """``"71.6 ms"`` as a figure in SI, and the factor of its unit."""
    match = re.fullmatch(r"(\$?[\d\s.]+)\s*(\D.*)", value)
    assert match is not None, f"no figure can be read from {value!r}"
    factor = SI[match.group(2).strip()]
    return _number(match.group(1), factor), factor


def read_span(span: str, factor: float) -> tuple[Shown, Shown]:
    """``"57.0 – 92.5"`` in the unit of its card."""
    low, high = span.split("–")
    return _number(low, factor), _number(high, factor)
