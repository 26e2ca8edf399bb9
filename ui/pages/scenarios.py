"""The Scenarios page: the library of what was saved, by project, and the room of each scenario."""

from __future__ import annotations

import streamlit as st

from db import StoreError
from ui import dialogs
from ui.safe import md
from ui.shelf import doing, listing, projects, room


def run() -> None:
    """One run of the page."""
    if st.session_state.pop(doing.OPEN, None):
        st.switch_page(st.session_state["pages"]["plan"])
    dialogs.show(None)
    st.title("Scenarios", anchor=False)
    doing.show_fault()
    doing.undo_bar()
    inside: str | None = st.session_state.get(doing.ROOM)
    try:
        if inside is not None:
            room.show(inside)
        else:
            project_id, archived = projects.show()
            listing.show(project_id, archived)
    except StoreError as error:
        st.error(md(str(error)), icon=":material/error:")
