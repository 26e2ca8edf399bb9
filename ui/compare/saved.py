"""Comparisons of the library: keep one, open one as it was planned, or with today's engine."""

from __future__ import annotations

import streamlit as st
from pydantic import ValidationError

from db import Study
from planner.compare import Comparison
from planner.errors import PlanError
from planner.words.formats import listing, shorten
from ui import studies
from ui.safe import md

KIND, NOUN, KEY = "compare", "comparison", "compare"
_OPENED = "compare-opened"


def opened() -> tuple[str, Comparison] | None:
    """Name and record of the saved comparison that is shown instead of what is chosen."""
    found: tuple[str, Comparison] | None = st.session_state.get(_OPENED)
    return found


def from_link() -> None:
    """``?study=`` opens a saved comparison, once."""
    study = studies.of_link(KIND, KEY)
    if study is not None:
        _open(study)


def choose() -> None:
    """The list of saved comparisons; a chosen one is opened on the next run."""
    study = studies.chosen(KIND, NOUN, KEY)
    if study is not None:
        _open(study)
        st.rerun()


def keep(found: Comparison) -> None:
    """Save the comparison with all its inputs and figures."""
    called = shorten(listing([side.label for side in found.sides], "against"), 120)
    studies.keep(
        KIND, NOUN, KEY, called,
        lambda: {"sides": [{"label": s.label, "scenario_hash": s.scenario_hash} for s in found.sides]},
        lambda: found.model_dump_json().encode(),
    )  # fmt: skip


def head(name: str, found: Comparison, stamp: tuple[str, str]) -> bool:
    """What is shown and the way back; True where its scenarios are to be planned again with today's engine."""
    left, right = st.columns([0.75, 0.25], vertical_alignment="center")
    with left:
        st.markdown(f"**{md(name)}**, a saved comparison")
    with right:
        st.button("Choose scenarios", key="compare-back", icon=":material/arrow_back:", width="stretch", on_click=leave)
    if (found.engine_version, found.catalog_digest) == stamp:
        return False
    return bool(
        st.toggle(
            "Plan its scenarios again with today's engine",
            key="compare-again",
            help=f"It was planned by Tierline {md(found.engine_version)} with other data than today's.",
        )
    )


def leave() -> None:
    """Show what is chosen again."""
    st.session_state.pop(_OPENED, None)
    studies.left()


def _open(study: Study) -> None:
    try:
        st.session_state[_OPENED] = (study.name, read(study.body))
    except PlanError as error:
        st.error(md(str(error)), icon=":material/error:")


def read(body: bytes) -> Comparison:
    """The record of a stored comparison. Raises PlanError for one that this Tierline cannot read."""
    try:
        return Comparison.model_validate_json(body)
    except ValidationError:
        raise PlanError(
            "This saved comparison cannot be read: it is damaged, or another version of Tierline wrote it."
        ) from None
