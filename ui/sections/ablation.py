"""The ablation of context-aware placement, computed when asked for."""

from __future__ import annotations

import streamlit as st

from planner.ablation import POLICY, Ablation, AblationRow, context_ablation
from planner.result import Result
from planner.words.formats import significant
from ui.sections.common import section
from ui.tables import Row, Table

_KEPT = "ablation"


@st.fragment(key="ablation")
def show(result: Result) -> None:
    """The section; absent for other policies. A fragment: running it does not plan the page again."""
    if result.policy.id != POLICY or not result.headline.fits:
        return
    with section("What each mechanism gives", "ablation-part"):
        known = st.session_state.get(_KEPT)
        if known is None or known.scenario_hash != result.scenario_hash:
            st.caption("Placement only, bits only and both; alpha, K, hot sets and budgets: some 25 plans.")
            if not st.button("Run the ablation", key="run-ablation", icon=":material/science:"):
                return
            with st.spinner("Planning each variant …"):
                known = context_ablation(result.scenario)
            st.session_state[_KEPT] = known
        st.html(_table(known).html())


def _table(found: Ablation) -> Table:
    head = ["Variant", "TPOT, ms", "Ratio", "Tokens from HBM", "Mean bits"]
    return Table("Ablation of context-aware placement", head, [_row(row) for row in found.rows])


def _row(row: AblationRow) -> Row:
    if not row.fits:
        return Row(f"{row.group}: {row.label}", ["does not fit", "", "", ""])
    figures = (None if row.tpot_s is None else row.tpot_s * 1e3, row.ratio, row.hot_token_share, row.mean_bits)
    return Row(f"{row.group}: {row.label}", ["" if v is None else significant(v) for v in figures])
