"""The frame around every page: theme variables, session state, the address, navigation."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui import link, state
from ui.guard import guard
from ui.sections.common import pen

HERE = Path(__file__).parent
ICON = HERE / "assets" / "icon.png"
STYLE = HERE / "style.css"


def main(first: str = "plan") -> None:
    """One run of the app; ``first`` is the page that an address without a path opens."""
    st.set_page_config(page_title="Tierline", page_icon=ICON, layout="wide", initial_sidebar_state=340)
    st.html(STYLE)
    st.html(_variables())
    state.start()
    pages = {
        "plan": st.Page(
            _plan,
            title="Plan",
            icon=":material/tune:",
            default=first == "plan",
            url_path="" if first == "plan" else "plan",
            help="Where every expert lives, how fast it runs, what it draws and what it costs.",
        ),
        "scenarios": st.Page(
            _scenarios,
            title="Scenarios",
            icon=":material/folder_open:",
            default=first == "scenarios",
            url_path="" if first == "scenarios" else "scenarios",
            help="The library of saved scenarios.",
        ),
        "policies": st.Page(
            _policies,
            title="Policies",
            icon=":material/alt_route:",
            default=first == "policies",
            url_path="" if first == "policies" else "policies",
            help="What every policy places, moves and overlaps, and which is best for the open scenario.",
        ),
        "accuracy": st.Page(
            _accuracy,
            title="Accuracy",
            icon=":material/target:",
            default=first == "accuracy",
            url_path="" if first == "accuracy" else "accuracy",
            help="Predictions beside published measurements: errors by kind, coverage, and where the plan stands.",
        ),
        "claims": st.Page(
            _claims,
            title="Claims",
            icon=":material/fact_check:",
            default=first == "claims",
            url_path="" if first == "claims" else "claims",
            help="Every published figure beside what the model says, reproduced or not and why.",
        ),
    }
    st.session_state["pages"] = pages
    page = st.navigation(list(pages.values()), position="top")
    with guard("reading the address"):
        link.sync(page.url_path)
    page.run()


def _plan() -> None:
    from ui.pages import plan

    with guard("showing this page"):
        plan.run()


def _scenarios() -> None:
    from ui.pages import scenarios

    with guard("showing this page"):
        scenarios.run()


def _policies() -> None:
    from ui.pages import policies

    with guard("showing this page"):
        policies.run()


def _accuracy() -> None:
    from ui.pages import accuracy

    with guard("showing this page"):
        accuracy.run()


def _claims() -> None:
    from ui.pages import claims

    with guard("showing this page"):
        claims.run()


def _variables() -> str:
    """Colours that the style sheet cannot derive from the text colour."""
    ink = pen()
    edited = "#8A4B00" if ink.mode == "light" else "#FFB569"
    return (
        f"<style>:root{{--tl-text:{ink.text};--tl-ground:{ink.background};--tl-over:{ink.over};"
        f"--tl-edited:{edited};}}</style>"
    )
