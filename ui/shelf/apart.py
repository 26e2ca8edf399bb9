"""The difference of two versions, or of two scenarios: inputs that differ, and headline figures with their ratio."""

from __future__ import annotations

import streamlit as st

from db import Saved, SavedSummary, StoreError, Version
from planner.difference import Difference, difference
from planner.result import Headline
from planner.words.comparison import value_text
from planner.words.formats import DASH, capital, shorten, trimmed
from planner.words.values import value_words
from ui import library
from ui.compare import choice
from ui.compare import saved as saved_comparisons
from ui.safe import md
from ui.shelf import doing
from ui.tables import Row, Table
from ui.unlike import unlike

Side = tuple[str, int]  # a scenario's id and a version's number; 0 is its newest
MOST_OTHERS = 200
_BEFORE, _AFTER = "difference-before", "difference-after"


def show(saved: Saved, history: tuple[Version, ...]) -> None:
    """Two selectors, then what differs."""
    options: dict[Side, str] = {(saved.id, each.number): _own(each) for each in history}
    options |= {(row.id, 0): f"{shorten(row.name, 60)}, newest" for row in _others(saved.id)}
    options = unlike(options)
    pair = st.session_state.pop(doing.PAIR, None)
    first = history[0]
    if pair is not None:
        st.session_state[_BEFORE], st.session_state[_AFTER] = pair
    for key, usual in (
        (_BEFORE, (saved.id, first.parent_number if first.parent_scenario_id == saved.id else 1)),
        (_AFTER, (saved.id, first.number)),
    ):
        if st.session_state.get(key) not in options:
            st.session_state[key] = usual if usual in options else next(iter(options))
    left, right = st.columns(2, gap="medium")
    with left:
        before = st.selectbox("Before", list(options), key=_BEFORE, format_func=options.__getitem__)
    with right:
        after = st.selectbox("After", list(options), key=_AFTER, format_func=options.__getitem__)
    sides = [_load(side) for side in (before, after)]
    if None in sides:
        doing.show_fault()
        return
    one, two = (side for side in sides if side is not None)
    if st.button(
        "Compare", key="difference-compare", icon=":material/compare_arrows:",
        help="Both side by side on the Compare page, with the reason for every delta.",
    ):  # fmt: skip
        choice.choose(*(choice.key_of(*side) for side in (before, after)))
        saved_comparisons.leave()
        st.switch_page(st.session_state["pages"]["compare"])
    heads = [_headline(side) for side in (one, two)]
    same = one.id == two.id
    names = [f"version {side.version}" if same else shorten(side.name, 40) for side in (one, two)]
    _tables(difference((one.scenario, two.scenario), heads), names)
    for side, head, name, key in ((one, heads[0], names[0], "before"), (two, heads[1], names[1], "after")):
        if head is None:
            st.button(
                f"Compute the figures of {md(name)}", key=f"difference-compute-{key}", icon=":material/calculate:",
                on_click=doing.recompute, args=(side.id, side.version),
            )  # fmt: skip


def _others(own: str) -> list[SavedSummary]:
    """Other scenarios to choose from; in a large library those that a search finds, and those that are chosen."""
    store = library.store()
    search = ""
    if store.count() > MOST_OTHERS + 1:
        search = st.text_input(
            "Find another scenario", key="difference-find", type="search", live="300ms",
            placeholder="name, note, tag, author, model, system or policy",
            help=f"The last changed {MOST_OTHERS} can be chosen below; a search finds the others.",
        )  # fmt: skip
    rows = [row for row in store.list(search, limit=MOST_OTHERS + 1) if row.id != own][:MOST_OTHERS]
    listed = {row.id for row in rows}
    for id, number in (st.session_state.get(key) or (own, 0) for key in (_BEFORE, _AFTER)):
        chosen = store.get(id) if number == 0 and id not in (*listed, own) else None
        if chosen is not None:
            rows.append(chosen.summary)
            listed.add(id)
    return rows


def _own(each: Version) -> str:
    return f"version {each.number}, {shorten(each.name, 60)}"


def _load(side: Side) -> Saved | None:
    scenario_id, number = side
    store = library.store
    found = doing.attempt(lambda: store().get_version(scenario_id, number) if number else store().get(scenario_id))
    if found is None:
        st.session_state.setdefault(doing.FAULT, "This scenario is not in the library any more.")
    return found


def _headline(saved: Saved) -> Headline | None:
    try:
        found = library.store().latest_result(saved)
    except StoreError as error:
        st.warning(md(str(error)), icon=":material/error:")
        return None
    return None if found is None else found[0].headline


def _tables(found: Difference, names: list[str]) -> None:
    if found.fields:
        fields = Table(
            "Inputs that differ",
            ["Input", *names],
            [
                Row(row.label, [value_words(row.path, value) for value in row.values], small=row.unit)
                for row in found.fields
            ],
            stacked=True,
        )
        st.html(fields.html())
    else:
        fields = None
        st.html('<p class="tl-note-line">All inputs are the same.</p>')
    rows = [
        Row(
            capital(row.label),
            [*(DASH if value is None else value_text(row.name, value) for value in row.values), _ratio(row.ratios[1])],
            small="more is better" if row.more_is_better else "",
        )
        for row in found.figures
    ]
    if rows:
        figures = Table("Headline figures", ["Figure", *names, "after / before"], rows, stacked=True)
        st.html(figures.html())
        st.download_button(
            "Difference as CSV", (fields.csv() + "\n" if fields else "") + figures.csv(), "tierline-difference.csv",
            "text/csv", key="difference-csv", icon=":material/download:", type="tertiary", on_click="ignore",
        )  # fmt: skip
    else:
        st.html('<p class="tl-quiet">No figures are stored for either of them, or neither fits.</p>')


def _ratio(value: float | None) -> str:
    return DASH if value is None else f"\u00d7{trimmed(value)}"
