"""The Scenarios page: the library of what was saved, with search, open, duplicate and archive with undo."""

from __future__ import annotations

from html import escape

import streamlit as st

from db import Saved, SavedSummary, StoreError
from planner.words import names
from planner.words.formats import DASH, Quantity, dollars, prefixed, seconds, significant
from planner.words.times import moment
from ui import dialogs, engine, library, state
from ui.safe import md

_UNDO = "library_undo"
_FAULT = "library_fault"
_OPEN = "library_open"
PAGE_SIZE = 20


def run() -> None:
    """One run of the page."""
    if st.session_state.pop(_OPEN, None):
        st.switch_page(st.session_state["pages"]["plan"])
    dialogs.show(None)
    st.title("Scenarios", anchor=False)
    fault = st.session_state.pop(_FAULT, None)
    if fault:
        st.error(md(fault), icon=":material/error:")
    _undo_bar()
    search = st.text_input(
        "Search",
        key="library-search",
        type="search",
        placeholder="name, note, model, system or policy",
        help="Each word must occur in the name, the note or the ids.",
        persist_state="session",
        live="300ms",
    )
    try:
        store = library.store()
        total = store.count(search)
        pages = max(1, -(-total // PAGE_SIZE))
        page = 1
        if pages > 1:
            page = st.number_input("Page", 1, pages, 1, key="library-page", width=140)
        rows = store.list(search, limit=PAGE_SIZE, offset=(page - 1) * PAGE_SIZE)
    except StoreError as error:
        st.error(md(str(error)), icon=":material/error:")
        return
    if not rows:
        _empty(search)
        return
    counted = "1 scenario" if total == 1 else f"{total} scenarios"
    st.html(f'<p class="tl-quiet">{counted}{" found" if search.strip() else ""}, last changed first.</p>')
    for row in rows:
        _entry(row)


def _empty(search: str) -> None:
    if search.strip():
        st.info(f"Nothing in the library matches \u201c{md(search.strip()[:80])}\u201d.", icon=":material/search_off:")
    else:
        st.info("Nothing is saved yet: Save on the Plan page keeps a scenario here.", icon=":material/folder_open:")


def _entry(row: SavedSummary) -> None:
    with st.container(border=True, gap="xsmall", key=f"row-{row.id}"):
        left, right = st.columns([0.62, 0.38], gap="medium", vertical_alignment="center")
        with left:
            st.html(_what(row))
        with right:
            st.html(_figures(row))
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.button(
                "Open", key=f"open-{row.id}", icon=":material/open_in_new:", on_click=_open, args=(row.id,),
                type="secondary",
            )  # fmt: skip
            st.button("Duplicate", key=f"copy-{row.id}", type="tertiary", icon=":material/content_copy:",
                      on_click=_duplicate, args=(row.id,))  # fmt: skip
            st.button("Archive", key=f"archive-{row.id}", type="tertiary", icon=":material/archive:", on_click=_archive,
                      args=(row.id, row.name))  # fmt: skip
            if row.headline is not None and _is_old(row):
                st.button("Recompute", key=f"recompute-{row.id}", type="tertiary", icon=":material/refresh:",
                          on_click=_recompute, args=(row.id,))  # fmt: skip


def _what(row: SavedSummary) -> str:
    """Name, note and what it is; everything is data and shown as it is."""
    note = f'<p class="tl-note-line">{escape(row.note)}</p>' if row.note else ""
    opened = state.opened()
    here = ' <span class="tl-badge">open now</span>' if opened is not None and opened.id == row.id else ""
    what = f"{row.model_id} \u00b7 {row.system_id} \u00b7 {row.policy_id}"
    if row.batch is not None:
        what += f" \u00b7 batch {row.batch}, {row.prompt_tokens} + {row.output_tokens} tokens"
    return (
        f'<h2 class="tl-entry">{escape(row.name)}{here}</h2>{note}'
        f'<p class="tl-quiet">{escape(what)}<br>changed {escape(moment(row.updated_at))}</p>'
    )


def _figures(row: SavedSummary) -> str:
    head = row.headline
    if head is None:
        return '<p class="tl-quiet">No figures are stored yet; open it to plan it.</p>'
    old = ""
    if _is_old(row):
        version = escape(str(row.headline_engine_version))
        old = f'<p class="tl-quiet">Computed with an older engine or catalog ({version}).</p>'
    if not head.fits:
        reason = head.reasons[0] if head.reasons else "the reason is not stored"
        return f'<p class="tl-note-line"><b>Does not fit.</b> {escape(reason)}</p>{old}'
    figures: list[tuple[str, Quantity | str]] = []
    if head.tokens_per_s_system is not None:
        figures.append(("per system", prefixed(head.tokens_per_s_system, "output tok/s")))
    if head.tpot_s is not None:
        figures.append(("TPOT", seconds(head.tpot_s)))
    if head.energy_j_per_output_token is not None:
        figures.append(("per output token", Quantity(significant(head.energy_j_per_output_token), "J")))
    if head.usd_per_million_output_tokens is not None:
        figures.append(("per million output tokens", dollars(head.usd_per_million_output_tokens)))
    cells = "".join(
        f"<div><b>{escape(str(value) or DASH)}</b><span>{escape(name)}</span></div>" for name, value in figures
    )
    bound = escape(names.bound(head.bound_by))
    return f'<div class="tl-figures">{cells}</div><p class="tl-quiet">Bound by {bound}.</p>{old}'


def _is_old(row: SavedSummary) -> bool:
    return (row.headline_engine_version, row.headline_catalog_digest) != engine.stamp()


def _get(scenario_id: str) -> Saved | None:
    try:
        saved = library.store().get(scenario_id)
    except StoreError as error:
        st.session_state[_FAULT] = str(error)
        return None
    if saved is None:
        st.session_state[_FAULT] = "This scenario is not in the library any more."
    return saved


def _open(scenario_id: str) -> None:
    saved = _get(scenario_id)
    if saved is not None:
        state.put(saved.scenario, saved)
        state.notice(None)
        st.session_state[_OPEN] = True


def _duplicate(scenario_id: str) -> None:
    try:
        copy = library.store().fork(scenario_id, author=state.author())
    except StoreError as error:
        st.session_state[_FAULT] = str(error)
        return
    dialogs.toast(f"Copied as \u201c{copy.name}\u201d.")


def _archive(scenario_id: str, name: str) -> None:
    try:
        library.store().archive(scenario_id)
    except StoreError as error:
        st.session_state[_FAULT] = str(error)
        return
    st.session_state[_UNDO] = (scenario_id, name)
    opened = state.opened()
    if opened is not None and opened.id == scenario_id:
        state.attach(None)  # its link is closed; the inputs stay as they are


def _undo_bar() -> None:
    """The last archived one can be undone until the next one."""
    undo = st.session_state.get(_UNDO)
    if undo is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="undo-bar"):
        text = f"\u201c{undo[1]}\u201d was archived; its links are closed."
        st.html(f'<p class="tl-note-line" role="status">{escape(text)}</p>', width="content")
        st.button("Undo", key="library-undo", icon=":material/undo:", on_click=_unarchive, args=(undo[0],))


def _unarchive(scenario_id: str) -> None:
    try:
        library.store().unarchive(scenario_id)
    except StoreError as error:
        st.session_state[_FAULT] = str(error)
        return
    st.session_state[_UNDO] = None


def _recompute(scenario_id: str) -> None:
    """Plan it with today's engine and keep the result beside it."""
    saved = _get(scenario_id)
    if saved is None:
        return
    try:
        library.store().put_result(engine.run_plan(saved.scenario))
    except (StoreError, engine.CannotPlanError) as error:
        st.session_state[_FAULT] = str(error)
