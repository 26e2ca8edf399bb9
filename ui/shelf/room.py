"""The room of one scenario: its versions, what people said, its links, and the difference of any two."""

from __future__ import annotations

from html import escape

import streamlit as st

from db import Saved, StoreError, Version
from planner.bundle import write
from planner.words.comparison import value_text
from planner.words.formats import listing
from planner.words.times import moment
from ui import dialogs, library, links, state
from ui.guard import guard
from ui.links import by, who
from ui.safe import md
from ui.shelf import apart, doing, exchange
from ui.shelf.listing import changed_words

PAGE_SIZE = 20
_PER = {
    "tokens_per_s_system": "per system",
    "tpot_s": "per output token",
    "usd_per_million_output_tokens": "per million output tokens",
}


def show(scenario_id: str) -> None:
    """The whole room; a scenario that was archived meanwhile leads back to the list."""
    st.button(
        "Library", key="room-leave", icon=":material/arrow_back:", type="tertiary", on_click=doing.enter, args=(None,)
    )
    store = library.store()
    try:
        history = store.history(scenario_id)
        saved = store.get(scenario_id)
    except StoreError as error:
        st.error(md(str(error)), icon=":material/error:")
        return
    if saved is None or not history:
        st.info("This scenario is not in the library any more.", icon=":material/folder_off:")
        return
    st.html(f'<h2 class="tl-entry"><bdi>{escape(saved.name)}</bdi></h2>')
    if saved.note:
        st.html(f'<p class="tl-note-line tl-written"><bdi>{escape(saved.note)}</bdi></p>')
    _actions(saved)
    versions, said, shared, difference = st.tabs(
        [f"Versions ({len(history)})", "Comments", "Links", "Difference"],
        default="Difference" if doing.PAIR in st.session_state else None,
    )
    with versions, guard("showing the versions"):
        _versions(saved, history)
    with said, guard("showing the comments"):
        _comments(saved)
    with shared, guard("showing the links"):
        links.show(saved, dialogs.author_field("link-author"))
    with difference, guard("showing the difference"):
        apart.show(saved, history)


def _actions(saved: Saved) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="room-actions"):
        st.button("Open", key="room-open", type="primary", icon=":material/open_in_new:", on_click=doing.open_plan,
                  args=(saved.id,))  # fmt: skip
        exchange.export(f"scenario-{saved.id}", saved.name, lambda: write(library.store().export_scenario(saved.id)))
        st.button("Archive", key="room-archive", type="tertiary", icon=":material/archive:", on_click=doing.archive,
                  args=(saved.id, saved.name))  # fmt: skip
        projects = library.project_names(library.store().projects())
        st.session_state["room-project"] = saved.project_id
        st.selectbox("Project", list(projects), key="room-project", format_func=lambda id: projects.get(id, "?"),
                     width=260, on_change=_move, args=(saved.id,))  # fmt: skip


def _move(scenario_id: str) -> None:
    into = st.session_state["room-project"]
    doing.attempt(lambda: library.store().move(scenario_id, into))


def _versions(saved: Saved, history: tuple[Version, ...]) -> None:
    pages = -(-len(history) // PAGE_SIZE)
    page = st.number_input("Page", 1, pages, 1, key="versions-page", width=140) if pages > 1 else 1
    siblings: dict[str, list[int]] = {}
    for each in history:
        siblings.setdefault(each.parent_id or "", []).append(each.number)
    for each in history[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]:
        others = [n for n in siblings[each.parent_id] if n != each.number] if each.parent_id else []
        with st.container(border=True, gap="xsmall", key=f"version-{each.number}"):
            st.html(_version(each, saved.id, others))
            with st.container(horizontal=True, gap="small"):
                st.button("Open", key=f"version-open-{each.number}", icon=":material/open_in_new:",
                          on_click=doing.open_plan, args=(saved.id, each.number))  # fmt: skip
                if each.number != saved.newest:
                    st.button("Restore", key=f"version-restore-{each.number}", type="tertiary",
                              icon=":material/settings_backup_restore:", on_click=doing.restore,
                              args=(saved.id, each.number), help="Makes a new version with this content.")  # fmt: skip
                st.button("Fork", key=f"version-fork-{each.number}", type="tertiary", icon=":material/fork_right:",
                          on_click=doing.fork, args=(saved.id, each.number))  # fmt: skip


def _version(each: Version, scenario_id: str, others: list[int]) -> str:
    parts = [f"saved{by(each.author)}, {escape(moment(each.created_at))}"]
    if each.restored is not None:
        parts.append(f"brings version {each.restored} back")
    if each.parent_scenario_id not in (None, scenario_id):
        parts.append(f"forked from version {each.parent_number} of another scenario")
    elif each.parent_number is not None and each.parent_number != each.number - 1:
        parts.append(f"started from version {each.parent_number}")
    if others:
        word = "version" if len(others) == 1 else "versions"
        parts.append(f"beside {word} {listing([str(n) for n in sorted(others)])}, from the same start")
    made = f"engine {each.engine_version}, catalog {each.catalog_digest[:12]}" if each.engine_version else (
        "engine not recorded, saved before versions were kept"
    )  # fmt: skip
    changed = f"<br>changed: {escape(changed_words(each.changed))}" if each.changed else ""
    return (
        f'<p class="tl-note-line"><b>Version {each.number}</b> \u00b7 <bdi>{escape(each.name)}</bdi></p>'
        f'<p class="tl-quiet">{"; ".join(parts)}<br>{escape(made)}{changed}{_figures(each)}</p>'
    )


def _figures(each: Version) -> str:
    """The newest result's figures that decisions are made on, in one line."""
    head = each.headline
    if head is None:
        return ""
    if not head.fits:
        return "<br><b>Does not fit.</b>"
    shown = ("tokens_per_s_system", "tpot_s", "usd_per_million_output_tokens")
    values = [(name, getattr(head, name)) for name in shown]
    texts = [f"{value_text(name, value)} {_PER[name]}" for name, value in values if value is not None]
    return f"<br>{escape(', '.join(texts))}" if texts else ""


def _comments(saved: Saved) -> None:
    try:
        found = library.store().comments(saved.id)
    except StoreError as error:
        st.error(md(str(error)), icon=":material/error:")
        return
    for each in found:
        about = f", on version {each.number}" if each.number is not None else ""
        st.html(
            f'<div class="tl-comment"><p class="tl-quiet"><bdi>{escape(who(each.author))}</bdi>, '
            f"{escape(moment(each.created_at))}{about}</p><p><bdi>{escape(each.text)}</bdi></p></div>"
        )
    if not found:
        st.html('<p class="tl-quiet">Nobody wrote anything yet.</p>')
    turn = st.session_state.setdefault("comment_round", 0)
    text = st.text_area("Comment", key=f"comment-text-{turn}", help="Up to 10,000 characters; shown as typed.")
    author = dialogs.author_field("comment-author")
    about = st.selectbox(
        "About", [0, *range(saved.newest, 0, -1)], key="comment-about", width=260,
        format_func=lambda n: "the scenario as a whole" if n == 0 else f"version {n}",
    )  # fmt: skip
    if st.button("Add comment", key="comment-add", icon=":material/comment:"):
        added = doing.attempt(
            lambda: library.store().comment(saved.id, text or "", author=author, number=about or None)
        )
        if added is None:
            doing.show_fault()
            return
        state.call_author(author)
        st.session_state["comment_round"] = turn + 1
        st.rerun()
