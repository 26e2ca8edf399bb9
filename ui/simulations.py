"""Simulations and their ablations, kept by what they were asked for: scenario, engine, catalog, steps, options."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from planner.layout import AblationRow, Simulation, SimulationOptions, ablation, simulate
from planner.refusals import REFUSALS
from planner.scenario import Scenario
from planner.words import labels
from ui import engine
from ui.kept import Kept

MOST_KEPT = 24
Key = tuple[Any, ...]


class CannotSimulateError(Exception):
    """The steps cannot be simulated; ``str(error)`` is one sentence for people."""


_kept = Kept[Any](MOST_KEPT)
_one_at_a_time = threading.Lock()


def key_of(scenario: Scenario, steps: int, options: SimulationOptions, *more: object) -> Key:
    """What names a simulation (and, with the share of its base, an ablation)."""
    return (*engine.key_of(scenario), steps, options.model_dump_json(), *more)


def known(key: Key) -> Any:
    """What was computed for this key, or None."""
    return _kept.known(key)


def run(scenario: Scenario, steps: int, options: SimulationOptions) -> Simulation:
    """The simulation, computed or as kept. Raises CannotSimulateError."""
    return _run(key_of(scenario, steps, options), lambda: simulate(scenario, steps, options))


def run_ablation(
    scenario: Scenario, steps: int, options: SimulationOptions, hot_share: float | None
) -> tuple[AblationRow, ...]:
    """The ablation on the same steps, computed or as kept. Raises CannotSimulateError."""
    key = key_of(scenario, steps, options, "ablation", hot_share)
    return _run(key, lambda: ablation(scenario, steps, options, hot_share))


def _run(key: Key, compute: Callable[[], Any]) -> Any:
    found = known(key)
    if found is not None:
        return found
    try:
        with _one_at_a_time:
            found = known(key) or compute()
    except REFUSALS as error:
        text = labels.in_words(str(error))
        raise CannotSimulateError(text + ("" if text.endswith(".") else ".")) from error
    _kept.put(key, found)
    return found
