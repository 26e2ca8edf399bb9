"""Inputs in which scenarios differ, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardware import path_schema
from planner.compare.groups import GROUPS, flat, group_of
from planner.compare.records import Difference
from planner.fields import fields
from planner.scenario import Scenario
from planner.words import labels
from planner.words.formats import DASH, capital, shorten, trimmed

_OVERRIDE = "system.overrides."


def differing(scenarios: Sequence[Scenario]) -> tuple[Difference, ...]:
    """Every input in which not all scenarios agree, in the order of the schema, with its group."""
    sides = [flat(scenario) for scenario in scenarios]
    paths = list(dict.fromkeys(path for side in sides for path in side))
    order = list(fields())
    rows = []
    for path in sorted(paths, key=lambda p: _place(p, order)):
        values = [side.get(path) for side in sides]
        if all(value == values[0] for value in values):
            continue
        label, unit = _label(path)
        group = group_of(path)
        rows.append(
            Difference(
                path=path,
                label=label,
                unit=unit,
                group="" if group is None else capital(GROUPS[group]),
                values=tuple(_words(path, value) for value in values),
            )
        )
    return tuple(rows)


def _place(path: str, order: list[str]) -> tuple[int, str]:
    field = path if path in order else ".".join(path.split(".")[:2])
    return (order.index(field) if field in order else len(order), path)


def _label(path: str) -> tuple[str, str]:
    if path.startswith(_OVERRIDE):
        figure = path.removeprefix(_OVERRIDE)
        spec = next((spec for spec in path_schema() if spec.path == figure), None)
        return (spec.label, spec.unit) if spec else (figure, "")
    return labels.label(path), labels.unit(path)


def _words(path: str, value: Any) -> str:
    if value is None:
        return "catalog's own" if path.startswith(_OVERRIDE) else DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return trimmed(value)
    if isinstance(value, dict):
        return "a config.json of its own"
    return shorten(labels.choice(path, value), 60)
