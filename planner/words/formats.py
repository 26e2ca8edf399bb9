"""Numbers as people read them: three significant digits, thin thousands, SI prefixes, one unit beside the value.

Everything inside is SI; the conversion to GB, ms, tok/s or dollars happens here and nowhere else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

THIN = "\u202f"  # narrow no-break space: between thousands, before %
NBSP = "\u00a0"
MINUS = "\u2212"
EN_DASH = "\u2013"
DASH = "\u2014"
TIMES = "\u00d7"
SUPERSCRIPT = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")

# (factor, prefix), largest first; used from a million up and below a thousandth.
PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ISOLATES = re.compile("[\u2066-\u2069]")


class Quantity(NamedTuple):
    """A number and the unit that it is written in."""

    value: str
    unit: str

    def __str__(self) -> str:
        return f"{self.value}{NBSP}{self.unit}" if self.unit else self.value


def decimals_for(value: float, digits: int = 3) -> int:
    """Decimals that show ``digits`` significant digits of ``value``: 3 for 0.582, 2 for 1.19, 0 from 100 up."""
    if not math.isfinite(value) or value == 0:
        return digits - 1
    exponent = math.floor(math.log10(abs(value)))
    # 9.996 shows as 10.0, not as 10.00: rounding may carry into the next power of ten.
    if round(abs(value), max(digits - 1 - exponent, 0)) >= 10.0 ** (exponent + 1):
        exponent += 1
    return max(digits - 1 - exponent, 0)


def fixed(value: float, decimals: int) -> str:
    """``value`` with that many decimals, thin thousands and a real minus sign."""
    text = f"{abs(value):,.{decimals}f}"
    negative = value < 0 and any(c not in "0.," for c in text)
    return (MINUS if negative else "") + text.replace(",", THIN)


def significant(value: float, digits: int = 3) -> str:
    """Three significant digits with trailing zeros kept: 0.720, 3.10, 880, 1 040; powers of ten beyond 0.0001."""
    if not math.isfinite(value):
        return DASH
    if value != 0 and abs(value) < 1e-4:
        exponent = math.floor(math.log10(abs(value)))
        mantissa = value / 10.0**exponent
        return f"{fixed(mantissa, digits - 1)}{NBSP}{TIMES}{NBSP}10{str(exponent).translate(SUPERSCRIPT)}"
    if abs(value) >= 1000:
        step = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
        return fixed(round(value / step) * step, 0)
    return fixed(value, decimals_for(value, digits))


def count(value: float) -> str:
    """A whole number, exactly, with thin thousands: 9 440."""
    return fixed(value, 0)


def trimmed(value: float, digits: int = 4) -> str:
    """A setting as typed: at most ``digits`` significant digits (all of a whole number), no trailing zeros."""
    if isinstance(value, int) or (math.isfinite(value) and value == round(value) and abs(value) < 1e15):
        return count(value)
    text = significant(value, digits)
    if TIMES in text:
        return text
    return text.rstrip("0").rstrip(".") if "." in text else text


def prefixed(value: float, unit: str, digits: int = 3, from_: float = 1e6) -> Quantity:
    """SI prefix on the unit from a million up: 1.23 Mtok/s; below it the plain number."""
    if math.isfinite(value) and abs(value) >= from_:
        for factor, prefix in PREFIXES:
            if abs(value) >= factor * 0.9995:
                return Quantity(significant(value / factor, digits), prefix + unit)
    return Quantity(significant(value, digits), unit)


def seconds_unit(value_s: float) -> tuple[float, str]:
    """Factor and unit that a time reads best in: s from 0.1 s, ms from 0.1 ms, else µs or ns; min and h above."""
    size = abs(value_s)
    if size >= 36_000:
        return 1 / 3600, "h"
    if size >= 1000:
        return 1 / 60, "min"
    if size >= 0.1 or size == 0:
        return 1.0, "s"
    if size >= 1e-4:
        return 1e3, "ms"
    if size >= 1e-7:
        return 1e6, "\u00b5s"
    return 1e9, "ns"


def seconds(value_s: float) -> Quantity:
    """A time in the unit it reads best in: 0.582 s, 14.6 ms, 93.0 µs."""
    factor, unit = seconds_unit(value_s)
    return Quantity(significant(value_s * factor), unit)


def range_text(low: float, high: float, like: float) -> str:
    """``2.60 – 3.90``: both ends with the decimals of three digits at the upper end, never more than ``like`` has."""
    if abs(like) >= 1000 or (like != 0 and abs(like) < 1e-4):
        return f"{significant(low)}{NBSP}{EN_DASH}{NBSP}{significant(high)}"
    decimals = min(decimals_for(like), decimals_for(high))
    # A low end that would read as 0.00 keeps its own digits.
    low_text = significant(low) if low != 0 and round(low, decimals) == 0 else fixed(low, decimals)
    high_text = significant(high) if abs(high) >= 1000 else fixed(high, decimals)
    return f"{low_text}{NBSP}{EN_DASH}{NBSP}{high_text}"


def plain_range(low: float | None, high: float | None) -> str:
    """A range of an input, each end with its own digits; empty where none is known."""
    if low is None or high is None:
        return ""
    if low == high:
        return "exact"
    return f"{trimmed(low)}{NBSP}{EN_DASH}{NBSP}{trimmed(high)}"


def gb(value_bytes: float) -> str:
    """GB (10^9 bytes) without the unit, for columns: one decimal, whole from 100 up."""
    value = value_bytes / 1e9
    if value == 0:
        return "0"
    if 0 < abs(value) < 0.05:
        return f"<{NBSP}0.1" if value > 0 else f"{MINUS}0.0"
    return fixed(value, 1 if abs(round(value, 1)) < 100 else 0)


def gigabytes(value_bytes: float) -> str:
    """GB (10^9 bytes) with the unit: 75.2 GB, 2 200 GB."""
    return f"{gb(value_bytes)}{NBSP}GB"


def data(value_bytes: float) -> Quantity:
    """Bytes with an SI prefix: 131 kB, 22.3 GB."""
    return prefixed(value_bytes, "B", from_=1e3)


def dollars(value_usd: float) -> str:
    """Prices: cents from $0.10 to $100, three significant digits above, two below."""
    sign = MINUS if value_usd < 0 else ""
    size = abs(value_usd)
    for factor, word in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if size >= factor * 0.9995:
            return f"{sign}${significant(size / factor)}{NBSP}{word}"
    if 0.1 <= size < 99.995:
        return f"{sign}${fixed(size, 2)}"
    return f"{sign}${significant(size, 2 if size < 0.1 else 3) if size else '0'}"


def share(value: float) -> str:
    """A share as whole percent: 36 %; what would round to nothing is said to be less than 1 %."""
    if 0 < value < 0.005:
        return f"<{NBSP}1{THIN}%"
    return f"{fixed(100 * value, 0)}{THIN}%"


def nearly(value: float) -> str:
    """A share as whole percent that never rounds up to all: more than 99 % where 100 % would be read as everything."""
    return f"more than 99{THIN}%" if 0.995 <= value < 1 else share(value)


def isolated(text: str) -> str:
    """A text of people that turns no text around it: one with marks of direction in it stands between isolates."""
    if not _DIRECTION.search(text):
        return text
    return f"\u2068{_ISOLATES.sub('', text)}\u2069"


def signed_percent(value: float) -> str:
    """A relative change with its sign and without the unit: +14, −9, 0."""
    percent = 100 * value
    text = fixed(percent, 0 if abs(percent) >= 9.5 else 1)
    if text.strip("0.") == "":
        return "0"
    if text.endswith(".0"):
        text = text[:-2]
    return text if value < 0 else "+" + text


def parameters(value: int) -> str:
    """Parameter counts as the field writes them: 236 B, 1.0 T, 800 M."""
    for factor, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            size = value / factor
            return f"{fixed(size, 1 if size < 10 else 0)}{NBSP}{unit}"
    return str(value)


def bits(value: float) -> str:
    """Bits per weight: 16, 8, 4; a mean keeps one decimal."""
    return fixed(value, 0 if abs(value - round(value)) < 0.005 else 2 if value < 10 else 1)


def listing(words: Sequence[str], last: str = "and") -> str:
    """``GPU, NDP and link``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def capital(text: str) -> str:
    """First letter upper case, the rest as it is."""
    return text[:1].upper() + text[1:]


def uncapital(text: str) -> str:
    """The text as it stands inside a sentence; GPU, KV, H100 and TriMoE keep their capitals."""
    first = text.split(" ", 1)[0]
    return (
        text if any(c.isupper() or c.isdigit() for c in first[1:]) or len(first) == 1 else text[:1].lower() + text[1:]
    )


def shorten(text: str, limit: int = 40) -> str:
    """A text in one line and at most ``limit`` characters; cut at a word where there is one."""
    text = " ".join(str(text).split())
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    at_word = cut.rsplit(" ", 1)[0]
    return (at_word if len(at_word) > 0.7 * limit else cut).rstrip(" ,;:(") + "\u2026"
