"""What would make it fit: each change a whole plan of its own, with a button that applies it."""

from __future__ import annotations

import streamlit as st

from planner.fields import ScenarioError
from planner.result import Change, Result
from planner.words import findings
from planner.words.formats import DASH, dollars, gb, significant, uncapital
from planner.words.verdict import change_name
from ui import state
from ui.safe import md
from ui.sections.common import Data, say, section
from ui.tables import Row, Table

BUTTONS = 4


def show(result: Result) -> None:
    """The section; absent where no change was tried."""
    changes = [change for change in (result.memory.changes if result.memory else ()) if change.fits]
    if result.memory is None:
        return
    if not changes:
        with section("What would make it fit", "unfit"):
            say(findings.changes_finding(result))
        return
    table = _table(changes)
    with section("What would make it fit", "unfit", [Data("Changes", "tierline-changes.csv", table, table.csv)]):
        say(findings.changes_finding(result))
        st.html(table.html())
        with st.container(horizontal=True, gap="small"):
            for index, change in enumerate(changes[:BUTTONS]):
                st.button(
                    _label(change),
                    key=f"use-{index}",
                    type="primary" if index == 0 else "secondary",
                    icon=":material/arrow_forward:" if index == 0 else None,
                    on_click=_use,
                    args=(dict(change.set),),
                )


def _table(changes: list[Change]) -> Table:
    return Table(
        "Changes that make the plan fit",
        ["Change", "Memory, GB", "TPOT, s", "Output tok/s per system", "$/M output tokens"],
        [
            Row(
                change_name(change),
                [
                    DASH if change.tier_used_bytes is None or change.tier_capacity_bytes is None
                    else f"{gb(change.tier_used_bytes)} of {gb(change.tier_capacity_bytes)}",
                    DASH if change.tpot_s is None else significant(change.tpot_s),
                    DASH if change.tokens_per_s_system is None else significant(change.tokens_per_s_system),
                    DASH if change.usd_per_million_output_tokens is None
                    else dollars(change.usd_per_million_output_tokens).lstrip("$"),
                ],
            )
            for change in changes
        ],
    )  # fmt: skip


def _label(change: Change) -> str:
    first = change_name(change).split(" instead")[0].replace("Policy: ", "policy ")
    return md(f"Use {uncapital(first)}")


def _use(changes: dict[str, object]) -> None:
    """Apply a change; the inputs on the left follow."""
    try:
        state.change(changes)
    except ScenarioError as error:
        state.notice(f"The change could not be applied: {error}")
