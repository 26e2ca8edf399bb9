"""A page that was opened by a share link: what is shown may be read and copied, not edited."""

from __future__ import annotations

from html import escape

import streamlit as st

from db import LINK_TO_NOTHING, Link, Saved, StoreError
from planner.difference import differing_fields, flat, named
from planner.scenario import Scenario
from planner.words import labels
from planner.words.times import moment
from ui import dialogs, library, links, state
from ui.safe import md

LOOK_EVERY_S = 4.0
_ALWAYS = ("model.id", "system.id", "policy.id", "workload.batch", "workload.prompt_tokens", "workload.output_tokens")
_FAULT = "linked_fault"


def banner(saved: Saved, link: Link) -> None:
    """Says that this is a link, to what, what a person can do here, and what a link is not."""
    version = f"version {saved.version}"
    which = (
        f"{version} of {saved.newest}, always" if link.number is not None else f"the newest version, {saved.version}"
    )
    fault = st.session_state.pop(_FAULT, None)
    with st.container(border=True, gap="xsmall", key="linked-banner"):
        st.html(
            f'<p class="tl-note-line" role="status"><b>Opened by a link, to read and to copy.</b> '
            f"\u201c<bdi>{escape(saved.name)}</bdi>\u201d: {escape(which)}, saved{links.by(saved.changed_by)}, "
            f"{escape(moment(saved.updated_at))}. Fork makes a copy of your own to edit; this one stays as it is.</p>"
            f'<p class="tl-quiet">{escape(links.NO_ACCESS_CONTROL)}</p>'
        )
        if saved.note:
            st.html(f'<p class="tl-note-line tl-written"><bdi>{escape(saved.note)}</bdi></p>')
        st.button("Fork", key="fork", icon=":material/fork_right:", type="primary", on_click=_fork)
        if fault:
            st.error(md(fault), icon=":material/error:")
    _watch(link)


def inputs() -> None:
    """The sidebar of such a page: the inputs as they are, without fields."""
    scenario = state.current()
    values = flat(scenario)
    changed = [row.path for row in differing_fields((Scenario(), scenario))]
    rows = []
    for path in dict.fromkeys((*_ALWAYS, *changed)):
        label, unit = named(path)
        value = values.get(path)
        text = "as the default" if value is None else labels.choice(path, value)
        rows.append(f"<tr><th scope='row'>{escape(label)}</th><td>{escape(text[:200])} {escape(unit)}</td></tr>")
    with st.sidebar:
        st.html(
            '<p class="tl-note-line">The main inputs, and all that differ from the defaults.</p>'
            f'<table class="tl-table">{"".join(rows)}</table>'
        )


def _fork() -> None:
    saved = state.opened()
    if saved is None:
        return
    try:
        copy = library.store().fork(saved.id, saved.version, author=state.author())
    except StoreError as error:
        st.session_state[_FAULT] = str(error)
        return
    state.put(copy.scenario, copy)
    dialogs.toast(f"Copied as \u201c{copy.name}\u201d; what you change and save now is yours.")


@st.fragment(run_every=LOOK_EVERY_S, key="linked")
def _watch(link: Link) -> None:
    """Close the page soon after its link was closed; a store that does not answer changes nothing."""
    if state.linked() != link:
        return
    try:
        still = library.store().link_is_open(link.token)
    except StoreError:
        return
    if not still:
        state.put(Scenario())
        state.notice(f"{LINK_TO_NOTHING} The default scenario is shown instead.")
        st.rerun(scope="app")
