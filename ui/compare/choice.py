"""Which scenarios are compared: the open one, those of the library, and older versions of these."""

from __future__ import annotations

import re
from dataclasses import dataclass

import streamlit as st

from db import Saved, StoreError
from planner.compare import MOST
from planner.scenario import Scenario
from planner.words.formats import shorten
from planner.words.times import moment
from ui import library, link, state
from ui.safe import md

OPEN_NOW = "open"
KEY = "compare-sides"
LISTED = 200  # of the library, last changed first; search narrows the rest on the Scenarios page
_VERSION = re.compile(r"(.+)\.([1-9]\d*)")


@dataclass(frozen=True)
class Choice:
    """One side as it is chosen: its name, the scenario behind it, and the version of the library that it is."""

    label: str
    scenario: Scenario
    saved: Saved | None = None


def key_of(scenario_id: str, number: int = 0) -> str:
    """How a side is named among the chosen: a scenario's newest version (0), or one of its versions."""
    return f"{scenario_id}.{number}" if number else scenario_id


def choose(*keys: str) -> None:
    """Compare these from the next run on."""
    st.session_state[KEY] = list(dict.fromkeys(keys))[:MOST]


def show() -> list[Choice]:
    """The selectors, and what is chosen in them; the first is the base."""
    names = _names()
    if KEY not in st.session_state:
        choose(*_first(names))
    found = {key: choice for key in st.session_state[KEY] if (choice := _choice(key, names)) is not None}
    names |= {key: choice.label for key, choice in found.items() if key not in names}
    st.session_state[KEY] = list(found)
    chosen = st.multiselect(
        "Scenarios to compare",
        list(names),
        key=KEY,
        format_func=lambda key: names[key],
        max_selections=MOST,
        placeholder="two to four; the first is the base",
        help="The first is the base: every delta is from it to one of the others.",
    )
    _older({key: name for key, name in names.items() if key != OPEN_NOW and _VERSION.fullmatch(key) is None})
    return [found[key] for key in chosen if key in found]


def _older(names: dict[str, str]) -> None:
    """Any version of a scenario of the library as one more side."""
    if not names:
        return
    with st.popover("Add a version", icon=":material/history:"):
        id = st.selectbox("Scenario", list(names), format_func=names.__getitem__, key="compare-version-of")
        try:
            history = library.store().history(id)
        except StoreError as error:
            st.error(md(str(error)), icon=":material/error:")
            return
        told = {each.number: f"version {each.number}, {moment(each.created_at)}" for each in history}
        number = st.selectbox(
            "Version", list(told), format_func=lambda n: told.get(n, str(n)), key=f"compare-version-{id}"
        )
        full = len(st.session_state[KEY]) >= MOST
        st.button(
            "Compare it", key="compare-version-add", icon=":material/add:", on_click=_add, args=(id, number),
            disabled=full or number is None, help=f"Up to {MOST} sides are compared." if full else None,
        )  # fmt: skip


def _add(id: str, number: int) -> None:
    choose(*st.session_state.get(KEY, []), key_of(id, number))


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
    if saved is None or not state.edited() or saved.id not in names:
        return [OPEN_NOW]
    return [link.name_of(saved), OPEN_NOW]


def _choice(key: str, names: dict[str, str]) -> Choice | None:
    if key == OPEN_NOW:
        saved = state.opened()
        if saved is None or state.edited():
            return Choice("Open now", state.current())
        return Choice(saved.name, state.current(), saved)
    version = _VERSION.fullmatch(key)
    try:
        store = library.store()
        found = store.get(key) if version is None else store.get_version(version[1], int(version[2]))
    except StoreError as error:
        st.warning(md(str(error)), icon=":material/error:")
        return None
    if found is None:
        st.warning("One of the chosen scenarios is not in the library any more.", icon=":material/error:")
        return None
    name = names.get(key, shorten(found.name, 60))
    return Choice(name if version is None else f"{name}, version {found.version}", found.scenario, found)
