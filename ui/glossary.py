"""Terms with their meaning on hover: text becomes HTML in which each known word carries its line of the glossary."""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape

from planner.words import glossary


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str] | None:
    words = sorted(glossary.terms(), key=len, reverse=True)
    return re.compile(r"(?<![\w/])(" + "|".join(re.escape(word) for word in words) + r")(?![\w/])") if words else None


def hover(text: str) -> str:
    """``text`` escaped, the first occurrence of each known term as ``<abbr>`` with its meaning."""
    pattern = _pattern()
    if pattern is None:
        return escape(text)
    parts, end, seen = [], 0, set()
    for match in pattern.finditer(text):
        word = match.group(1)
        parts.append(escape(text[end : match.start()]))
        parts.append(escape(word) if word in seen else _marked(word))
        seen.add(word)
        end = match.end()
    return "".join(parts) + escape(text[end:])


def _marked(word: str) -> str:
    return f'<abbr class="tl-term" title="{escape(glossary.terms()[word])}">{escape(word)}</abbr>'
