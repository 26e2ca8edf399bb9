"""The answer first: the verdict as the page's heading, what its figures are, and Save and Share beside it."""

from __future__ import annotations

from html import escape

import streamlit as st

from planner import words
from planner.result import Result
from ui import cards, dialogs, engine, state
from ui.compare import briefed
from ui.safe import md

WARNINGS_SHOWN = 2


def show(result: Result, complete: bool = True) -> None:
    """Verdict, buttons, the small line and the cards; ``complete`` is False while ranges are still computed."""
    left, right = st.columns([0.7, 0.3], gap="small")
    with left:
        icon = ":material/check_circle:" if result.headline.fits else ":material/block:"
        st.title(f"{icon} {md(words.verdict(result))}", anchor=False)
        st.html(f'<p class="tl-note-line">{escape(_small_line(result))}</p>{_saved_line()}')
        with st.container(key="working", gap=None):
            if not complete:
                wait((result.scenario_hash, result.engine_version, result.catalog_digest), result)
    with right:
        buttons()
    more = result.warnings[WARNINGS_SHOWN:]
    if more or len(result.headline.reasons) > 1:
        reasons = result.headline.reasons if not result.headline.fits else ()
        notes = [*reasons, *more]
        with st.expander(f"{len(notes)} more {'note' if len(notes) == 1 else 'notes'} on this plan"):
            st.html("".join(f'<p class="tl-note-line">{escape(note)}</p>' for note in notes))
    st.html(cards.html(cards.cards(result)))


@st.fragment(run_every=0.8, key="ranges")
def wait(key: engine.Key, shown: Result) -> None:
    """Progress of what is still computed; shows more of the result as soon as it is there."""
    if engine.pending(key):
        if engine.is_newer(key, shown):
            st.rerun(scope="app")
        st.html('<p class="tl-quiet tl-working" role="status">Computing ranges and what one more unit would give …</p>')
    elif st.session_state.get("waited_for") != key:
        st.session_state["waited_for"] = key
        st.rerun(scope="app")


def buttons() -> None:
    """Save and Share; they work for whatever is shown, whether it fits or not."""
    saved = state.opened()
    with st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        label = "Save" if saved is None or state.edited() else "Saved"
        if state.linked() is None:
            st.button(
                label, type="primary", icon=":material/bookmark:", key="save", on_click=dialogs.want, args=("save",)
            )
        if (
            saved is not None
            and state.linked() is None
            and st.button(
                "History", icon=":material/history:", key="history", help="Versions, comments, links, difference."
            )
        ):
            st.session_state["library_room"] = saved.id
            st.switch_page(st.session_state["pages"]["scenarios"])
        st.button("Share", icon=":material/link:", key="share", on_click=dialogs.want, args=("share",))
        if st.button("Brief", icon=":material/description:", key="brief", help="One printable page to decide on"):
            briefed.forget()
            st.switch_page(st.session_state["pages"]["brief"])


def _saved_line() -> str:
    """Which saved scenario this is, and whether it was changed since."""
    saved = state.opened()
    if saved is None:
        return ""
    since = "; changed since, Save keeps the changes" if state.edited() else ""
    version = f"version {saved.version}" + (f" of {saved.newest}" if saved.newest != saved.version else "")
    return f'<p class="tl-quiet">Saved as <b><bdi>{escape(saved.name)}</bdi></b>, {version}{since}.</p>'


def _small_line(result: Result) -> str:
    warnings = [warning if warning.endswith(".") else warning + "." for warning in result.warnings[:WARNINGS_SHOWN]]
    return " ".join([words.outlook(result), *warnings])
