"""Text of users as text: names, notes and pasted ids must show literally, whatever they contain."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|$<>~:^=&\"'/@])")


def md(text: str) -> str:
    """``text`` so that Streamlit's Markdown shows it literally: no formula, no HTML, no directive, no link."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split(" ")).replace("\n", " ").replace("\r", " ").replace("\t", " "))
