"""Words and units of the field, read from the one list that people read too: docs/nomenclature.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

_PAGE = Path(__file__).parents[2] / "docs" / "nomenclature.md"
_ROW = re.compile(r"^\| (?P<words>[^|]+) \| (?P<means>[^|]+) \|$")
_MARKS = re.compile(r"[*`]")


@lru_cache(maxsize=1)
def sections() -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """(heading, rows of (words, meaning)) in the order of the page; empty where the page is not installed."""
    try:
        lines = _PAGE.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for line in lines:
        if line.startswith("## "):
            found.append((line[3:].strip(), []))
        row = _ROW.match(line)
        if row is None or not found or set(row["words"].strip()) <= {"-"}:
            continue
        words, means = (_MARKS.sub("", row[name]).strip() for name in ("words", "means"))
        if means not in ("means", "meaning"):
            found[-1][1].append((words, means))
    return tuple((heading, tuple(rows)) for heading, rows in found if rows)


@lru_cache(maxsize=1)
def terms() -> Mapping[str, str]:
    """Each term and its meaning; a row that lists several ("MHA, GQA, MLA") gives several terms."""
    found: dict[str, str] = {}
    for _, rows in sections():
        for words, means in rows:
            for word in words.split(", "):
                if len(word) > 1:
                    found.setdefault(word, means)
    return MappingProxyType(found)
