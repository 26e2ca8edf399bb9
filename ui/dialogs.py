"""Save and Share: dialogs that stay open until they are done with, and keep what was typed when the store refuses."""

from __future__ import annotations

from html import escape
from typing import TypedDict

import streamlit as st

from db import NotFoundError, Saved, StoreError
from db.text import NAME_CHARS
from planner.result import Result
from planner.scenario import Scenario
from ui import library, link, links, state
from ui.safe import md

_TOAST = "toast"
MOST_CHARS = 20_000  # what a field takes before the store's own sentence says how much too long it is


class _Given(TypedDict):
    """What the Save dialog adds to a scenario."""

    name: str
    note: str
    tags: list[str]
    author: str
    result: Result | None


def want(name: str | None) -> None:
    """Open a dialog on this run, or none."""
    st.session_state[state.DIALOG] = name


def show(result: Result | None, shown: Result | None = None) -> None:
    """The dialog that is wanted, and what the last one has to say.

    ``result`` is stored beside a scenario that is saved; ``shown`` may still lack ranges and only lends its names.
    """
    text = st.session_state.pop(_TOAST, None)
    if text:
        st.toast(md(text), icon=":material/check:")
    wanted = st.session_state.get(state.DIALOG)
    if wanted == "save":
        _save(result, shown)
    elif wanted == "share":
        _share()


def toast(text: str) -> None:
    """Say something small on the next run."""
    st.session_state[_TOAST] = text


def _closed() -> None:
    want(None)


def suggested_name(result: Result | None) -> str:
    """A name that says what a scenario is: model, system, batch."""
    scenario = state.current()
    model = scenario.model.id.rsplit("/", 1)[-1]
    system = result.system.name if result is not None else scenario.system.id
    return f"{model} on {system}, batch {scenario.workload.batch}"[:120]


def author_field(key: str) -> str:
    """Whose save or comment it is; asked wherever it is needed and kept for the session."""
    return (
        st.text_input(
            "Your name",
            value=state.author(),
            key=key,
            max_chars=NAME_CHARS,
            placeholder="shown beside what you save",
            help="Kept for this session. There are no logins yet: anybody may give any name.",
        )
        or ""
    )


def tags_of(text: str) -> list[str]:
    """Tags as they are typed: separated by commas."""
    return [tag for tag in text.split(",") if tag.strip()]


@st.dialog("Save this scenario", icon=":material/bookmark:", on_dismiss=_closed)
def _save(result: Result | None, shown: Result | None) -> None:
    saved = state.opened()
    own = saved is not None and state.linked() is None
    name = st.text_input(
        "Name",
        value=saved.name if saved else suggested_name(shown),
        key="save-name",
        max_chars=MOST_CHARS,
        help=f"Shown in the library; up to {NAME_CHARS} characters, need not be unique.",
    )
    note = st.text_area("Note", value=saved.note if saved else "", key="save-note", help="Why this plan, for whom.")
    tags = st.text_input(
        "Tags",
        value=", ".join(saved.tags) if saved else "",
        key="save-tags",
        placeholder="for example: board, H200",
        help="Separated by commas; the library finds them.",
    )
    author = author_field("save-author")
    project = library.project_field("save-project") if not own else None
    with st.container(horizontal=True, gap="small"):
        update = own and st.button("Save a new version", type="primary", key="save-update")
        new = st.button("Save as new" if own else "Save", type="secondary" if own else "primary", key="save-new")
    if not new and not update:
        return
    scenario = state.current()
    given = _Given(name=name or "", note=note or "", tags=tags_of(tags or ""), author=author, result=result)
    try:
        store = library.store()
        if update and saved is not None:
            kept = store.update(saved.id, scenario=scenario, **given, expected_version=saved.version)
        elif saved is not None:
            kept = _copied(saved, scenario, given, project)
        else:
            kept = store.save(scenario, **given, project_id=project)
    except StoreError as error:
        st.error(md(str(error)), icon=":material/error:")
        return
    state.call_author(author)
    state.attach(kept)
    want(None)
    toast(saved_sentence(kept, bool(update)))
    st.rerun()


def _copied(saved: Saved, scenario: Scenario, given: _Given, project: str | None) -> Saved:
    """A scenario of its own that remembers where it started; where that was archived meanwhile, one that does not."""
    store = library.store()
    try:
        return store.fork(saved.id, saved.version, scenario=scenario, **given, project_id=project)
    except NotFoundError:
        return store.save(scenario, **given, project_id=project)


def saved_sentence(kept: Saved, update: bool) -> str:
    """What a save did, and whose versions are beside it."""
    if not update:
        return f"Saved as \u201c{kept.name}\u201d."
    text = f"Saved as version {kept.version} of \u201c{kept.name}\u201d."
    if kept.beside:
        who = ", ".join(f"{links.who(each.author)} (version {each.number})" for each in kept.beside[-3:])
        text += f" Meanwhile {who} saved too: both are kept, and History shows the difference."
    return text


@st.dialog("Share this plan", icon=":material/link:", on_dismiss=_closed, width="medium")
def _share() -> None:
    saved, opened_by = state.opened(), state.linked()
    large = link.too_large()
    if opened_by is not None:
        st.markdown("**The link that this page was opened by**")
        st.code(link.page_address(scenario=opened_by.token), language=None, wrap_lines=True)
    elif saved is not None:
        edits = " It opens what was last saved, without the edits since." if state.edited() else ""
        st.markdown(
            f"**Links to \u201c{md(saved.name)}\u201d**: who opens one reads and copies, but does not edit.{edits}"
        )
        links.show(saved, author_field("share-author"))
    whole = None if large else link.whole()
    if whole is not None:
        st.markdown("**Whole scenario in the link**: needs no library, opens the same inputs on any Tierline.")
        st.code(link.page_address(s=whole), language=None, wrap_lines=True)
    else:
        st.html(f'<p class="tl-note-line">{escape(large or "")}</p>')
    if saved is None:
        st.button(
            "Save it for a short link", icon=":material/bookmark:", key="share-save", on_click=want, args=("save",)
        )
