"""Advice that a plan departs from, and what to watch once it runs."""

from __future__ import annotations

from html import escape

import streamlit as st

from planner.result import Advice, Monitor, Result
from planner.words.formats import capital, share
from ui.sections.common import say, section
from ui.tables import Row, Table


def show(result: Result) -> None:
    """The section; absent where there is neither advice nor anything to watch."""
    if not result.advice and not result.monitor:
        return
    with section("Advice, and what to watch", "guidance"):
        if result.advice:
            say(_finding(result.advice))
            st.html("".join(_advice(item) for item in result.advice))
        if result.monitor:
            say("Once it runs, watch these; a large difference from the prediction is the first thing to explain.")
            st.html(_watch(result.monitor).html())


def _finding(items: tuple[Advice, ...]) -> str:
    if len(items) == 1:
        return "The plan departs from one known practice."
    return f"The plan departs from {len(items)} known practices."


def _advice(item: Advice) -> str:
    worth = f" <b>{escape(capital(item.worth))}.</b>" if item.worth else ""
    return (
        f'<p class="tl-note-line">{escape(item.text)}{worth} '
        f'<span class="tl-badge">{escape(item.certainty)}</span></p>'
        f'<p class="tl-quiet">Source: {escape(item.source)}.</p>'
    )


def _watch(items: tuple[Monitor, ...]) -> Table:
    rows = []
    for item in items:
        predicted = "" if item.predicted is None else share(item.predicted)
        met = {None: "", True: "within", False: "outside"}[item.met]
        rows.append(Row(item.what, [item.target, predicted, met], item.note))
    return Table("What to watch", ["Figure", "Target", "Predicted", "Prediction is"], rows, wide_notes=True, words=True)
