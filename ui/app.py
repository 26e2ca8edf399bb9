"""The frame around every page: theme variables, session state, the address, navigation."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from ui import link, state
from ui.guard import guard
from ui.sections.common import pen

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage

HERE = Path(__file__).parent
ICON = HERE / "assets" / "icon.png"
STYLE = HERE / "style.css"

PAGES = {
    # module in ui.pages: title, Material symbol, what it answers
    "plan": ("Plan", "tune", "Where every expert lives, how fast it runs, what it draws and what it costs."),
    "start": ("Start", "lightbulb", "Four real questions with computed answers, and the words that pages use."),
    "scenarios": ("Scenarios", "folder_open", "The library of saved scenarios."),
    "compare": ("Compare", "compare_arrows", "Scenarios side by side, what differs, and the reason for every delta."),
    "explore": (
        "Explore",
        "travel_explore",
        "Sweeps: the frontier, knees, maps of what wins, what the answer hangs on, cost against load.",
    ),
    "brief": (
        "Brief",
        "description",
        "One page to decide on, as HTML, PDF, XLSX and CSV.",
    ),
    "policies": (
        "Policies",
        "alt_route",
        "What every policy places, moves and overlaps, and which is best for the open scenario.",
    ),
    "accuracy": (
        "Accuracy",
        "target",
        "Predictions beside published measurements: errors by kind, coverage, and where the plan stands.",
    ),
    "claims": (
        "Claims",
        "fact_check",
        "Every published figure beside what the model says, reproduced or not and why.",
    ),
}


def main(first: str = "plan") -> None:
    """One run of the app; ``first`` is the page that an address without a path opens."""
    st.set_page_config(page_title="Tierline", page_icon=ICON, layout="wide", initial_sidebar_state=340)
    st.html(STYLE)
    st.html(_variables())
    state.start()
    pages = {room: _page(room, first) for room in PAGES}
    st.session_state["pages"] = pages
    page = st.navigation(list(pages.values()), position="top")
    with guard("reading the address"):
        link.sync(page.url_path)
    page.run()


def _page(room: str, first: str) -> StreamlitPage:
    """One entry of the navigation; its module is imported when it is first opened."""
    title, icon, help = PAGES[room]

    def show() -> None:
        with guard("showing this page"):
            importlib.import_module(f"ui.pages.{room}").run()

    return st.Page(
        show,
        title=title,
        icon=f":material/{icon}:",
        default=room == first,
        url_path="" if room == first else room,
        help=help,
    )


def _variables() -> str:
    """Colours that the style sheet cannot derive from the text colour."""
    ink = pen()
    edited = "#8A4B00" if ink.mode == "light" else "#FFB569"
    return (
        f"<style>:root{{--tl-text:{ink.text};--tl-ground:{ink.background};--tl-over:{ink.over};"
        f"--tl-edited:{edited};}}</style>"
    )
