"""Which project is looked at; new ones, and archived ones brought back."""

from __future__ import annotations

import streamlit as st

from db import DEFAULT_PROJECT_ID, Project
from ui import dialogs, library, state
from ui.safe import md
from ui.shelf import doing, exchange
from ui.unlike import unlike

ALL = ""
_CHOICE = "library-project"


def show() -> tuple[str | None, bool]:
    """The bar above the list. Returns the project that is chosen (None: all) and whether archived ones are shown."""
    projects = library.store().projects()
    known = {project.id: project for project in projects}
    wanted = st.session_state.get(library.PROJECT) or ALL
    st.session_state[_CHOICE] = wanted if wanted in known else ALL
    names = unlike({ALL: "All projects", **{project.id: _name(project) for project in projects}})
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="projects"):
        chosen = st.selectbox(
            "Project", [ALL, *known], key=_CHOICE, width=320, on_change=_chosen,
            format_func=names.__getitem__,
        )  # fmt: skip
        with st.popover("New project", icon=":material/create_new_folder:"):
            _new()
        with st.popover("Import and export", icon=":material/swap_vert:"):
            exchange.show(known.get(chosen))
        if chosen not in (ALL, DEFAULT_PROJECT_ID):
            st.button("Archive project", key="project-archive", type="tertiary", icon=":material/archive:",
                      on_click=_archive, args=(known[chosen],))  # fmt: skip
        archived = st.toggle("Archived", key="library-archived", persist_state="session",
                             help="Show what was archived instead; everything can be brought back.")  # fmt: skip
    if chosen != ALL and known[chosen].note:
        st.markdown(md(known[chosen].note))
    if archived:
        _archived()
    return chosen or None, archived


def _name(project: Project) -> str:
    return f"{project.name} ({project.scenarios})"


def _chosen() -> None:
    st.session_state[library.PROJECT] = st.session_state[_CHOICE] or None


def _new() -> None:
    name = st.text_input("Name", key="project-name", max_chars=dialogs.MOST_CHARS)
    note = st.text_area("Note", key="project-note", help="What it is about, for whom.")
    author = dialogs.author_field("project-author")
    if not st.button("Make it", key="project-new", type="primary"):
        return
    made = doing.attempt(lambda: library.store().create_project(name or "", note or "", author=author))
    if made is None:
        doing.show_fault()
        return
    state.call_author(author)
    st.session_state[library.PROJECT] = made.id
    st.rerun()


def _archive(project: Project) -> None:
    if doing.attempt(lambda: library.store().archive_project(project.id)) is not None:
        st.session_state[library.PROJECT] = None
        dialogs.toast(f"\u201c{project.name}\u201d was archived; Archived shows it and brings it back.")


def _archived() -> None:
    for project in library.store().projects(archived=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"project-{project.id}"):
            st.markdown(f"Project **{md(project.name)}**, {project.scenarios} scenarios", width="content")
            st.button("Bring back", key=f"project-back-{project.id}", icon=":material/unarchive:",
                      on_click=_back, args=(project.id,))  # fmt: skip


def _back(project_id: str) -> None:
    if doing.attempt(lambda: library.store().unarchive_project(project_id)) is not None:
        st.session_state[library.PROJECT] = project_id
