"""Inputs in which scenarios differ, as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from planner.compare.groups import GROUPS, group_of
from planner.compare.records import Difference
from planner.difference import differing_fields
from planner.scenario import Scenario
from planner.words.formats import capital
from planner.words.values import value_words


def differing(scenarios: Sequence[Scenario]) -> tuple[Difference, ...]:
    """Every input in which not all scenarios agree, in the order of the schema, with its group."""
    rows = []
    for row in differing_fields(scenarios):
        group = group_of(row.path)
        rows.append(
            Difference(
                path=row.path,
                label=row.label,
                unit=row.unit,
                group="" if group is None else capital(GROUPS[group]),
                values=tuple(value_words(row.path, value) for value in row.values),
            )
        )
    return tuple(rows)
