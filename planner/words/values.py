"""Values of inputs as people read them beside each other."""

from __future__ import annotations

from typing import Any

from planner.words import labels
from planner.words.formats import DASH, shorten, trimmed


def value_words(path: str, value: Any) -> str:
    """One value of an input, short enough for a cell; what is not edited is said so."""
    if value is None:
        return "catalog's own" if path.startswith("system.overrides.") else DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return trimmed(value)
    return shorten(labels.choice(path, value), 60)
