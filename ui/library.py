"""The store as the pages use it: one connection for the process, every fault a sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import streamlit as st

from db import Project, Saved, Store, StoreError, open_store
from planner.result import Result
from ui import engine
from ui.unlike import unlike

LOG = logging.getLogger("tierline.ui")
_SHOWN = "stored_result"
_STORED = "stored_key"
PROJECT = "project"
"""the project that this session looks at"""


@st.cache_resource(show_spinner=False)
def _open() -> Store:
    return open_store()


def store() -> Store:
    """The store, opened and migrated on first use. Raises StoreError; a failure is tried again on the next call."""
    return _open()


def project_field(key: str, chosen: str | None = None) -> str:
    """A choice among the projects; the id of the chosen one, also on the run on which it was archived meanwhile."""
    projects = project_names(store().projects())
    ids = list(projects)
    before = st.session_state.get(key)
    if before not in projects:
        wanted = chosen or st.session_state.get(PROJECT)
        st.session_state[key] = wanted if wanted in projects else ids[0]
    now = str(st.selectbox("Project", ids, key=key, format_func=lambda id: projects.get(id, "?")))
    return now if before is None or before in projects else str(before)  # the store refuses what is gone


def project_names(projects: Iterable[Project]) -> dict[str, str]:
    """What projects are called in a drop-down, by id."""
    return unlike({project.id: project.name for project in projects})


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
            if latest is not None and (latest[1], latest[2]) == engine.stamp():
                engine.remember(latest[0])
            elif latest is not None:
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


def keep_result(result: Result) -> None:
    """Store the complete result of the scenario that is open; once per result, and never in the reader's way."""
    key = (result.scenario_hash, result.engine_version, result.catalog_digest)
    if st.session_state.get(_STORED) == key:
        return
    st.session_state[_STORED] = key
    try:
        store().put_result(result)
    except StoreError as error:
        LOG.warning("The result was not stored: %s", error)
