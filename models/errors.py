"""The one error that the models room raises at a person."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ModelError(ValueError):
    """A model or config that cannot be used; the message is one clear sentence for people, on one line."""

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))


def nearest(word: str, accepted: Iterable[str], count: int = 3) -> list[str]:
    """The entries of ``accepted`` most like ``word``, best first; never empty unless ``accepted`` is."""
    names = sorted(accepted)
    lowered = {name.lower(): name for name in names}
    key = word.lower()[:200]
    inside = [name for low, name in lowered.items() if key and key in low]
    close = [lowered[low] for low in difflib.get_close_matches(key, list(lowered), n=count, cutoff=0.3)]
    found = list(dict.fromkeys([*inside, *close]))
    return (found or names)[:count]


def quoted(value: object, limit: int = 60) -> str:
    """A value as shown inside a sentence: one line, cut when long."""
    try:
        text = repr(value[:1000]) if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or a very deep list
        text = f"a {type(value).__name__} too large to show"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
