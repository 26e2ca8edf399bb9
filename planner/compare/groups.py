"""Groups of inputs that explain a delta, and scenarios that take some groups from one side and some from the other.

The groups are what people argue about in a meeting: the model, where experts live, at which precision, on which
machine, under which load and routing, at which prices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Literal

from planner.difference import changed_paths
from planner.fields import validated
from planner.scenario import Scenario
from planner.words.formats import capital, listing

Group = Literal["model", "policy", "precision", "hardware", "workload", "routing", "prices"]

GROUPS: dict[Group, str] = {
    "model": "model",
    "policy": "placement and policy",
    "precision": "precision",
    "hardware": "hardware figures",
    "workload": "workload",
    "routing": "routing",
    "prices": "prices",
}
"""Group -> its name, in the order in which they are listed."""

_SHORT: dict[Group, str] = {"policy": "policy", "hardware": "hardware"}  # inside the name of a union

_SECTIONS: dict[str, Group] = {
    "model": "model",
    "system": "hardware",
    "workload": "workload",
    "routing": "routing",
    "policy": "policy",
    "economics": "prices",
}
_PRECISION = ("model.weight_format", "model.kv_format", "policy.weight_bits", "policy.expert_format")
_SHOWN_ONLY = ("workload.preset", "schema_version")  # no figure depends on them
_OVERRIDES = "system.overrides"


def group_of(path: str) -> Group | None:
    """The group of a field by its path (entries of overrides and options too); None for what moves no figure."""
    if path in _SHOWN_ONLY:
        return None
    if path in _PRECISION:
        return "precision"
    if path.startswith(f"{_OVERRIDES}.") and "_usd" in path.rpartition(".")[2]:
        return "prices"
    return _SECTIONS.get(path.partition(".")[0])


def differing_groups(first: Scenario, second: Scenario) -> tuple[Group, ...]:
    """Groups in which two scenarios differ, in the order of :data:`GROUPS`."""
    found = {group_of(path) for path in changed_paths(first, second)}
    return tuple(group for group in GROUPS if group in found)


def mixed(base: Scenario, other: Scenario, taken: Collection[Group]) -> Scenario:
    """``base`` with the groups in ``taken`` as ``other`` has them. Raises ScenarioError where they contradict."""
    sides = (base.model_dump(), other.model_dump())
    data: dict[str, Any] = {}
    for section, part in sides[0].items():
        if not isinstance(part, dict):
            data[section] = part
            continue
        data[section] = {}
        for name in part:
            path = f"{section}.{name}"
            if path == _OVERRIDES:
                data[section][name] = _entries(sides[0][section][name], sides[1][section][name], taken)
            else:
                group = group_of(path) or _SECTIONS.get(section)
                data[section][name] = sides[group in taken][section][name]
    return validated(data)


def union_name(groups: Iterable[Group]) -> str:
    """The name of one group, or of several that only make sense together."""
    members = [group for group in GROUPS if group in set(groups)]
    if len(members) == 1:
        return capital(GROUPS[members[0]])
    if set(members) == {"policy", "hardware"}:
        return "Policy and the hardware it needs"
    if set(members) == {"policy", "precision"}:
        return "Policy and the precision it takes"
    return capital(listing([_SHORT.get(group, GROUPS[group]) for group in members])) + ", together"


def _entries(ours: dict[str, Any], theirs: dict[str, Any], taken: Collection[Group]) -> dict[str, Any]:
    """Edited figures: prices belong to one group, all other figures to another."""
    found = {}
    for key in sorted({*ours, *theirs}):
        side = theirs if group_of(f"{_OVERRIDES}.{key}") in taken else ours
        if key in side:
            found[key] = side[key]
    return found
