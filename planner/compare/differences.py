"""Inputs in which scenarios differ, as people read them, each with the group that it belongs to."""

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
    return tuple(
        Difference(
            path=row.path,
            label=row.label,
            unit=row.unit,
            group=capital(GROUPS[group]) if (group := group_of(row.path)) is not None else "",
            values=tuple(value_words(row.path, value) for value in row.values),
        )
        for row in differing_fields(scenarios)
    )
