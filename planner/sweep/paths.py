"""From the values of the axes to a scenario, and what is refused at the door."""

from __future__ import annotations

from collections.abc import Sequence

from planner.best import variant
from planner.errors import unknown
from planner.fields import ScenarioError, field_for, get_path, set_paths, shown
from planner.fields.explain import unknown_path
from planner.scenario import Scenario
from planner.sweep.about import OVERRIDES, figure_of, figures, is_number
from planner.sweep.design import SweepError, SweepSpec, Value

SYSTEM, MODEL, POLICY = "system.id", "model.id", "policy.id"
# Set before all others, in this order: each takes back what only made sense with the one before it.
FIRST = (SYSTEM, MODEL, POLICY)
FRESH: dict[str, object] = {
    "system.overrides": {},
    **dict.fromkeys(("system.gpu", "system.cpu", "system.dimm", "system.chassis", "system.measured")),
}


def check(spec: SweepSpec) -> None:
    """Refuse what no point of the sweep could take: an unknown field, or a value outside its bounds.

    Raises SweepError or ScenarioError, one sentence with the nearest known field.
    """
    for axis in spec.axes:
        path = axis.path
        if path.startswith(OVERRIDES) and figure_of(path) is None:
            raise SweepError(unknown("system.overrides", path.removeprefix(OVERRIDES), figures()))
        found = field_for(path)
        if found is None:
            raise ScenarioError(unknown_path(path), [path])
        if found[0].kind in ("object", "numbers", "options", "version") and found[1] is None:
            raise SweepError(f"{path} cannot be an axis: it is no single value; name one entry of it.")
        if axis.values is None and not is_number(path) and found[1] is None:
            raise SweepError(f"{path} takes no numbers; list its values instead of a span.")
        figure = figure_of(path)
        for value in axis.ends:
            if figure is not None and isinstance(value, (int, float)) and not figure.lower <= value <= figure.upper:
                raise SweepError(
                    f"{path} is {shown(value)}; it takes {figure.lower:g} to {figure.upper:g} {figure.unit}".rstrip()
                    + "."
                )
            _check_value(spec.base, path, value)
            if isinstance(value, (bool, str)) and is_number(path):
                raise SweepError(f"{path} is {shown(value)}; it takes a number, without quotes.")


def _check_value(base: Scenario, path: str, value: Value) -> None:
    """What is wrong with the value alone; what only clashes with other fields is told at its points."""
    try:
        set_paths(base, {path: value})
    except ScenarioError as error:
        if path in error.paths:
            raise


def scenario_at(base: Scenario, paths: Sequence[str], values: Sequence[Value]) -> Scenario:
    """The base with the axes' values set. Raises ScenarioError where they do not go together.

    Another policy runs with its own defaults, as everywhere where policies are compared; another system is taken as
    the catalog has it, without the base's edits of figures; another model without the base's pasted config.
    """
    chosen = dict(zip(paths, values, strict=True))
    scenario = base
    for path in FIRST:
        if path not in chosen:
            continue
        value = chosen.pop(path)
        if value == get_path(scenario, path):
            continue
        if path == POLICY:
            scenario = variant(scenario, str(value))
        elif path == MODEL:
            scenario = set_paths(scenario, {path: value, "model.config": None})
        else:
            scenario = set_paths(scenario, {path: value, **FRESH})
    if "workload.requests_per_s" in chosen and scenario.workload.output_tokens_per_day is not None:
        chosen = {"workload.output_tokens_per_day": None, **chosen}  # two ways to state one load
    elif "workload.output_tokens_per_day" in chosen and scenario.workload.requests_per_s is not None:
        chosen = {"workload.requests_per_s": None, **chosen}
    return set_paths(scenario, chosen) if chosen else scenario
