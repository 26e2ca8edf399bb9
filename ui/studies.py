"""Saved studies on a page: keep one with a link that opens it, open one of the library or by its link, close links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from db import LINK_TO_NOTHING, StoreError, Study
from planner.words.formats import shorten
from ui import library, link, state
from ui.safe import md

LISTED = 50


def keep(
    kind: str, noun: str, key: str, called: str, spec: Callable[[], dict[str, Any]], body: Callable[[], bytes]
) -> None:
    """A button with a form that saves what is shown as a study of ``kind``, and then its link. Keys begin with key."""
    with st.popover(f"Save this {noun}", icon=":material/save:"):
        try:
            project = library.project_field(f"{key}-project")
            name = st.text_input("Name", value=called, max_chars=200, key=f"{key}-name")
            author = st.text_input("Your name", value=state.author(), max_chars=100, key=f"{key}-author")
            if st.button("Save", key=f"{key}-save", type="primary"):
                store = library.store()
                study = store.save_study(project, kind, name, author, spec(), body())
                state.call_author(author)
                st.session_state[f"{key}-saved"] = store.create_study_link(study.id, author=author).token
        except StoreError as error:
            st.error(md(str(error)), icon=":material/error:")
        token = st.session_state.get(f"{key}-saved")
        if token:
            st.success("Saved, with a link that opens it:", icon=":material/check:")
            st.code(address_of(kind, token), language=None, wrap_lines=True)


def address_of(kind: str, token: str) -> str:
    """The address that opens a study: of the page that shows its kind."""
    page = {"sweep": "explore", "compare": "compare"}[kind]
    return link.page_address(**{link.STUDY: token}).replace("?", f"{page}?", 1)


def of_link(kind: str, key: str) -> Study | None:
    """The study that ``?study=`` names, once for each address; says so where it leads to nothing."""
    token = st.query_params.get(link.STUDY)
    if not token or st.session_state.get(f"{key}-study") == token:
        return None
    st.session_state[f"{key}-study"] = token
    try:
        study = library.store().get_study_by_token(token)
    except StoreError as error:
        st.error(md(str(error)), icon=":material/error:")
        return None
    if study is None or study.kind != kind:
        st.warning(md(LINK_TO_NOTHING), icon=":material/link_off:")
        return None
    return study


def left() -> None:
    """The study is not shown any more: its address goes, too."""
    st.query_params.pop(link.STUDY, None)


def chosen(kind: str, noun: str, key: str) -> Study | None:
    """A list of the saved studies with a button; the study when it is pressed, and then only."""
    try:
        studies = library.store().list_studies(kind=kind, limit=LISTED)
    except StoreError as error:
        st.error(md(str(error)), icon=":material/error:")
        return None
    if not studies:
        return None
    with st.expander(f"Saved {noun}s ({len(studies)})"):
        by_id = {study.id: study for study in studies}
        id = st.selectbox(
            f"Saved {noun}",
            list(by_id),
            format_func=lambda id: f"{shorten(by_id[id].name, 80)}, {by_id[id].created_at:%Y-%m-%d}",
            key=f"{key}-saved",
        )
        pressed = st.button("Open", key=f"{key}-open-saved", icon=":material/folder_open:")
        try:
            _links(kind, id, key)
            study = library.store().get_study(id) if pressed else None
        except StoreError as error:
            st.error(md(str(error)), icon=":material/error:")
            return None
        if pressed and study is None:
            st.warning(f"This {noun} is not in the library any more.", icon=":material/link_off:")
        return study


def _links(kind: str, id: str, key: str) -> None:
    """The open links of a study, each with a button that closes it."""
    for each in library.store().links(study_id=id):
        if each.revoked_at is not None:
            continue
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{key}-link-{each.id}"):
            st.code(address_of(kind, each.token), language=None, wrap_lines=True)
            st.button(
                "Close", key=f"{key}-revoke-{each.id}", icon=":material/link_off:", on_click=_close, args=(each.id,),
                help="Whoever opens it from now on is told that it leads nowhere. This cannot be undone.",
            )  # fmt: skip


def _close(id: str) -> None:
    try:
        library.store().revoke_link(id)
    except StoreError as error:
        state.notice(str(error))
