"""The store as the pages use it: one connection for the process, every fault a sentence."""

from __future__ import annotations

import streamlit as st

from db import Saved, Store, StoreError, open_store
from planner.result import Result
from planner.scenario import Scenario
from ui import engine

_SHOWN = "stored_result"


@st.cache_resource(show_spinner=False)
def _open() -> Store:
    return open_store()


def store() -> Store:
    """The store, opened and migrated on first use. Raises StoreError; a failure is tried again on the next call."""
    return _open()


def stored_result(saved: Saved) -> tuple[Result, str] | None:
    """The stored result of a saved scenario if it was computed by another engine or catalog, with its engine.

    None where there is none, or where today's engine gives it anyway. Looked up once per opened scenario.
    """
    memory = st.session_state.get(_SHOWN)
    key = (saved.id, saved.version)
    if memory is None or memory[0] != key:
        found = None
        try:
            latest = store().latest_result(saved)
            if latest is not None and (latest[1], latest[2]) != engine.stamp():
                found = (latest[0], latest[1])
        except StoreError:
            found = None  # the plan is computed anew; opening it said already what is wrong with the store
        memory = (key, found)
        st.session_state[_SHOWN] = memory
    result: tuple[Result, str] | None = memory[1]
    return result


def use_todays(saved: Saved) -> None:
    """From now on show what today's engine gives for this saved scenario."""
    st.session_state[_SHOWN] = ((saved.id, saved.version), None)


def result_now(scenario: Scenario) -> Result | None:
    """The result to store beside a scenario; None where it cannot be planned."""
    try:
        return engine.run_plan(scenario)
    except engine.CannotPlanError:
        return None
