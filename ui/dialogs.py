"""Save and Share: dialogs that stay open until they are done with, and keep what was typed when the store refuses."""

from __future__ import annotations

from html import escape

import streamlit as st

from db import StoreError
from planner.result import Result
from ui import library, link, state
from ui.safe import md

_WANTED = "dialog"
_TOAST = "toast"


def want(name: str | None) -> None:
    """Open a dialog on this run, or none."""
    st.session_state[_WANTED] = name


def show(result: Result | None, shown: Result | None = None) -> None:
    """The dialog that is wanted, and what the last one has to say.

    ``result`` is stored beside a scenario that is saved; ``shown`` may still lack ranges and only lends its names.
    """
    text = st.session_state.pop(_TOAST, None)
    if text:
        st.toast(md(text), icon=":material/check:")
    wanted = st.session_state.get(_WANTED)
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


@st.dialog("Save this scenario", icon=":material/bookmark:", on_dismiss=_closed)
def _save(result: Result | None, shown: Result | None) -> None:
    saved = state.opened()
    name = st.text_input(
        "Name",
        value=saved.name if saved else suggested_name(shown),
        key="save-name",
        max_chars=200,
        help="Shown in the library; need not be unique.",
    )
    note = st.text_area("Note", value=saved.note if saved else "", key="save-note", help="Why this plan, for whom.")
    with st.container(horizontal=True, gap="small"):
        update = saved is not None and st.button("Update the saved one", type="primary", key="save-update")
        new = st.button("Save as new" if saved else "Save", type="secondary" if saved else "primary", key="save-new")
    if not new and not update:
        return
    try:
        scenario = state.current()
        if update and saved is not None:
            kept = library.store().update(
                saved.id,
                scenario=scenario,
                name=name or "",
                note=note or "",
                result=result,
                expected_version=saved.version,
            )
        else:
            kept = library.store().save(scenario, name or "", note or "", result)
    except StoreError as error:
        st.error(md(str(error)), icon=":material/error:")
        return
    state.attach(kept)
    want(None)
    toast(f"Saved as \u201c{kept.name}\u201d. Its link is in the address bar.")
    st.rerun()


@st.dialog("Share this plan", icon=":material/link:", on_dismiss=_closed, width="medium")
def _share() -> None:
    saved = state.opened()
    large = link.too_large()
    if saved is not None:
        edits = " as it was last saved, without the edits since" if state.edited() else ""
        st.markdown(f"**Saved scenario**: opens \u201c{md(saved.name)}\u201d{edits}.")
        st.code(link.page_address(scenario=saved.token), language=None, wrap_lines=True)
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
