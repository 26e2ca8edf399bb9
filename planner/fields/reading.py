"""A scenario from its JSON text."""

from __future__ import annotations

from planner.fields.paths import validated
from planner.fields.tree import json_tree
from planner.scenario import Scenario

_RESULT_KEYS = {"scenario", "scenario_hash", "headline"}


def scenario_from_json(text: str | bytes) -> Scenario:
    """A scenario from its JSON, or from the JSON of a whole result (then the scenario inside it).

    Fields that are left out take their default. Raises ScenarioError, one sentence for each fault: too large
    (8 MB), not JSON, not an object, nested too deep, a name given twice, a field that is unknown, of the wrong
    type or out of bounds, a newer schema version.
    """
    data = json_tree(text, "the scenario")
    if isinstance(data, dict) and data.keys() >= _RESULT_KEYS:
        data = data["scenario"]
    return validated(data)
