"""Two people at one scenario: the page that is open notices within seconds that the other one saved."""

from __future__ import annotations

from html import escape

import streamlit as st

from db import Saved, StoreError, Version
from planner.words.formats import capital
from planner.words.times import moment
from ui import library, links, state
from ui.safe import undirected

LOOK_EVERY_S = 3.0
_SEEN = "versions_seen"


def show(saved: Saved) -> None:
    """Watch the scenario that is open. Nothing is shown until somebody saves."""
    _watch(saved.id, saved.version)


@st.fragment(run_every=LOOK_EVERY_S, key="watch")
def _watch(scenario_id: str, version: int) -> None:
    try:
        newer = library.store().newer_than(scenario_id, version)
    except StoreError:
        return  # what is shown stays right, and the next save says what is wrong with the store
    seen: int = st.session_state.get(_SEEN, {}).get(scenario_id, 0)
    newer = tuple(each for each in newer if each.number > seen)
    if not newer:
        return
    last = newer[-1]
    with st.container(border=True, gap="xsmall", key="newer"):
        st.html(f'<p class="tl-note-line" role="status">{escape(undirected(_sentence(newer, version)))}</p>')
        with st.container(horizontal=True, gap="small"):
            if st.button("Open theirs", key="open-theirs", icon=":material/open_in_new:"):
                _open(scenario_id, last.number)
                st.rerun(scope="app")
            if st.button("Difference", key="difference-theirs", icon=":material/difference:"):
                st.session_state["library_room"] = scenario_id
                st.session_state["difference_pair"] = ((scenario_id, version), (scenario_id, last.number))
                st.switch_page(st.session_state["pages"]["scenarios"])
            if st.button("Keep mine open", key="keep-mine", type="tertiary"):
                st.session_state[_SEEN] = {**st.session_state.get(_SEEN, {}), scenario_id: last.number}
                st.rerun(scope="app")


def _sentence(newer: tuple[Version, ...], version: int) -> str:
    last = newer[-1]
    sibling = last.parent_number is not None and last.parent_number < version
    start = f" from version {last.parent_number}, beside your version {version}" if sibling else ""
    more = f", the last of {len(newer)} newer versions" if len(newer) > 1 else ""
    unsaved = " Your unsaved edits are kept: saving them makes a version beside it." if state.edited() else ""
    who = last.author or capital(links.who(""))
    return (
        f"{who} saved version {last.number}{start}{more}, {moment(last.created_at)}. Nothing was overwritten.{unsaved}"
    )


def _open(scenario_id: str, number: int) -> None:
    try:
        theirs = library.store().get_version(scenario_id, number)
    except StoreError as error:
        state.notice(str(error))
        return
    if theirs is not None:
        state.put(theirs.scenario, theirs)
