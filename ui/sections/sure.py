"""How sure is this: what each interval rests on, the nearest measured runs, what to measure next."""

from __future__ import annotations

import math
from html import escape

import streamlit as st

from planner.result import AccuracyPart, AccuracyReport, Interval, Result
from planner.words import sureness
from planner.words.formats import capital, dollars, range_text, seconds_unit, signed_percent, significant
from ui import cards, tables
from ui.sections.common import Data, say, section
from ui.tables import Row, Table

UNITS = {"energy_j_per_output_token": "J/token"}

ENDS = "Each end of an interval is the wider of the two, and never beyond what the bytes and the FLOP allow."


def show(result: Result, complete: bool, title: str = "How sure is this") -> None:
    """The section; keeps its place while ranges are still computed, absent where a plan has none."""
    report = result.accuracy
    if report is None and complete:
        return
    data = [] if report is None else [Data("Intervals", "tierline-intervals.csv", None, lambda: _csv(result, report))]
    with section(title, "sure", data):
        if report is None:
            st.html('<p class="tl-quiet" role="status">Intervals are still being computed \u2026</p>')
            return
        say(sureness.finding(report))
        if report.regime is not None:  # else the finding has said that nothing was measured
            _line(sureness.range_sentence(report))
        st.html(_parts(result, report).html())
        if report.regime is not None:
            st.html(f'<p class="tl-quiet">{escape(ENDS)}</p>')
        neighbours(report)
        next_measurements(report)


def neighbours(report: AccuracyReport) -> None:
    """The nearest measured runs, measured beside predicted."""
    _line(sureness.neighbours_sentence(report))
    if report.neighbours:
        rows = [
            Row(
                one.id,
                [
                    significant(one.measured_tokens_per_s),
                    significant(one.predicted_tokens_per_s),
                    f"{signed_percent(sureness.error(one))}",
                    f"{math.exp(one.distance):.2f}\u00d7",
                ],
                f"{one.label}; {sureness.phase(one.phase)}, {sureness.per(one.per)}",
            )
            for one in report.neighbours
        ]
        head = ["Measured run", "Measured, tokens/s", "Predicted, tokens/s", "Error, %", "Shape differs by"]
        st.html(Table("Nearest measured runs", head, rows, wide_notes=True, stacked=True).html())


def next_measurements(report: AccuracyReport) -> None:
    """What would narrow the interval of TPOT most."""
    if not report.next_measurements:
        return
    lines = [capital(sureness.next_sentence(one)) for one in report.next_measurements]
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    st.html(f'<p class="tl-note-line"><b>What to measure next</b>, TPOT:</p><ul class="tl-list">{items}</ul>')


def _line(text: str) -> None:
    st.html(f'<p class="tl-note-line">{escape(text)}</p>')


def _parts(result: Result, report: AccuracyReport) -> Table:
    by_key = {part.key: part for part in report.parts}
    rows = [_row(result, by_key[key]) for key in cards.KEYS if key in by_key]
    head = ["Headline", _title(report), "Measured runs alone", "Inputs alone"]
    return Table("What each interval rests on", head, rows, wide_notes=True, stacked=True)


def _title(report: AccuracyReport) -> str:
    return "80 % interval" if report.regime is not None else "Range, coverage unknown"


def _row(result: Result, part: AccuracyPart) -> Row:
    chosen = (result.headline.intervals or {}).get(part.key)
    cells = [_ends(result, part.key, ends) for ends in (chosen, part.measured, part.inputs)]
    return Row(sureness.part_name(part.key), cells, capital(sureness.rests_on(part)))


def _ends(result: Result, key: str, ends: Interval | None) -> str:
    """A range in the unit of its headline."""
    value = getattr(result.headline, key, None)
    if ends is None or value is None:
        return "none"
    if key.startswith("usd"):
        return f"{dollars(ends[0])} \u2013 {dollars(ends[1])}"
    factor, unit = seconds_unit(value) if key.endswith("_s") and not key.startswith("tokens") else (1.0, "")
    if key.startswith(("tokens", "prefill")):
        factor, unit = 1.0, "tok/s"
    text = range_text(ends[0] * factor, ends[1] * factor, value * factor)
    return f"{text} {unit or UNITS.get(key, '')}".strip()


def _csv(result: Result, report: AccuracyReport) -> str:
    head = ["figure", "value", "low", "high", "measured_low", "measured_high", "inputs_low", "inputs_high", "phase",
            "level", "rows", "machines", "median_error", "dominated_by"]  # fmt: skip
    none = (None, None)
    return tables.to_csv(
        head,
        [
            [p.key, getattr(result.headline, p.key, None), *((result.headline.intervals or {}).get(p.key) or none),
             *(p.measured or none), *(p.inputs or none), p.phase, p.level, p.rows, p.groups, p.median_error,
             p.dominated_by]
            for p in report.parts
        ],
    )  # fmt: skip
