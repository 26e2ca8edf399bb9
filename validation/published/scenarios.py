"""The scenarios behind the claims: named, as data, each a change of another or of the default scenario.

``scenarios.json`` maps a name to ``from`` (another name), ``calibration`` (inherited) and ``set`` (nested fields of a
scenario). The order of precedence: the default scenario, the calibration, ``set`` from the oldest ancestor to the
scenario itself, then the changes of a claim.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planner.scenario import Scenario
from validation.published.calibrations import calibration, patch

FILE = Path(__file__).parent / "scenarios.json"
Change = Mapping[str, Any]


@dataclass(frozen=True)
class Setup:
    """A scenario, the options of a simulation over steps that its calibration sets, and the calibration's id."""

    scenario: Scenario
    simulation: Mapping[str, Any]
    calibration: str | None


@cache
def table() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def merged(base: Mapping[str, Any], *changes: Change) -> dict[str, Any]:
    """``base`` with nested ``changes`` on top, the later ones winning; nothing given is altered."""
    result = dict(base)
    for change in changes:
        for key, value in change.items():
            below = result.get(key)
            result[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def setup(name: str, changes: Sequence[Change] = ()) -> Setup:
    """The scenario of that name with ``changes`` on top. Raises KeyError for an unknown name."""
    chain: list[Change] = []
    using: str | None = None
    at: str | None = name
    while at is not None:
        if at not in table():
            raise KeyError(f"there is no scenario {at!r} in {FILE.name}")
        entry = table()[at]
        chain.insert(0, entry.get("set", {}))
        using = using or entry.get("calibration")
        at = entry.get("from")
    own = merged({}, *chain, *changes)
    simulation: Mapping[str, Any] = {}
    if using is not None:
        constants = patch(calibration(using), own.get("policy", {}).get("id", ""))
        simulation = constants.pop("simulation", {})
        own = merged(constants, own)
    return Setup(Scenario.model_validate(own), simulation, using)
