"""The scenario of a session: the one source of truth that every input writes to and everything shown is made from.

What was typed and refused is kept beside it, with its sentence, so that a field keeps its text and the last good
value keeps computing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from db import Link, Saved
from planner.fields import ScenarioError, get_path, set_paths
from planner.scenario import Scenario
from planner.words import labels

_SCENARIO = "scenario"
_OPENED = "opened"
_TYPED = "typed"
_FAULTS = "faults"
_NOTICE = "notice"
_TOUCHED = "touched"
_LINKED = "linked"
_AUTHOR = "author"
DIALOG = "dialog"
"""the dialog that is open: one of the scenario that is shown"""


def start() -> None:
    """Give a new session its default scenario."""
    state = st.session_state
    if _SCENARIO not in state:
        state[_SCENARIO] = Scenario()
        state[_OPENED] = None
        state[_TYPED] = {}
        state[_FAULTS] = {}
        state[_NOTICE] = None
        state[_LINKED] = None


def current() -> Scenario:
    """The scenario that is being edited."""
    scenario: Scenario = st.session_state[_SCENARIO]
    return scenario


def opened() -> Saved | None:
    """The saved scenario that the current one started from."""
    saved: Saved | None = st.session_state.get(_OPENED)
    return saved


def linked() -> Link | None:
    """The share link that the shown scenario was opened by; such a page offers no edit, only a copy of one's own."""
    link: Link | None = st.session_state.get(_LINKED)
    return link


def author() -> str:
    """The name that this session's saves and comments carry; asked once, empty until then."""
    return str(st.session_state.get(_AUTHOR, ""))


def call_author(name: str) -> None:
    """Use this name for what is saved from now on."""
    st.session_state[_AUTHOR] = name


def edited() -> bool:
    """Whether the current scenario differs from the saved one that it started from."""
    saved = opened()
    return saved is None or saved.scenario.canonical_json() != current().canonical_json()


def put(scenario: Scenario, saved: Saved | None = None, link: Link | None = None) -> None:
    """Replace the whole scenario: what was typed and refused belonged to the old one."""
    state = st.session_state
    state[_SCENARIO] = scenario
    state[_OPENED] = saved
    state[_LINKED] = link
    state[_TYPED] = {}
    state[_FAULTS] = {}
    state[DIALOG] = None
    state[_TOUCHED] = True


def attach(saved: Saved | None) -> None:
    """Say that the current scenario is now this saved one; inputs stay as they are."""
    st.session_state[_OPENED] = saved
    st.session_state[_LINKED] = None
    st.session_state[_TOUCHED] = True


def change(changes: Mapping[str, object]) -> None:
    """Set fields of the scenario, checked together. Raises ScenarioError and changes nothing when one is refused."""
    state = st.session_state
    state[_SCENARIO] = set_paths(current(), changes)
    for path in changes:
        forget(path)
    state[_NOTICE] = None
    if linked() is not None:  # what is changed is a copy of one's own, and the linked scenario stays as it is
        state[_OPENED] = state[_LINKED] = None
    state[_TOUCHED] = True


def value(path: str) -> Any:
    """The current value of a field."""
    return get_path(current(), path)


def refuse(path: str, typed: str, sentence: str) -> None:
    """Keep what was typed and why it was refused; the last good value stays in the scenario."""
    st.session_state[_TYPED][path] = typed
    st.session_state[_FAULTS][path] = sentence
    st.session_state[_TOUCHED] = True


def forget(path: str) -> None:
    """Drop a refused text, because the field got a good value."""
    st.session_state[_TYPED].pop(path, None)
    st.session_state[_FAULTS].pop(path, None)


def forget_under(prefix: str) -> None:
    """Drop the refused texts of a whole group."""
    for path in [path for path in st.session_state[_FAULTS] if path.startswith(prefix)]:
        forget(path)


def typed(path: str) -> str | None:
    """The refused text that still stands in a field."""
    text: str | None = st.session_state[_TYPED].get(path)
    return text


def fault(path: str) -> str | None:
    """Why the text in a field was refused."""
    sentence: str | None = st.session_state[_FAULTS].get(path)
    return sentence


def faults() -> dict[str, str]:
    """All refused fields and their sentences."""
    return dict(st.session_state[_FAULTS])


def notice(text: str | None) -> None:
    """One sentence to show above the page until something is changed."""
    st.session_state[_NOTICE] = text


def pending_notice() -> str | None:
    """The sentence that :func:`notice` left."""
    text: str | None = st.session_state.get(_NOTICE)
    return text


def take_touched() -> bool:
    """Whether an input changed the scenario since the last run; reading resets it."""
    return bool(st.session_state.pop(_TOUCHED, False))


def person_sentence(error: ScenarioError) -> str:
    """The error's first sentence with labels in place of paths: people know fields by what stands beside them."""
    return labels.in_words(error.sentences[0])
