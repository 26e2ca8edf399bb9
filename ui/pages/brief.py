"""The Brief page: what a meeting signs, on one page without selectors, and as files."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import streamlit as st

from planner.brief import FORMATS, Brief, brief, completed, export
from planner.brief.html import body, style
from planner.brief.pdf import HOW_TO_GET, browser
from planner.errors import PlanError
from planner.refusals import REFUSALS
from planner.scenario import Scenario
from planner.sweep import executor
from planner.words import labels
from ui import address, engine, link, state
from ui.compare import briefed
from ui.guard import guard
from ui.kept import Kept
from ui.later import Later
from ui.safe import md
from ui.sections.common import pen

KEPT: Kept[Brief] = Kept()
WHOLE: Later[Brief] = Later("brief")
FILE = "tierline-brief"
_PRINTED = "brief_printed"
FORMS = {"html": "HTML", "pdf": "PDF", "xlsx": "XLSX", "csv": "CSV"}


def run() -> None:
    """One run of the page: first without what would change the decision, which takes the longest, then with it."""
    compared = briefed.asked()
    scenario = state.current() if compared is None else compared.scenario
    asked = _asked(compared)
    make = partial(brief, scenario, planned=engine.planned, with_flips=False, **asked)
    others = tuple((name, other.canonical_json()) for name, other in asked["others"])
    key = (scenario.canonical_json(), asked["title"], asked["author"], asked["version"], asked["link"], others,
           engine.stamp())  # fmt: skip
    try:
        with st.spinner("Planning the options, the frontier and the ranges …"):
            found = KEPT.get(key, make)
    except REFUSALS as error:
        st.title("Brief", anchor=False)
        _of_compared(compared)
        st.error(md(labels.in_words(str(error))), icon=":material/error:")
        return
    whole, coming = (found, False) if found.turns_complete else WHOLE.ask(key, lambda: completed(found, executor()))
    _of_compared(compared)
    with guard("offering the files"):
        _files(whole or found, (key, whole is not None))
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


def _of_compared(compared: briefed.Compared | None) -> None:
    """Which scenarios the options are, and the way back to the brief of the open one."""
    if compared is None:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="brief-compared"):
        st.html(
            '<p class="tl-quiet">The options are the scenarios of the Compare page; the first is the plan that this '
            "brief is about.</p>",
            width="content",
        )
        st.button("Brief of the open scenario", key="brief-open", type="tertiary", on_click=briefed.forget)


@st.fragment(run_every=0.8, key="brief-rest")
def _wait(key: Hashable) -> None:
    """Says what is still looked for, and shows the page again once it is there."""
    if not WHOLE.pending(key):
        st.rerun(scope="app")
    st.html(
        '<p class="tl-quiet tl-working" role="status">Still being computed: what would change the '
        "decision. A file that you take now says that it is without; it is added here in a moment.</p>"
    )


def _asked(compared: briefed.Compared | None) -> dict[str, Any]:
    """Title, author, version and address of what is shown, and the options to decide between."""
    saved = state.opened() if compared is None else compared.saved
    found: dict[str, Any] = {"title": "", "author": "", "version": "", "others": ()}
    if compared is not None:
        found |= {"title": compared.title, "others": compared.others}
    if saved is not None:
        edited = ", edited since" if compared is None and state.edited() else ""
        found |= {"author": saved.changed_by, "version": f"version {saved.version}{edited}"}
        found["title"] = found["title"] or saved.name
    return found | {"link": _address() if compared is None else _address_of(compared)}


def _address() -> str | None:
    """The address of what is shown: of the share link or the saved version where it is one, else the whole scenario."""
    saved, shared = state.opened(), state.linked()
    if shared is not None:
        return link.page_address(**{link.LINK: shared.token})
    if saved is not None and not state.edited():
        return link.page_address(**{link.SAVED: f"{saved.id}.{saved.version}"})
    return _whole(state.current())


def _address_of(compared: briefed.Compared) -> str | None:
    """The address of the base of a comparison. On a page that a link opened it is never one of the library."""
    saved = compared.saved
    if compared.scenario == state.current():
        return _address()
    if saved is not None and state.linked() is None:
        return link.page_address(**{link.SAVED: f"{saved.id}.{saved.version}"})
    return _whole(compared.scenario)


def _whole(scenario: Scenario) -> str | None:
    return None if address.too_large(scenario) else link.page_address(**{link.WHOLE: address.encode(scenario)})


def _files(found: Brief, key: Hashable) -> None:
    """A button for each form. A PDF is printed first, so that a browser that cannot print is told in words."""
    printer, fault = browser(), None
    with st.container(horizontal=True, gap="small", key="brief-files"):
        for form, name in FORMS.items():
            if form == "pdf":
                fault = _pdf(found, key, printer is None)
                continue
            st.download_button(
                name,
                data=partial(export, found, form),
                file_name=f"{FILE}.{form}",
                mime=FORMATS[form][1],
                key=f"brief-{form}",
                icon=":material/download:",
                on_click="ignore",
                type="primary" if form == "html" else "secondary",
            )
    if printer is None:
        st.html(f'<p class="tl-quiet">{HOW_TO_GET}</p>')
    if fault:
        st.error(md(fault), icon=":material/print_disabled:")


def _pdf(found: Brief, key: Hashable, without: bool) -> str | None:
    """Print, then a button that saves what was printed; the sentence why it was not."""
    pressed = st.button("PDF", key="brief-pdf", icon=":material/print:", disabled=without, help="Printed in seconds.")
    if pressed:
        try:
            with st.spinner("Printing …"):
                st.session_state[_PRINTED] = (key, export(found, "pdf"))
        except PlanError as error:
            return str(error)
    kept = st.session_state.get(_PRINTED)
    if kept is not None and kept[0] == key:
        st.download_button(
            "Save the PDF", kept[1], f"{FILE}.pdf", FORMATS["pdf"][1], key="brief-pdf-save", type="primary",
            icon=":material/download:", on_click="ignore",
        )  # fmt: skip
    return None


def _inks() -> dict[str, str]:
    """The brief's colours, by the names of its style sheet, in the theme that the browser shows."""
    ink = pen()
    dark = ink.mode == "dark"
    accent, mark, meets = ("#56b4e9", "#ffb569", "#1c2b25") if dark else ("#0072b2", "#8a4b00", "#e7f3ea")
    return {
        "ink": ink.text, "muted": ink.muted, "line": ink.grid, "ground": ink.background, "accent": accent,
        "mark": mark, "meets": meets,
    }  # fmt: skip
