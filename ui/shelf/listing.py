"""The list of a library: what each scenario is, who changed it last, and its newest figures."""

from __future__ import annotations

from html import escape

import streamlit as st

from db import SavedSummary, StoreError
from planner.difference import named
from planner.words import names
from planner.words.formats import DASH, Quantity, dollars, listing, prefixed, seconds, shorten, significant
from planner.words.times import moment
from ui import engine, library, state
from ui.links import by
from ui.safe import md
from ui.shelf import doing

PAGE_SIZE = 20
MOST_CHANGED = 4


def show(project_id: str | None, archived: bool) -> None:
    """Search, pages and rows of one project (None: of all)."""
    search = st.text_input(
        "Search",
        key="library-search",
        type="search",
        placeholder="name, note, tag, author, model, system or policy",
        help="Each word must occur in the name, the note, the tags, the authors or the ids.",
        persist_state="session",
        live="300ms",
    )
    try:
        store = library.store()
        total = store.count(search, project_id=project_id, archived=archived)
        pages = max(1, -(-total // PAGE_SIZE))
        page = 1
        if pages > 1:
            page = st.number_input("Page", 1, pages, 1, key="library-page", width=140)
        rows = store.list(
            search, limit=PAGE_SIZE, offset=(page - 1) * PAGE_SIZE, project_id=project_id, archived=archived
        )
    except StoreError as error:
        st.error(md(str(error)), icon=":material/error:")
        return
    if not rows:
        _empty(search, archived)
        return
    counted = "1 scenario" if total == 1 else f"{total} scenarios"
    state_word = " archived" if archived else ""
    st.html(f'<p class="tl-quiet">{counted}{state_word}{" found" if search.strip() else ""}, last changed first.</p>')
    for row in rows:
        _entry(row)


def _empty(search: str, archived: bool) -> None:
    if search.strip():
        st.info(f"Nothing in the library matches \u201c{md(search.strip()[:80])}\u201d.", icon=":material/search_off:")
    elif archived:
        st.info("Nothing here is archived.", icon=":material/archive:")
    else:
        st.info("Nothing is saved yet: Save on the Plan page keeps a scenario here.", icon=":material/folder_open:")


def _entry(row: SavedSummary) -> None:
    with st.container(border=True, gap="xsmall", key=f"row-{row.id}"):
        left, right = st.columns([0.62, 0.38], gap="medium", vertical_alignment="center")
        with left:
            st.html(what(row))
        with right:
            st.html(figures(row))
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            if row.archived_at is not None:
                st.button("Bring back", key=f"back-{row.id}", icon=":material/unarchive:", on_click=doing.unarchive,
                          args=(row.id,))  # fmt: skip
                return
            st.button("Open", key=f"open-{row.id}", icon=":material/open_in_new:", on_click=doing.open_plan,
                      args=(row.id,))  # fmt: skip
            count = "1 version" if row.version == 1 else f"{row.version} versions"
            st.button(f"History, {count}", key=f"room-{row.id}", type="tertiary", icon=":material/history:",
                      on_click=doing.enter, args=(row.id,),
                      help="Versions, comments, links, difference, export.")  # fmt: skip
            st.button("Fork", key=f"copy-{row.id}", type="tertiary", icon=":material/fork_right:",
                      on_click=doing.fork, args=(row.id,),
                      help="A copy of its own, which remembers where it is from.")  # fmt: skip
            st.button("Archive", key=f"archive-{row.id}", type="tertiary", icon=":material/archive:",
                      on_click=doing.archive, args=(row.id, row.name))  # fmt: skip
            if row.headline is not None and _is_old(row):
                st.button("Recompute", key=f"recompute-{row.id}", type="tertiary", icon=":material/refresh:",
                          on_click=doing.recompute, args=(row.id,))  # fmt: skip


def what(row: SavedSummary) -> str:
    """Name, note, tags, what it is and who changed what; everything is data and shown as it is."""
    note = f'<p class="tl-note-line"><bdi>{escape(shorten(row.note, 600))}</bdi></p>' if row.note else ""
    opened = state.opened()
    here = ' <span class="tl-badge">open now</span>' if opened is not None and opened.id == row.id else ""
    tags = "".join(f'<span class="tl-tag"><bdi>{escape(tag)}</bdi></span>' for tag in row.tags)
    about = f"{row.model_id} \u00b7 {row.system_id} \u00b7 {row.policy_id}"
    if row.batch is not None:
        about += f" \u00b7 batch {row.batch}, {row.prompt_tokens} + {row.output_tokens} tokens"
    return (
        f'<h2 class="tl-entry"><bdi>{escape(row.name)}</bdi>{here}</h2>{note}'
        f'<p class="tl-quiet">{escape(about)}<br>{_last(row)}</p>{f"<p>{tags}</p>" if tags else ""}'
    )


def _last(row: SavedSummary) -> str:
    text = f"version {row.version}{by(row.changed_by)}, {escape(moment(row.updated_at))}"
    if row.version > 1 and row.author != row.changed_by:
        text += f"; first saved{by(row.author) or ' without a name'}"
    return text + (f"<br>changed: {escape(changed_words(row.changed))}" if row.changed else "")


def changed_words(paths: tuple[str, ...]) -> str:
    """The labels of changed fields, the first few by name."""
    labels = list(dict.fromkeys(named(path)[0] for path in paths))
    more = len(labels) - MOST_CHANGED
    return listing([*labels[:MOST_CHANGED], f"{more} more"] if more > 0 else labels)


def figures(row: SavedSummary) -> str:
    """The newest result's headline, or that there is none."""
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
    shown: list[tuple[str, Quantity | str]] = []
    if head.tokens_per_s_system is not None:
        shown.append(("per system", prefixed(head.tokens_per_s_system, "output tok/s")))
    if head.tpot_s is not None:
        shown.append(("TPOT", seconds(head.tpot_s)))
    if head.energy_j_per_output_token is not None:
        shown.append(("per output token", Quantity(significant(head.energy_j_per_output_token), "J")))
    if head.usd_per_million_output_tokens is not None:
        shown.append(("per million output tokens", dollars(head.usd_per_million_output_tokens)))
    cells = "".join(
        f"<div><b>{escape(str(value) or DASH)}</b><span>{escape(name)}</span></div>" for name, value in shown
    )
    bound = escape(names.bound(head.bound_by))
    return f'<div class="tl-figures">{cells}</div><p class="tl-quiet">Bound by {bound}.</p>{old}'


def _is_old(row: SavedSummary) -> bool:
    return (row.headline_engine_version, row.headline_catalog_digest) != engine.stamp()
