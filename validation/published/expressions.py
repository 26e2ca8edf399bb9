"""Predictions as small expressions over scenarios, evaluated through the engine, each evaluation once in a run.

An expression is JSON:

    3.5                                                     a number
    {"figure": NAME, "of": PLAN, ...}                       a figure (validation.published.figures) of an evaluation
    {"simulated": FIELD, "of": PLAN, ...}                   a field of planner.layout.simulate, dotted
    {"ablated": ROW, "of": PLAN, ...}                       the ratio of a row of planner.layout.ablation
    {"divide": [E, E]}, {"subtract": [E, E]}, {"times": [E, ...]}
    {"most": E}, {"least": E}                               over ``over``, a list of changes to every plan in E
    {"most": [E, ...]}, {"least": [E, ...]}                 over a list
    {"range": ...}                                          least and most of either: [low, high]
    {"correlation": [[E, E], ...]}                          rank correlation of pairs

PLAN is the name of a scenario, or {"plan": NAME, "change": {...}}. Names may hold ``{0}``; ``over`` may then be a list
of words that take its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from planner.evaluate import Evaluation, evaluate
from planner.layout import SimulationOptions, ablation, simulate
from planner.layout.records import AblationRow, Simulation
from validation.published import figures
from validation.published.records import Value
from validation.published.scenarios import Change, Setup, setup

SIMULATED_STEPS, ABLATED_STEPS = 64, 32


class UnfitError(ValueError):
    """A plan of a claim does not fit; the sentence names it."""


class Run:
    """One run over claims: it remembers every evaluation, simulation and ablation by the scenario's content."""

    def __init__(self) -> None:
        self._evaluations: dict[str, Evaluation] = {}
        self._simulations: dict[str, Simulation] = {}
        self._ablations: dict[str, tuple[AblationRow, ...]] = {}
        self.calibrations: set[str] = set()  # used by the expressions since it was last emptied

    def evaluation(self, chosen: Setup, name: str) -> Evaluation:
        key = chosen.scenario.content_hash()
        if key not in self._evaluations:
            found = evaluate(chosen.scenario)
            if not found.fits:
                raise UnfitError(f"{name} does not fit: {' '.join(found.reasons)}")
            self._evaluations[key] = found
        return self._evaluations[key]

    def value(self, expression: Any) -> Value:
        """The expression's number, or its range. Raises UnfitError, KeyError, and what the engine raises."""
        if isinstance(expression, Mapping) and "range" in expression:
            values = self._each(expression, "range", ())
            return (min(values), max(values))
        return self._number(expression, ())

    # --- evaluation --------------------------------------------------------------------------------------------------
    def _number(self, expression: Any, changes: Sequence[Change]) -> float:
        if isinstance(expression, int | float):
            return float(expression)
        for name in ("most", "least"):
            if name in expression:
                values = self._each(expression, name, changes)
                return max(values) if name == "most" else min(values)
        if "divide" in expression:
            above, below = (self._number(e, changes) for e in expression["divide"])
            return above / below
        if "subtract" in expression:
            first, second = (self._number(e, changes) for e in expression["subtract"])
            return first - second
        if "times" in expression:
            return float(np.prod([self._number(e, changes) for e in expression["times"]]))
        if "correlation" in expression:
            return self._correlation(expression, changes)
        return self._leaf(expression, changes)

    def _each(self, expression: Mapping[str, Any], name: str, changes: Sequence[Change]) -> list[float]:
        inner, over = expression[name], expression.get("over")
        if over is None:
            return [self._number(e, changes) for e in inner]
        if isinstance(over[0], str):
            return [self._number(_filled(inner, word), changes) for word in over]
        return [self._number(inner, (*changes, change)) for change in over]

    def _correlation(self, expression: Mapping[str, Any], changes: Sequence[Change]) -> float:
        pairs = [
            [self._number(e, (*changes, change)) for e in _filled(expression["correlation"], word)]
            for word in expression["over"]
            for change in expression.get("changes", ({},))
        ]
        ranks = np.argsort(np.argsort(np.array(pairs), axis=0), axis=0).astype(float)
        return float(np.corrcoef(ranks.T)[0, 1])

    def _leaf(self, expression: Mapping[str, Any], changes: Sequence[Change]) -> float:
        name, own = _plan(expression["of"])
        chosen = setup(name, (*own, *changes))
        if chosen.calibration is not None:
            self.calibrations.add(chosen.calibration)
        kind = next(k for k in ("figure", "simulated", "ablated") if k in expression)
        rest = {k: v for k, v in expression.items() if k not in ("of", kind)}
        if kind == "figure":
            return figures.read(expression[kind], self.evaluation(chosen, name), rest)
        options = {**chosen.simulation, **rest.pop("options", {})}
        key = json.dumps([kind, chosen.scenario.content_hash(), options, rest], sort_keys=True)
        if kind == "simulated":
            if key not in self._simulations:
                self._simulations[key] = simulate(
                    chosen.scenario, rest.get("steps", SIMULATED_STEPS), SimulationOptions(**options)
                )
            found: Any = self._simulations[key]
            for step in expression[kind].split("."):
                found = getattr(found, step)
            return float(found)
        if key not in self._ablations:
            self._ablations[key] = ablation(
                chosen.scenario, rest.get("steps", ABLATED_STEPS), SimulationOptions(**options), rest.get("hot_share")
            )
        ratio = next(row.ratio for row in self._ablations[key] if row.name == expression[kind])
        assert ratio is not None
        return ratio


def _plan(given: Any) -> tuple[str, tuple[Change, ...]]:
    if isinstance(given, str):
        return given, ()
    return given["plan"], (given["change"],)


def _filled(expression: Any, word: str) -> Any:
    """The expression with ``{0}`` in every text replaced."""
    if isinstance(expression, str):
        return expression.replace("{0}", word)
    if isinstance(expression, Mapping):
        return {k: _filled(v, word) for k, v in expression.items()}
    if isinstance(expression, list):
        return [_filled(item, word) for item in expression]
    return expression
