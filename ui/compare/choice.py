"""Which scenarios are compared: the open one, and those of the library."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from db import StoreError
from planner.compare import MOST
from planner.scenario import Scenario
from planner.words.formats import shorten
from ui import library, state
from ui.safe import md

OPEN_NOW = "open"
KEY = "compare-sides"
LISTED = 200  # of the library, last changed first; search narrows the rest on the Scenarios page


@dataclass(frozen=True)
class Choice:
    """One side as it is chosen: its name, and the scenario behind it."""

    label: str
    scenario: Scenario


def show() -> list[Choice]:
    """The selector, and what is chosen in it; the first is the base."""
    names = _names()
    if KEY not in st.session_state:
        st.session_state[KEY] = _first(names)
    st.session_state[KEY] = [key for key in st.session_state[KEY] if key in names]
    chosen = st.multiselect(
        "Scenarios to compare",
        list(names),
        key=KEY,
        format_func=lambda key: names[key],
        max_selections=MOST,
        placeholder="two to four; the first is the base",
        help="The first is the base: every delta is from it to one of the others.",
    )
    found = [_choice(key) for key in chosen]
    return [choice for choice in found if choice is not None]


def _names() -> dict[str, str]:
    names = {OPEN_NOW: "Open now"}
    saved = state.opened()
    if saved is not None:
        names[OPEN_NOW] = f"Open now: {shorten(saved.name, 40)}{', edited' if state.edited() else ''}"
    try:
        rows = library.store().list("", limit=LISTED)
    except StoreError as error:
        st.warning(md(str(error)), icon=":material/error:")
        return names
    taken: dict[str, int] = {}
    for row in rows:
        name = shorten(row.name, 60)
        taken[name] = taken.get(name, 0) + 1
        names[row.id] = name if taken[name] == 1 else f"{name} ({taken[name]})"
    return names


def _first(names: dict[str, str]) -> list[str]:
    """The open scenario beside the saved one that it was edited from, where there is one."""
    saved = state.opened()
    return [saved.id, OPEN_NOW] if saved is not None and saved.id in names and state.edited() else [OPEN_NOW]


def _choice(key: str) -> Choice | None:
    if key == OPEN_NOW:
        saved = state.opened()
        return Choice("Open now" if saved is None or state.edited() else saved.name, state.current())
    try:
        found = library.store().get(key)
    except StoreError as error:
        st.warning(md(str(error)), icon=":material/error:")
        return None
    if found is None or found.scenario is None:
        st.warning("One of the chosen scenarios is not in the library any more.", icon=":material/error:")
        return None
    return Choice(found.name, found.scenario)
