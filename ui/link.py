"""The address of the page: it always says what is shown, so that copying it reproduces it.

``?s=`` carries a whole unsaved scenario; ``?scenario=`` names a saved one by its share token; both together are a
saved one with unsaved edits. Streamlit drops parameters on a page switch, so they are written on every run.
"""

from __future__ import annotations

import time
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from db import LINK_TO_NOTHING, StoreError
from planner.scenario import Scenario
from ui import address, library, state

WHOLE = "s"
SAVED = "scenario"
_WRITTEN = "address_written"
_WRITTEN_AT = "address_written_at"
_PAGE = "address_page"
# A browser may still send the address from before the last change while that change is on its way to it.
SETTLE_S = 1.5

Pair = tuple[str | None, str | None]


def sync(page: str) -> None:
    """Follow the address where a person changed it (a link, Back), else write what is shown into it."""
    seen: Pair = (st.query_params.get(WHOLE), st.query_params.get(SAVED))
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


def _adopt(seen: Pair) -> None:
    whole, token = seen
    problems: list[str] = []
    saved = None
    if token is not None:
        try:
            saved = library.store().get_by_token(token)
            if saved is None:
                problems.append(LINK_TO_NOTHING)
        except StoreError as error:
            problems.append(str(error))
    scenario = saved.scenario if saved is not None else None
    if whole is not None:
        try:
            scenario = address.decode(whole)
        except address.AddressError as error:
            problems.append(str(error))
    if scenario is not None:
        state.put(scenario, saved)
        state.take_touched()
    if problems:
        if saved is not None:
            kept = "The saved scenario is shown instead."
        elif state.current() == Scenario():
            kept = "The default scenario is shown instead."
        else:
            kept = "The scenario from before stays."
        state.notice(" ".join([*problems, kept]))


def wanted() -> Pair:
    """The parameters that reproduce what is shown; without the whole scenario where it is too large for one."""
    saved = state.opened()
    token = saved.token if saved is not None else None
    if saved is not None and not state.edited():
        return None, token
    return whole(), token


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


def _write(seen: Pair) -> None:
    pair = wanted()
    if pair != seen:
        params = {name: text for name, text in zip((WHOLE, SAVED), pair, strict=True) if text is not None}
        st.query_params.from_dict(params)
        st.session_state[_WRITTEN_AT] = time.monotonic()
    elif _WRITTEN_AT not in st.session_state:
        st.session_state[_WRITTEN_AT] = time.monotonic()
    st.session_state[_WRITTEN] = pair


def page_address(**params: str) -> str:
    """The Plan page's full address with these parameters, as a person copies it."""
    base = urlsplit(st.context.url or "http://localhost:8501/")
    path = base.path if base.path.endswith("/") else base.path.rsplit("/", 1)[0] + "/"
    return urlunsplit((base.scheme, base.netloc, path, urlencode(params), ""))
