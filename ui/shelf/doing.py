"""What the buttons of the library do: each asks the store once, and a refusal becomes a sentence on the next run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TypeVar

import streamlit as st

from db import Saved, SavedSummary, StoreError
from planner.errors import PlanError
from ui import dialogs, engine, library, state
from ui.safe import md

FAULT = "library_fault"
OPEN = "library_open"
ROOM = "library_room"
UNDO = "library_undo"
PAIR = "difference_pair"
T = TypeVar("T")


def show_fault() -> None:
    """The sentence that the last button left, once."""
    fault = st.session_state.pop(FAULT, None)
    if fault:
        st.error(md(fault), icon=":material/error:")


def attempt(ask: Callable[[], T]) -> T | None:
    """Ask the store; None, and a sentence for the next run, where it refuses."""
    try:
        return ask()
    except (StoreError, PlanError, engine.CannotPlanError) as error:
        st.session_state[FAULT] = str(error)
        return None


def open_plan(scenario_id: str, number: int | None = None) -> None:
    """Show a scenario, or one version of it, on the Plan page."""
    store = library.store
    saved = attempt(lambda: store().get(scenario_id) if number is None else store().get_version(scenario_id, number))
    if saved is not None:
        state.put(saved.scenario, saved)
        state.notice(None)
        st.session_state[OPEN] = True
    elif FAULT not in st.session_state:
        st.session_state[FAULT] = "This scenario is not in the library any more."


def enter(scenario_id: str | None) -> None:
    """Show the room of one scenario; None leaves it."""
    st.session_state[ROOM] = scenario_id


def fork(scenario_id: str, number: int | None = None) -> None:
    """Copy a version as a scenario of its own."""
    copy = attempt(lambda: library.store().fork(scenario_id, number, author=state.author()))
    if copy is not None:
        dialogs.toast(f"Copied as \u201c{copy.name}\u201d.")


def restore(scenario_id: str, number: int) -> None:
    """Bring a version back as the newest one."""
    back: Saved | None = attempt(lambda: library.store().restore(scenario_id, number, author=state.author()))
    if back is not None:
        dialogs.toast(f"Version {number} is back as version {back.version}.")


def archive(scenario_id: str, name: str) -> None:
    """Take a scenario out of the library; the next run offers to undo it."""
    if attempt(lambda: library.store().archive(scenario_id)) is None:
        return
    offer_undo(f"\u201c{name}\u201d was archived; its links are closed.", unarchive, scenario_id)
    _gone({scenario_id})


def imported(rows: Sequence[SavedSummary], project_id: str | None) -> None:
    """Say what an import added; the next run offers to take it out again, with *project_id* if it made that."""
    count = "1 scenario" if len(rows) == 1 else f"{len(rows)} scenarios"
    ids = tuple(row.id for row in rows)
    offer_undo(f"Imported {count}; what is new leads the list.", take_out, ids, project_id)


def take_out(ids: tuple[str, ...], project_id: str | None) -> None:
    """Archive what an import added."""
    store = library.store
    if attempt(lambda: store().archive_all(ids)) is None:
        return
    if project_id is not None and attempt(lambda: store().archive_project(project_id)) is not None:
        st.session_state[library.PROJECT] = None
    st.session_state[UNDO] = None
    _gone(set(ids))
    dialogs.toast("Taken out again; Archived shows it.")


def _gone(ids: set[str]) -> None:
    if st.session_state.get(ROOM) in ids:
        enter(None)
    opened = state.opened()
    if opened is not None and opened.id in ids:
        state.attach(None)  # its links are closed; the inputs stay as they are


def offer_undo(text: str, undo: Callable[..., None], *args: object) -> None:
    """The next run says what was done, with a button that undoes it."""
    st.session_state[UNDO] = (text, undo, args)


def unarchive(scenario_id: str) -> None:
    """Bring an archived scenario back."""
    if attempt(lambda: library.store().unarchive(scenario_id)) is not None:
        st.session_state[UNDO] = None


def recompute(scenario_id: str, number: int | None = None) -> None:
    """Plan it with today's engine and keep the result beside it."""
    store = library.store
    saved = attempt(lambda: store().get(scenario_id) if number is None else store().get_version(scenario_id, number))
    if saved is not None:
        attempt(lambda: store().put_result(engine.run_plan(saved.scenario)))


def undo_bar() -> None:
    """What was archived or imported last can be undone until the next such step."""
    undo = st.session_state.get(UNDO)
    if undo is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="undo-bar"):
        st.html(f'<p class="tl-note-line" role="status"><bdi>{escape(undo[0])}</bdi></p>', width="content")
        st.button("Undo", key="library-undo", icon=":material/undo:", on_click=undo[1], args=undo[2])
