"""What this rests on: the assumptions, the user's own edits first, then by how far each moves the answer."""

from __future__ import annotations

import streamlit as st

from planner.result import Assumption, Result
from planner.words import findings
from planner.words.formats import shorten
from ui import tables, units
from ui.sections.common import Data, say, section
from ui.tables import Row, Table

SHOWN = 12
SOURCE_SHOWN = 120  # the whole source is in the CSV


def show(result: Result) -> None:
    """The section; absent where the plan names no assumption, or stopped before it used any."""
    if not result.assumptions or (result.memory is None and not result.headline.fits):
        return
    ranked = findings.ordered(result.assumptions)
    with section(
        "What this rests on", "rests", [Data("Assumptions", "tierline-assumptions.csv", None, lambda: _csv(ranked))]
    ):
        say(findings.assumptions_finding(result))
        st.html(_table(ranked[:SHOWN], result).html())
        if len(ranked) > SHOWN:
            with st.expander(f"{len(ranked) - SHOWN} more"):
                st.html(_table(ranked[SHOWN:], result).html())


def _table(rows: list[Assumption], result: Result) -> Table:
    moved = any(a.moves_tpot is not None or a.moves_cost is not None for a in result.assumptions)
    head = ["Assumption", "Value", "Range", *(["Moves TPOT by, %"] if moved else [])]
    return Table("Assumptions by how far they move the answer", head, [_row(a, moved) for a in rows], wide_notes=True)


def moves(a: Assumption) -> str:
    """How TPOT moves over the range; the cost too where it moves more."""
    tpot, cost = findings.moves_text(a.moves_tpot), findings.moves_text(a.moves_cost)
    largest = max((abs(v) for v in a.moves_cost or ()), default=0.0)
    if cost and largest >= 0.005 and largest > max((abs(v) for v in a.moves_tpot or ()), default=0.0) * 1.2:
        return f"{tpot or '0'}; cost {cost}"
    return tpot


def _row(a: Assumption, moved: bool) -> Row:
    source = ", ".join(part for part in (shorten(a.source, SOURCE_SHOWN), a.date or "") if part)
    small = "; ".join(part for part in (a.kind.replace("-", " "), source) if part)
    cells = [units.shown(a.value, a.unit, a.path), units.range_shown(a.low, a.high, a.unit, a.value, a.path)]
    return Row(a.label, [*cells, *([moves(a)] if moved else [])], small, badge="edited" if a.edited else "")


def _csv(rows: list[Assumption]) -> str:
    head = ["path", "label", "value", "unit", "low", "high", "kind", "source", "date", "edited",
            "tpot_change_at_low", "tpot_change_at_high", "cost_change_at_low", "cost_change_at_high"]  # fmt: skip
    return tables.to_csv(
        head,
        [
            [a.path, a.label, a.value, a.unit, a.low, a.high, a.kind, a.source, a.date, a.edited,
             *(a.moves_tpot or (None, None)), *(a.moves_cost or (None, None))]
            for a in rows
        ],
    )  # fmt: skip
