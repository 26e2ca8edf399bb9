"""The named calibrations: constants of one paper, what each was fitted on, and the part of a scenario that they set.

A calibration acts only where a scenario of :mod:`validation.published.scenarios` names it, and only through fields
that every scenario has. Kinds of constants: ``fitted`` (to the claims or data named), ``selected`` (a discrete choice
made with the published figures in view), ``stated`` (in the paper or a note on it), ``assumed``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "calibrations"


@dataclass(frozen=True)
class Constant:
    """One constant. ``path`` leads into a scenario, or from "simulation" to an option of planner.layout."""

    name: str
    path: tuple[str, ...]  # empty: a choice that is no single field
    value: float | str
    unit: str
    kind: str
    fitted_on: tuple[str, ...]  # ids of claims, or the name of a table of ``data``
    note: str
    policies: tuple[str, ...]  # ids of policies that it is for; empty = all


@dataclass(frozen=True)
class Calibration:
    id: str
    name: str
    paper: str
    sentence: str
    constants: tuple[Constant, ...]
    selected: tuple[str, ...]  # discrete choices, in words
    data: dict[str, Any]  # published or recorded tables that constants were fitted on

    def fitted_on(self) -> frozenset[str]:
        """Everything that any constant was fitted on."""
        return frozenset(name for constant in self.constants for name in constant.fitted_on)

    def values(self) -> dict[str, float]:
        """Fitted constants by name."""
        return {c.name: float(c.value) for c in self.constants if c.kind == "fitted"}


def identifiers() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


@cache
def calibration(name: str) -> Calibration:
    """The calibration of that id. Raises KeyError for an unknown one."""
    path = FOLDER / f"{name}.json"
    if name not in identifiers():
        raise KeyError(f"there is no calibration {name!r}; there are {', '.join(identifiers())}")
    found = json.loads(path.read_text(encoding="utf-8"))
    constants = tuple(
        Constant(
            name=c["name"],
            path=tuple(c["path"]),
            value=c["value"],
            unit=c["unit"],
            kind=c["kind"],
            fitted_on=tuple(c.get("fitted_on", ())),
            note=c["note"],
            policies=tuple(c.get("policies", ())),
        )
        for c in found["constants"]
    )
    return Calibration(
        id=name,
        name=found["name"],
        paper=found["paper"],
        sentence=found["sentence"],
        constants=constants,
        selected=tuple(found["selected"]),
        data=found["data"],
    )


def patch(using: Calibration, policy: str) -> dict[str, Any]:
    """What the calibration sets, nested as a scenario is (and "simulation"), for a plan with ``policy``."""
    changes: dict[str, Any] = {}
    for constant in using.constants:
        if not constant.path or (constant.policies and policy not in constant.policies):
            continue
        inner = changes
        for step in constant.path[:-1]:
            inner = inner.setdefault(step, {})
        inner[constant.path[-1]] = constant.value
    return changes
