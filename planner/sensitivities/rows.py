"""The three analyses as rows of one table, with the scenario they belong to in every row."""

from __future__ import annotations

from collections.abc import Sequence

from planner.scenario import Scenario
from planner.sensitivities.elasticities import Elasticities
from planner.sensitivities.flips import FlipReport
from planner.sensitivities.tornado import Tornado
from planner.sweep.table import Cell

HEAD = (
    "analysis", "figure", "path", "label", "unit", "value", "low", "high", "at_low", "at_high", "elasticity",
    "flip_side", "flip_at", "flip_to", "relative", "source", "kind", "scenario",
)  # fmt: skip


def csv_rows(
    scenario: Scenario, bars: Sequence[Tornado], rows: Elasticities | None, flips: FlipReport | None
) -> tuple[list[str], list[list[Cell]]]:
    """Column names and rows. ``at_low`` and ``at_high`` are relative changes of the figure; ``relative`` says that a
    flip is told as a factor on each option's own value."""
    text = scenario.canonical_json()
    found: list[list[Cell]] = []
    for one in bars:
        for bar in one.bars:
            found.append(
                ["tornado", one.key, bar.path, bar.label, bar.unit, bar.value, bar.low, bar.high, bar.at_low,
                 bar.at_high, None, None, None, None, None, bar.source, bar.kind, text]
            )  # fmt: skip
    for row in rows.rows if rows is not None else ():
        found.append(
            ["elasticity", rows.key if rows else "", row.path, row.label, row.unit, row.value, row.low, row.high, None,
             None, row.elasticity, None, None, None, None, None, None, text]
        )  # fmt: skip
    for flip in (*flips.flips, *flips.steady) if flips is not None else ():
        found.append(
            ["flip", flips.objective if flips else "", flip.path, flip.label, flip.unit, flip.today, *flip.searched,
             None, None, None, flip.side, flip.at, flip.option_name or None, flip.relative, None, None, text]
        )  # fmt: skip
    return list(HEAD), found
