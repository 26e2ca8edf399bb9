"""The links of a saved scenario: make one to this version or to the newest, copy, close."""

from __future__ import annotations

from html import escape

import streamlit as st

from db import Link, Saved, StoreError
from planner.words.times import moment
from ui import library, link, state
from ui.safe import md

NO_ACCESS_CONTROL = (
    "Until there are logins this is no access control: a link cannot be guessed, but whoever has it, and reaches this "
    "server, opens it."
)


def who(author: str) -> str:
    """The name that somebody gave, or that nobody gave one."""
    return author or "somebody without a name"


def by(author: str) -> str:
    """ " by NAME" as HTML, nothing where nobody gave a name."""
    return f" by <bdi>{escape(author)}</bdi>" if author else ""


def show(saved: Saved, author: str) -> None:
    """Buttons for a new link, and every open link with its address and a button that closes it."""
    fault: str | None = None
    with st.container(horizontal=True, gap="small"):
        fixed = st.button(
            f"Link to version {saved.version}", key="link-fixed", icon=":material/lock_clock:",
            help="Always opens this version, whatever is saved later: for minutes and decisions.",
        )  # fmt: skip
        latest = st.button(
            "Link to the newest", key="link-latest", icon=":material/update:",
            help="Opens whichever version is the newest then.",
        )  # fmt: skip
    try:
        if fixed or latest:
            library.store().create_link(saved.id, saved.version if fixed else None, author=author)
            state.call_author(author)
        for each in library.store().links(saved.id):
            if each.revoked_at is None:
                _entry(each)
    except StoreError as error:
        fault = str(error)
    if fault:
        st.error(md(fault), icon=":material/error:")
    st.html(f'<p class="tl-quiet">{escape(NO_ACCESS_CONTROL)}</p>')


def _entry(each: Link) -> None:
    what = "the newest version" if each.number is None else f"version {each.number}, always"
    with st.container(gap="xsmall", key=f"link-{each.id}"):
        st.html(
            f'<p class="tl-note-line">Opens <b>{escape(what)}</b>; made{by(each.author)}, '
            f"{escape(moment(each.created_at))}.</p>"
        )
        left, right = st.columns([0.78, 0.22], vertical_alignment="center", gap="small")
        with left:
            st.code(link.page_address(scenario=each.token), language=None, wrap_lines=True)
        with right:
            st.button(
                "Close", key=f"revoke-{each.id}", icon=":material/link_off:", on_click=_revoke, args=(each.id,),
                help="Whoever opens it from now on is told that it leads nowhere. This cannot be undone.",
            )  # fmt: skip


def _revoke(link_id: str) -> None:
    try:
        library.store().revoke_link(link_id)
    except StoreError as error:
        state.notice(str(error))
