"""Labels of a drop-down, no two alike: Streamlit knows options by their labels, and of equal ones takes the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")


def unlike(names: Mapping[K, str]) -> dict[K, str]:
    """The names, with a number behind each that was taken already: ``Board``, ``Board (2)``."""
    found: dict[K, str] = {}
    taken: set[str] = set()
    turns: dict[str, int] = {}
    for key, name in names.items():
        label = name
        while label in taken:
            turns[name] = turns.get(name, 1) + 1
            label = f"{name} ({turns[name]})"
        taken.add(label)
        found[key] = label
    return found
