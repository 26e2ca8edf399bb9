"""The Claims page: every published figure beside what the model says, reproduced or not and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from planner.words.formats import EN_DASH, NBSP, signed_percent, significant, trimmed
from ui.guard import guard
from ui.sections.common import Data, say, section
from ui.tables import Row, Table
from validation.published import VERDICTS, Alternative, ClaimRow, Value, counts, snapshot
from validation.published.claims import claims, contradictions
from validation.published.table import PAPERS, summary

ALL = "all"
EQUAL = "equal tokens in flight"
TENFOLD = 9.0  # an error from here on is written as a factor


def run() -> None:
    """One run of the page: the stored run at once; the command computes it anew."""
    st.title("Published claims", anchor=False)
    with guard("showing the published claims"):
        _show()


def _show() -> None:
    stored = snapshot()
    found = counts(stored.rows)
    say(summary(stored.rows))
    st.caption(
        f"Computed with engine {stored.engine_version}; `python -m planner validate published` computes them anew. "
        "A line under a claim unfolds its setting, arithmetic and source."
    )
    verdicts = [ALL, *(name for name in VERDICTS if found.get(name))]
    chosen = st.segmented_control(
        "Verdict", verdicts, default=ALL, required=True, key="verdict", format_func=lambda name: _named(name, found)
    )
    rows = [row for row in stored.rows if chosen in (ALL, row.verdict)]
    if chosen in VERDICTS:
        st.caption(f"{_words(chosen)}: {VERDICTS[chosen]}.")
    _claims(rows)
    _equal(rows)
    _contradictions(rows)
    _alternatives([row for row in rows if row.alternatives])


# --- the parts of the page -------------------------------------------------------------------------------------------
def _claims(rows: Sequence[ClaimRow]) -> None:
    short = {claim.id: claim.short for claim in claims()}
    table = Table(
        "Published claims",
        ["Claim", "Published", "Ours", "Error", "Verdict"],
        [_row(row, short.get(row.id, "")) for row in rows],
        wide_notes=True,
        stacked=True,
    )
    with section("Published beside ours", "claims", [Data("Claims", "tierline-claims.csv", None, table.csv)]):
        st.html(table.html())


def _equal(rows: Sequence[ClaimRow]) -> None:
    """Where the published ratio compares systems with different numbers of tokens in flight: with equal ones too."""
    found = [(row, [a for a in row.alternatives if a.setting.startswith(EQUAL)]) for row in rows]
    found = [(row, own) for row, own in found if own]
    if not found:
        return
    lines = []
    for row, own in found:
        lines.append(
            Row(f"{row.id} {_text(row)}, as published", _cells(row, row)[:-1], _sentence(row.setting), bold=True)
        )
        lines.extend(Row(_sentence(a.setting.removeprefix(f"{EQUAL}: "))[:-1], _cells(a, row)[:-1]) for a in own)
    with section("The same with equal tokens in flight", "equal"):
        say("The published ratios give the baseline more sequences in flight; with equal numbers they are others.")
        st.html(Table("Equal tokens in flight", _HEAD[:-1], lines, wide_notes=True).html())


def _contradictions(rows: Sequence[ClaimRow]) -> None:
    ids = {row.id for row in rows}
    told = [one for one in contradictions() if ids & set(one.claims)]
    if not told:
        return
    with section("Where sources contradict each other, or arithmetic them", "contradictions"):
        lines = [Row(one.text, [", ".join(one.claims)]) for one in told]
        st.html(Table("Contradictions", ["What does not agree", "Claims"], lines).html())


def _alternatives(rows: Sequence[ClaimRow]) -> None:
    if not rows:
        return
    lines: list[Row] = []
    for row in rows:
        lines.append(Row(f"{row.id} {_text(row)}", _cells(row, row), _sentence(row.setting), bold=True))
        lines.extend(Row(a.setting, _cells(a, row)) for a in row.alternatives)
    table = Table("Claims under other choices", _HEAD, lines, wide_notes=True, stacked=True)
    data = [Data("Choices", "tierline-claims-choices.csv", None, table.csv)]
    with section("Under another choice", "choices", data):
        say("Where a figure hangs on a choice that is not published: what each choice gives.")
        with st.expander(f"{sum(len(row.alternatives) for row in rows)} figures for {len(rows)} claims"):
            st.html(table.html())


# --- rows and words --------------------------------------------------------------------------------------------------
_HEAD = ["Claim and choice", "Published", "Ours", "Error"]


def _words(verdict: str) -> str:
    return verdict.replace("_", " ").capitalize()


def _named(name: str, found: Mapping[Any, int]) -> str:
    return "All" if name == ALL else f"{_words(name)} ({found.get(name, 0)})"


def _text(row: ClaimRow) -> str:
    text = row.text or row.quantity
    return text if not row.model or row.model in text else f"{text} ({row.model})"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


UNITS = {"x": "\u00d7", "uJ": "\u00b5J", "mm2": "mm\u00b2"}


def _value(value: Value | None, exact: bool = False) -> str:
    """A figure or a range; ``exact`` keeps the digits that were published."""
    if value is None:
        return ""
    ends = value if isinstance(value, tuple) else (value,)
    return f"{NBSP}{EN_DASH}{NBSP}".join(trimmed(v, 5) if exact else significant(v) for v in ends)


def _error(value: float | None) -> str:
    if value is None:
        return ""
    return f"{significant(value + 1.0)} times" if value > TENFOLD else f"{signed_percent(value)}{NBSP}%"


def _cells(one: ClaimRow | Alternative, row: ClaimRow) -> list[str]:
    published = _value(one.published, exact=True)
    if published and one.published == row.published:  # a choice may be about another quantity, named in its words
        published += f" {UNITS.get(row.unit, row.unit)}"
    return [published, _value(one.predicted), _error(one.error)]


def _row(row: ClaimRow, short: str) -> Row:
    paper = PAPERS.get(row.paper, row.paper)
    more = [
        f"Setting: {row.setting}." if row.setting else "",
        row.arithmetic,
        *(f"Contradiction: {text}" for text in row.contradictions),
        f"Source: {paper}; {row.certainty}. {_sentence(row.note)}".strip(),
    ]
    cells = [*_cells(row, row), _words(row.verdict)]
    return Row(f"{row.id} {_text(row)}", cells, short, more=[text for text in more if text])
