"""What a person types into a field, read the way it was meant: ``1 024``, ``0,7``, ``4k``, ``70 %``, ``128Ki``."""

from __future__ import annotations

import math
import re

SUFFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_NUMBER = re.compile(r"^([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?)(Ki|Mi|Gi|[kKMGBT%]?)$")
_BLANKS = re.compile(r"[\s_\u00a0\u202f\u2009']")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


def number(text: str) -> float | None:
    """The number in ``text``, or None where it is none (NaN and infinities are none).

    A comma before three digits separates thousands; alone before other digits it is a decimal comma.
    """
    plain = _BLANKS.sub("", text).replace("\u2212", "-").lstrip("$")
    if "," in plain:
        if _THOUSANDS.fullmatch(plain):
            plain = plain.replace(",", "")
        elif plain.count(",") == 1 and "." not in plain:
            plain = plain.replace(",", ".")
    match = _NUMBER.match(plain)
    if match is None:
        return None
    value = float(match.group(1))
    suffix = match.group(2)
    value = value / 100 if suffix == "%" else value * SUFFIXES.get(suffix, 1.0)
    return value if math.isfinite(value) else None


def plain(value: object) -> str:
    """A value as it stands in a field; empty for None. Reading it back gives the same value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.12g}"
    return str(value)


def rounded(value: float) -> str:
    """A catalog figure in a field: at most six significant digits, no exponent for ordinary sizes."""
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.6g}"
