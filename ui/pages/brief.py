"""The Brief page: what a meeting signs, on one page without selectors, and as files."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import streamlit as st

from planner.brief import FORMATS, Brief, brief, completed, export
from planner.brief.html import body, style
from planner.brief.pdf import HOW_TO_GET, browser
from planner.sweep import executor
from planner.words import labels
from ui import engine, link, state
from ui.guard import guard
from ui.kept import Kept
from ui.later import Later
from ui.safe import md
from ui.sections.common import pen

KEPT: Kept[Brief] = Kept()
WHOLE: Later[Brief] = Later("brief")
FILE = "tierline-brief"
FORMS = {"html": "HTML", "pdf": "PDF", "xlsx": "XLSX", "csv": "CSV"}


def run() -> None:
    """One run of the page: first without what would change the decision, which takes the longest, then with it."""
    asked = _asked()
    make = partial(brief, state.current(), planned=engine.planned, with_flips=False, **asked)
    key = (state.current().canonical_json(), *asked.values(), engine.stamp())
    try:
        with st.spinner("Planning the options, the frontier and the ranges …"):
            found = KEPT.get(key, make)
    except engine.CANNOT as error:
        st.title("Brief", anchor=False)
        st.error(md(labels.in_words(str(error))), icon=":material/error:")
        return
    whole, coming = (found, False) if found.turns_complete else WHOLE.ask(key, lambda: completed(found, executor()))
    with guard("offering the files"):
        _files(whole or found)
    with st.container(key="briefing", gap=None):
        if coming:
            _wait(key)
        elif whole is None:
            st.warning("What would change the decision could not be computed; the server's log says why.")
    with guard("showing the brief"):
        inks = _inks()
        names = "".join(f"--b-{name}:{colour};" for name, colour in inks.items())
        st.html(f"<style>{style()}.brief{{{names}}}</style>")
        st.html(body(whole or found, inks))


@st.fragment(run_every=0.8, key="brief-rest")
def _wait(key: Hashable) -> None:
    """Says what is still looked for, and shows the page again once it is there."""
    if not WHOLE.pending(key):
        st.rerun(scope="app")
    st.html(
        '<p class="tl-quiet tl-working" role="status">Still being computed: what would change the '
        "decision. A file that you take now says that it is without; it is added here in a moment.</p>"
    )


def _asked() -> dict[str, Any]:
    """Title, author, version and address of what is shown."""
    saved = state.opened()
    if saved is None:
        return {"title": "", "author": "", "version": "", "link": _address()}
    edited = ", edited since" if state.edited() else ""
    return {
        "title": saved.name,
        "author": saved.changed_by,
        "version": f"version {saved.version}{edited}",
        "link": _address(),
    }


def _address() -> str | None:
    """The address of what is shown: of the share link or the saved version where it is one, else the whole scenario."""
    saved, shared = state.opened(), state.linked()
    if shared is not None:
        return link.page_address(**{link.LINK: shared.token})
    if saved is not None and not state.edited():
        return link.page_address(**{link.SAVED: f"{saved.id}.{saved.version}"})
    whole = None if link.too_large() else link.whole()
    return None if whole is None else link.page_address(**{link.WHOLE: whole})


def _files(found: Brief) -> None:
    printer = browser()
    with st.container(horizontal=True, gap="small", key="brief-files"):
        for form, name in FORMS.items():
            st.download_button(
                name,
                data=partial(export, found, form),
                file_name=f"{FILE}.{form}",
                mime=FORMATS[form][1],
                key=f"brief-{form}",
                icon=":material/download:",
                on_click="ignore",
                disabled=form == "pdf" and printer is None,
                type="primary" if form == "html" else "secondary",
            )
    if printer is None:
        st.html(f'<p class="tl-quiet">{HOW_TO_GET}</p>')


def _inks() -> dict[str, str]:
    """The brief's colours, by the names of its style sheet, in the theme that the browser shows."""
    ink = pen()
    dark = ink.mode == "dark"
    accent, mark, meets = ("#56b4e9", "#ffb569", "#1c2b25") if dark else ("#0072b2", "#8a4b00", "#e7f3ea")
    return {
        "ink": ink.text, "muted": ink.muted, "line": ink.grid, "ground": ink.background, "accent": accent,
        "mark": mark, "meets": meets,
    }  # fmt: skip
