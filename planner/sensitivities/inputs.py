"""The numeric inputs of a plan: figures of its machine that it used, and fields of its scenario."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.fields import ScenarioError, field_for, get_path, set_paths
from planner.fields.explain import unknown_path
from planner.ranges import ranged
from planner.scenario import Scenario
from planner.sensitivity import SAME_SILICON, UNITS
from planner.sweep.about import OVERRIDES, bounds, figure_of, is_number, is_whole, label, unit
from planner.words import units
from planner.words.formats import trimmed

PRICES = ("premium_usd", "rent_usd_per_hour")
# Fields of a scenario that a person would doubt, where they have a value.
FIELDS = (
    "workload.batch",
    "workload.prompt_tokens",
    "workload.output_tokens",
    "workload.prefix_hit_share",
    "workload.draft_acceptance",
    "workload.requests_per_s",
    "workload.output_tokens_per_day",
    "workload.target_utilisation",
    "routing.sigma",
    "routing.locality",
    "policy.weight_bits",
    "economics.life_years",
    "economics.busy_share",
    "economics.electricity_usd_per_kwh",
    "economics.pue",
    "economics.rent_usd_per_hour",
    "economics.other_usd_per_month",
)


@dataclass(frozen=True)
class Input:
    """One numeric input: its path, name, unit and value in the plan, and the bounds of what its field takes."""

    path: str
    label: str
    unit: str
    value: float
    whole: bool
    low: float
    high: float

    def shown(self, value: float) -> str:
        """A value of this input as people read it, with its unit."""
        return shown(self.path, self.unit, value)


def shown(path: str, unit: str, value: float) -> str:
    """A value of a field as people read it, with its unit: ``3.35 TB/s``, ``$11/GB``, ``0.5``."""
    if figure_of(path) is not None:
        return units.shown(value, unit, path.removeprefix(OVERRIDES))
    if unit.startswith("USD"):
        return f"${trimmed(value)}{unit.removeprefix('USD')}"
    plain = unit in ("", "share", "bit") or unit.startswith(("share", "probability", "standard deviation"))
    return f"{trimmed(value)}{'' if plain and unit != 'bit' else chr(0xA0) + unit}"


def inputs(scenario: Scenario, paths: Iterable[str] | None = None) -> tuple[Input, ...]:
    """The inputs of these paths, or by default: figures with a range, the main resources, prices and edits that the
    plan uses, and the fields of :data:`FIELDS` that have a value.

    A path is one of ``--set``; a figure may be named without ``system.overrides.``. Raises PlanError for one that is
    no numeric field, or that has no value here.
    """
    return Inputs(scenario).chosen(paths)


class Inputs:
    """The inputs of one scenario, evaluated once: which there are, their values, and the scenario with one changed."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._found = evaluate(scenario)

    def chosen(self, paths: Iterable[str] | None = None) -> tuple[Input, ...]:
        """As :func:`inputs`."""
        if paths is not None:
            return tuple(self._asked(whole_path(path)) for path in dict.fromkeys(paths))
        found = [self.get(path) for path in (*self._figures(), *FIELDS)]
        return tuple(one for one in found if one is not None and self._matters(one.path))

    def get(self, path: str) -> Input | None:
        """One input; None where it has no value."""
        figure = figure_of(path)
        if figure is not None:
            value = self._found.ctx.machine.figures.system.get(figure.path)
        else:
            stated = get_path(self.scenario, path)
            value = None if stated is None or isinstance(stated, (bool, str)) else float(stated)
        if value is None:
            return None
        low, high = bounds(path)
        return Input(path, label(path), unit(path), float(value), is_whole(path), low, high)

    def used(self, path: str) -> float | None:
        """The value of an input that the plan used; None where it has none or does without."""
        figure = figure_of(path)
        if figure is not None and figure.path not in self._found.ctx.machine.figures.used:
            return None
        one = self.get(path)
        return None if one is None else one.value

    def changed(self, path: str, value: float) -> Scenario:
        """The scenario with one input set; all number formats of a GPU's silicon move together. Raises PlanError."""
        changes: dict[str, object] = {path: round(value) if is_whole(path) else value}
        if path == OVERRIDES + SAME_SILICON[0]:
            system = self._found.ctx.machine.figures.system
            before = system.get(SAME_SILICON[0])
            for other in SAME_SILICON[1:]:
                rate = system.get(other)
                if rate and before:
                    changes[OVERRIDES + other] = min(rate * value / before, bounds(OVERRIDES + other)[1])
        return set_paths(self.scenario, changes)

    def _matters(self, path: str) -> bool:
        scenario = self.scenario
        generated = scenario.routing.source == "generated"
        load = scenario.workload.requests_per_s is not None or scenario.workload.output_tokens_per_day is not None
        return {
            "workload.draft_acceptance": scenario.workload.draft_tokens > 0,
            "workload.target_utilisation": load,
            "routing.sigma": generated,
            "routing.locality": generated and self._found.policy.ordered,
        }.get(path, True)

    def _figures(self) -> Sequence[str]:
        """Figures with a range, resources of the marginal values, prices and edits, as far as the plan used them."""
        figures = self._found.ctx.machine.figures
        resources = [path for path, _, _ in UNITS if path in figures.used]
        prices = [path for path in figures.used if path.endswith(PRICES) or ".price_usd" in path]
        edited = [path for path in figures.system.edited if path in figures.used]
        return [OVERRIDES + path for path in dict.fromkeys([*resources, *ranged(self._found), *prices, *edited])]

    def _asked(self, path: str) -> Input:
        if field_for(path) is None or (path.startswith(OVERRIDES) and figure_of(path) is None):
            raise ScenarioError(unknown_path(path), [path])
        if not is_number(path):
            raise PlanError(f"{path} is not a number; only numeric inputs have a sensitivity.")
        one = self.get(path)
        if one is None:
            raise PlanError(f"{path} has no value in this scenario; set one first.")
        return one


def whole_path(path: str) -> str:
    """The path of a field; that of a figure may be given without ``system.overrides.``."""
    return OVERRIDES + path if figure_of(OVERRIDES + path) is not None else path
