"""Text of users as text: names, notes and pasted ids must show literally, whatever they contain."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|$<>~:^=&\"'/@])")


_DIRECTIONS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))


def undirected(text: str) -> str:
    """``text`` without marks that turn the writing of the sentence around it, which has no element of its own."""
    return text.translate(_DIRECTIONS)


def md(text: str) -> str:
    """``text`` so that Streamlit's Markdown shows it literally: no formula, no HTML, no directive, no link."""
    text = undirected(text)
    return _SPECIAL.sub(r"\\\1", " ".join(text.split(" ")).replace("\n", " ").replace("\r", " ").replace("\t", " "))
