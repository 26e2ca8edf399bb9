"""Import and export: one file with a scenario or a project, its versions, comments and tables."""

from __future__ import annotations

import re

import streamlit as st

from db import Project
from planner.bundle import MAX_BYTES, read, write
from ui import library
from ui.safe import md
from ui.shelf import doing

_ROUND = "import_round"
_READY = "export_ready"
LARGEST_MB = MAX_BYTES // 1_000_000


def show(project: Project | None) -> None:
    """Export of the chosen project, and import into it (without one: as the project that the file holds)."""
    if project is None:
        st.caption("Choose a project to export it as a whole; History of a scenario exports that one.")
    else:
        export(f"project-{project.id}", project.name, lambda: write(library.store().export_project(project.id)))
    turn = st.session_state.setdefault(_ROUND, 0)
    key = f"import-file-{turn}"
    into = project.name if project is not None else "the project that it holds, made anew, else the first one"
    st.file_uploader(
        "Import a file that Export wrote", type=["json"], key=key, max_upload_size=LARGEST_MB, on_change=_uploaded,
        args=(key, project.id if project is not None else None),
        help=f"Goes into {md(into)}. Checked before anything is added; links are never taken over.",
    )  # fmt: skip


def export(key: str, name: str, make: object) -> None:
    """A button that makes the file, and then one that saves it."""
    ready = st.session_state.get(_READY)
    if ready is None or ready[0] != key:
        st.button("Export", key=f"export-{key}", icon=":material/file_export:", on_click=_prepare, args=(key, make),
                  help="One JSON file with all versions, comments, tables, calibrations and machines.")  # fmt: skip
        return
    del st.session_state[_READY]  # whatever is done next may change what an export holds
    data: bytes = ready[1]
    slug = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:60] or "scenario"
    st.download_button(
        f"Save the file, {len(data) / 1e6:.2f} MB", data, file_name=f"tierline-{slug}.json", mime="application/json",
        key=f"download-{key}", icon=":material/download:", type="primary", on_click="ignore",
    )  # fmt: skip


def _prepare(key: str, make: object) -> None:
    data = doing.attempt(make)  # type: ignore[arg-type]
    st.session_state[_READY] = None if data is None else (key, data)


def _uploaded(key: str, project_id: str | None) -> None:
    file = st.session_state.get(key)
    if file is None:
        return
    content = doing.attempt(lambda: read(file.getvalue()))
    st.session_state[_ROUND] += 1  # an empty uploader: the same file can be given again
    if content is None:
        return
    added = doing.attempt(lambda: library.store().import_bundle(content, project_id))
    if added is None:
        return
    made = added[0].project_id if project_id is None else None
    doing.imported(added, made if content.project is not None else None)
    if made is not None:
        st.session_state[library.PROJECT] = made
