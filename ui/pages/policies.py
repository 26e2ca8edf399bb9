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
    head = ["Policy", "Weights live", "KV cache lives", "Moves", "Overlaps"]
    table = Table("All policies", head, rows, wide_notes=True, words=True)
    with section("All policies", "policies", [Data("Policies", "tierline-policies.csv", None, table.csv)]):
        say("Where weights and KV cache live, what moves, what overlaps; source and assumptions unfold under each.")
        st.html(table.html())


def _row(policy_id: str) -> Row:
    """One policy: four short cells, and under them its source, which unfolds into what is assumed."""
    policy = get(policy_id)
    places = PLACES[policy_id]
    cells = [capital(text) for text in (places.weights, places.kv, places.moves, places.overlaps)]
    assumed = policy.notes or ("nothing of its own; what figures rest on is listed with each plan.",)
    return Row(
        f"{policy.name} ({policy.id})",
        cells,
        f"Source: {policy.source}",
        more=[policy.sentence, *(f"Assumed or noted: {note}" for note in assumed)],
    )
