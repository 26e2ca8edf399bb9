"""Errors that a person can act on."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PlanError(ValueError):
    """Bad input to the planner. The message is one clear sentence: field, value, what is accepted."""


def unknown(field: str, value: str, accepted: Iterable[str], most: int = 12) -> str:
    """Sentence for a value that is not among those accepted: all of them if they are few, else the nearest."""
    known = list(accepted)
    near = get_close_matches(value, known, 3, 0.3)
    shown = repr(value[:60])
    if not known:
        return f"{field} is {shown}; it takes none here."
    if len(known) <= most:
        hint = f" (the nearest is {near[0]})" if near else ""
        return f"{field} is {shown}; it takes {', '.join(known)}{hint}."
    return f"{field} is {shown}, which is not known; the nearest: {', '.join(near or known[:3])}."
