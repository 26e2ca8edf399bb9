"""The Claims page: every published figure beside what the model says, reproduced or not and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from planner.words.formats import significant
from ui.guard import guard
from ui.sections.common import Data, say, section
from ui.tables import Row, Table
from validation.published import VERDICTS, ClaimRow, counts, snapshot
from validation.published.table import summary

ALL = "all"


def run() -> None:
    """One run of the page: the stored run at once; the command computes it anew."""
    st.title("Published claims", anchor=False)
    with guard("showing the published claims"):
        _show()


def _show() -> None:
    stored = snapshot()
    found = counts(stored.rows)
    st.caption(
        f"As computed with engine {stored.engine_version}; `python -m planner validate published` computes them anew."
    )
    verdicts = [ALL, *(name for name in VERDICTS if found.get(name))]
    chosen = st.segmented_control(
        "Verdict", verdicts, default=ALL, required=True, key="verdict", format_func=lambda name: _named(name, found)
    )
    rows = [row for row in stored.rows if chosen in (ALL, row.verdict)]
    table = Table(
        "Published claims", ["Claim", "Published", "Ours", "Error", "Verdict"], [_row(r) for r in rows], wide_notes=True
    )
    with section("Published beside ours", "claims", [Data("Claims", "tierline-claims.csv", None, table.csv)]):
        say(summary(stored.rows))
        st.html(table.html())


def _named(name: str, found: Mapping[Any, int]) -> str:
    return "All" if name == ALL else f"{name.replace('_', ' ')} ({found.get(name, 0)})"


def _value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return " \u2013 ".join(significant(float(v)) for v in value)
    return significant(float(value))  # type: ignore[arg-type]


def _row(row: ClaimRow) -> Row:
    error = "" if row.error is None else f"{row.error:+.0%}"
    alternatives = "; ".join(f"{a.setting}: {_value(a.predicted)}" for a in row.alternatives)
    notes = [
        f"{row.paper}, {row.certainty}.",
        f"Setting: {row.setting}." if row.setting else "",
        f"Alternatives: {alternatives}." if alternatives else "",
        row.arithmetic or "",
    ]
    name = f"{row.id} {row.text or row.quantity}"
    cells = [f"{_value(row.published)} {row.unit}", _value(row.predicted), error, row.verdict.replace("_", " ")]
    return Row(name, cells, " ".join(n for n in notes if n))
