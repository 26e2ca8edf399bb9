"""The ablation of context-aware placement, computed when asked for."""

from __future__ import annotations

import streamlit as st

from planner.ablation import POLICY, Ablation, AblationRow, context_ablation
from planner.result import Result
from planner.words.formats import capital, significant
from ui import tables
from ui.guard import guard
from ui.sections.common import Data, data_menu, say, section
from ui.tables import Row, Table

_KEPT = "ablation"
NOTE = (
    "Times: speed over the first row. Loss: sum of what the selector counts, so only rows with the same losses and the "
    "same hot set compare. GPU and CXL device work at the same time: where the device waits for the GPU, more tokens "
    "from HBM make a step longer, not shorter."
)


@st.fragment(key="ablation")
def show(result: Result) -> None:
    """The section; absent for other policies. A fragment: running it does not plan the page again."""
    if result.policy.id != POLICY or not result.headline.fits:
        return
    with guard("running the ablation"), section("What each mechanism gives", "ablation-part"):
        _show(result)


def _show(result: Result) -> None:
    known: Ablation | None = st.session_state.get(_KEPT)
    if known is None or known.scenario_hash != result.scenario_hash:
        place = st.empty()
        with place.container():
            st.caption("Placement only, bits only and both; alpha, K, hot sets and budgets: some 25 plans.")
            if not st.button("Run the ablation", key="run-ablation", icon=":material/science:"):
                return
        with st.spinner("Planning each variant \u2026"):
            known = context_ablation(result.scenario)
        st.session_state[_KEPT] = known
        place.empty()
    found = known
    finding = _finding(found)
    if finding:
        say(finding)
    data_menu("ablation", [Data("Ablation", "tierline-ablation.csv", None, lambda: _csv(found))])
    st.html(_table(found).html())
    st.html(f'<p class="tl-quiet">{NOTE}</p>')


def _finding(found: Ablation) -> str:
    """What placement, bits and both give, in one sentence; empty where one of them does not fit."""
    _, placement, bits, both = found.rows[:4]
    if placement.ratio is None or bits.ratio is None or both.ratio is None:
        return ""
    return (
        f"Placement alone gives {significant(placement.ratio)} times the speed of neither, bits alone "
        f"{significant(bits.ratio)} times, both {significant(both.ratio)} times."
    )


def _table(found: Ablation) -> Table:
    """Groups under headings of their own."""
    head = ["Variant", "TPOT, ms", "Times", "From HBM, % of tokens", "Mean bits", "Loss"]
    rows: list[Row] = []
    for group in dict.fromkeys(row.group for row in found.rows):
        rows.append(Row(group, [], bold=True))
        rows.extend(_row(row) for row in found.rows if row.group == group)
    return Table("Ablation of context-aware placement", head, rows, wide_notes=True, stacked=True)


def _row(row: AblationRow) -> Row:
    name = capital(row.label)
    if not row.fits:
        return Row(name, ["does not fit", "", "", "", ""], row.reason)
    hot = None if row.hot_token_share is None else 100 * row.hot_token_share
    figures = (None if row.tpot_s is None else row.tpot_s * 1e3, row.ratio, hot, row.mean_bits, row.loss)
    return Row(name, ["" if v is None else "0" if v == 0 else significant(v) for v in figures])


def _csv(found: Ablation) -> str:
    names = list(AblationRow.model_fields)
    return tables.to_csv(names, [[getattr(row, name) for name in names] for row in found.rows])
