"""Inputs in which scenarios differ, as people read them, each with the group that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.compare.groups import GROUPS, group_of
from planner.compare.records import Difference
from planner.difference import differing_fields
from planner.scenario import Scenario
from planner.words import labels
from planner.words.formats import DASH, capital, shorten, trimmed


def differing(scenarios: Sequence[Scenario]) -> tuple[Difference, ...]:
    """Every input in which not all scenarios agree, in the order of the schema, with its group."""
    return tuple(
        Difference(
            path=row.path,
            label=row.label,
            unit=row.unit,
            group=capital(GROUPS[group]) if (group := group_of(row.path)) is not None else "",
            values=tuple(_words(row.path, value) for value in row.values),
        )
        for row in differing_fields(scenarios)
    )


def _words(path: str, value: Any) -> str:
    if value is None:
        return "catalog's own" if path.startswith("system.overrides.") else DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return trimmed(value)
    return shorten(labels.choice(path, value), 60)
