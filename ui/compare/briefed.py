"""A brief whose options are the compared scenarios: handed from the Compare page to the Brief page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from db import Saved
from planner.scenario import Scenario
from ui import state

_KEY = "brief-compared"


@dataclass(frozen=True)
class Compared:
    """What the brief is about (the base), its version of the library if it is one, and the other options by name."""

    title: str
    scenario: Scenario
    saved: Saved | None
    others: tuple[tuple[str, Scenario], ...]
    open_now: str  # what was open then: the brief is of the open scenario again once that is another one


def ask(sides: Sequence[tuple[str, Scenario]], saved: Saved | None = None) -> None:
    """From now on the Brief page is about the first side, with the others as its options."""
    (title, scenario), *others = sides
    st.session_state[_KEY] = Compared(title, scenario, saved, tuple(others), state.current().canonical_json())


def asked() -> Compared | None:
    """What :func:`ask` left, as long as the same scenario is open."""
    found: Compared | None = st.session_state.get(_KEY)
    return found if found is not None and found.open_now == state.current().canonical_json() else None


def forget() -> None:
    """The Brief page is about the open scenario."""
    st.session_state.pop(_KEY, None)
