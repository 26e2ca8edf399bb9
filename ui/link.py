"""The address of the page: it always says what is shown, so that copying it reproduces it.

``?s=`` carries a whole unsaved scenario. ``?saved=`` names a scenario of the library by its id, and an older version
by ``.`` and its number; with ``?s=`` it is that version with unsaved edits. ``?scenario=`` is a share link: its token,
which opens to be read and copied, not to be edited. Streamlit drops parameters on a page switch, so they are written on
every run.
"""

from __future__ import annotations

import re
import time
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from db import LINK_TO_NOTHING, Link, Saved, StoreError
from planner.scenario import Scenario
from ui import address, library, state

WHOLE = "s"
SAVED = "saved"
LINK = "scenario"
_NAMES = (WHOLE, SAVED, LINK)
_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.([1-9]\d{0,8}))?")
_WRITTEN = "address_written"
_WRITTEN_AT = "address_written_at"
_PAGE = "address_page"
NOT_IN_LIBRARY = (
    "This address names no scenario of this library: it was archived, it belongs to another store, or the address is "
    "incomplete."
)
# A browser may still send the address from before the last change while that change is on its way to it.
SETTLE_S = 1.5

STUDY = "study"
Parts = tuple[str | None, str | None, str | None]


def sync(page: str) -> None:
    """Follow the address where a person changed it (a link, Back), else write what is shown into it."""
    seen: Parts = tuple(st.query_params.get(name) for name in _NAMES)  # type: ignore[assignment]
    store = st.session_state
    touched = state.take_touched()
    if _WRITTEN not in store:
        _adopt(seen)
    elif seen != store[_WRITTEN] and any(seen) and not touched:
        settled = time.monotonic() - store[_WRITTEN_AT] > SETTLE_S
        if settled or store.get(_PAGE) != page:
            _adopt(seen)
    store[_PAGE] = page
    _write(seen)


def _adopt(seen: Parts) -> None:
    whole, named, token = seen
    problems: list[str] = []
    saved: Saved | None = None
    link: Link | None = None
    try:
        if token is not None:
            opened = library.store().open_link(token)
            if opened is None:
                problems.append(LINK_TO_NOTHING)
            else:
                saved, link = opened
        elif named is not None:
            saved = _of_library(named)
            if saved is None:
                problems.append(NOT_IN_LIBRARY)
    except StoreError as error:
        problems.append(str(error))
    scenario = saved.scenario if saved is not None else None
    if whole is not None:
        try:
            scenario = address.decode(whole)
            if link is not None and saved is not None and scenario != saved.scenario:
                saved = link = None  # edits of a linked scenario are a plan of one's own that is not saved yet
        except address.AddressError as error:
            problems.append(str(error))
    if scenario is not None:
        state.put(scenario, saved, link)
        state.take_touched()
    if problems:
        if saved is not None:
            kept = "The saved scenario is shown instead."
        elif state.current() == Scenario():
            kept = "The default scenario is shown instead."
        else:
            kept = "The scenario from before stays."
        state.notice(" ".join([*problems, kept]))


def _of_library(named: str) -> Saved | None:
    match = _ID.fullmatch(named)
    if match is None:
        return None
    store = library.store()
    return store.get(match[1]) if match[2] is None else store.get_version(match[1], int(match[2]))


def wanted() -> Parts:
    """The parameters that reproduce what is shown; without the whole scenario where it is too large for one."""
    saved, link = state.opened(), state.linked()
    if saved is None:
        return whole(), None, None
    if link is not None:
        return None, None, link.token
    if state.edited():
        return whole(), f"{saved.id}.{saved.version}", None
    return None, name_of(saved), None


def name_of(saved: Saved) -> str:
    """A scenario of the library as the address names it: its newest version by the id alone."""
    return saved.id if saved.version == saved.newest else f"{saved.id}.{saved.version}"


def whole() -> str | None:
    """The current scenario as one parameter; None where it is too large."""
    if address.too_large(state.current()) is not None:
        return None
    return address.encode(state.current())


def too_large() -> str | None:
    """Why the address cannot carry the current scenario; None where it can, or where it is a saved one."""
    if state.opened() is not None and not state.edited():
        return None
    return address.too_large(state.current())


def _write(seen: Parts) -> None:
    parts = wanted()
    if parts != seen:
        params = {name: text for name, text in zip(_NAMES, parts, strict=True) if text is not None}
        if STUDY in st.query_params:  # what the Explore page opens; it goes with the page
            params[STUDY] = st.query_params[STUDY]
        st.query_params.from_dict(params)
        st.session_state[_WRITTEN_AT] = time.monotonic()
    elif _WRITTEN_AT not in st.session_state:
        st.session_state[_WRITTEN_AT] = time.monotonic()
    st.session_state[_WRITTEN] = parts


def page_address(**params: str) -> str:
    """The Plan page's full address with these parameters, as a person copies it."""
    base = urlsplit(st.context.url or "http://localhost:8501/")
    path = base.path if base.path.endswith("/") else base.path.rsplit("/", 1)[0] + "/"
    return urlunsplit((base.scheme, base.netloc, path, urlencode(params), ""))
