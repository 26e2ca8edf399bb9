"""The Policies page: what every policy places, moves and overlaps, and which one is best for the open scenario."""

from __future__ import annotations

import streamlit as st

from planner.best import DEFAULT_METRIC, METRICS, Ranking, rank
from planner.policies import catalog, get
from planner.policies.places import PLACES
from planner.words.formats import capital, significant, trimmed
from planner.words.names import BOUNDS, HEADLINE
from ui import state
from ui.guard import guard
from ui.safe import md
from ui.sections.common import Data, say, section
from ui.tables import Row, Table

_RANKING = "ranking"


def run() -> None:
    """One run of the page."""
    st.title("Policies", anchor=False)
    with guard("ranking the policies"):
        _best()
    with guard("listing the policies"):
        _all()


def _best() -> None:
    scenario = state.current()
    with section("Best for the open scenario", "best"):
        where = f"{scenario.model.id} on {scenario.system.id}, batch {scenario.workload.batch:,}"
        st.caption(md(f"{where}. Each policy runs with its own defaults through the same engine."))
        left, right = st.columns([0.6, 0.4], vertical_alignment="bottom")
        with left:
            metric = st.selectbox(
                "Rank on", list(METRICS), index=list(METRICS).index(DEFAULT_METRIC), format_func=_metric, key="rank-on"
            )
        with right:
            asked = st.button("Rank all policies", key="rank", type="primary", icon=":material/leaderboard:")
        key = (scenario.content_hash(), metric)
        if asked:
            with st.spinner("Planning under every policy …"):
                st.session_state[_RANKING] = (key, rank(scenario, metric))
        known = st.session_state.get(_RANKING)
        if known is not None and known[0] == key:
            _ranking(known[1])


def _metric(name: str) -> str:
    return capital(HEADLINE.get(name, (name, ""))[0])


def _ranking(found: Ranking) -> None:
    say(found.why)
    rows = []
    for row in found.rows:
        if row.value is None:
            rows.append(Row(row.name, ["", "", ""], row.reason))
            continue
        cells = [significant(row.value), trimmed(row.ratio or 1.0, 3), BOUNDS.get(row.bound_by or "", "")]
        rows.append(Row(row.name, cells, bold=row.ratio == 1.0))
    head = ["Policy", _metric(found.metric), "Times the best", "Waits for"]
    st.html(Table(f"Policies ranked on {_metric(found.metric)}", head, rows, wide_notes=True).html())


def _all() -> None:
    rows = [_row(entry.id) for entry in catalog()]
    # One column of words: four columns of sentences do not fit a phone.
    table = Table("All policies", ["Policy"], rows, wide_notes=True)
    with section("All policies", "policies", [Data("Policies", "tierline-policies.csv", None, table.csv)]):
        say("Where weights and KV cache live, what moves, what overlaps, and what is assumed where sources are silent.")
        st.html(table.html())


def _row(policy_id: str) -> Row:
    policy = get(policy_id)
    places = PLACES[policy_id]
    told = [
        f"Weights: {places.weights}.",
        f"KV cache: {places.kv}.",
        f"Moves: {places.moves}.",
        f"Overlaps: {places.overlaps}.",
        *(["Assumed or noted: " + " ".join(policy.notes)] if policy.notes else []),
        f"Source: {policy.source}.",
    ]
    return Row(f"{policy.name} ({policy.id})", [], " ".join(told))
