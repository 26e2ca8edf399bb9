"""Small layouts with tasks under way, drawn from a seed; and one round of background work on kernel or twin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from planner.layout.decide import confirmed, decide
from planner.layout.reference import confirmed_reference, decide_reference, run_tasks_reference
from planner.layout.state import Sizes, State, begin
from planner.layout.tasks import Moved, Rates, empty_moved, run_tasks


class Case(NamedTuple):
    """What a simulation would hold: sizes, rates, a first layout, and predicted costs of some steps."""

    state: State
    sizes: Sizes
    rates: Rates
    free_s: np.ndarray
    predicted: np.ndarray
    """float64 [rounds, layers, experts]"""
    cost: np.ndarray
    """float64 [rounds, layers, experts, 3]"""
    base_s: np.ndarray


def case(
    seed: int, layers: int = 2, experts: int = 14, dimms: int = 4, rounds: int = 4, chain: bool = False,
    tight: bool = False, window_s: float = 1e-3,
) -> Case:  # fmt: skip
    """tight: DIMMs with hardly any room beside the first layout."""
    rng = np.random.default_rng(seed)
    size = rng.choice([1.0e6, 2.0e6], (layers, experts))
    slots = int(rng.integers(0, 4))
    resident = np.zeros((layers, experts), bool)
    for layer in range(layers):
        resident[layer, rng.permutation(experts)[: max(0, slots - int(rng.integers(0, 2)))]] = True
    home = np.where(rng.random((layers, experts)) < 0.4, -1, rng.integers(0, dimms, (layers, experts)))
    sizes = Sizes(size, 2.0e6, slots, np.inf, dimms)
    state = begin(resident, home, sizes)
    room = float(state.held.max()) + (0.6e6 if tight else 30e6)
    rates = Rates(2.5e9, 6.4e9, 3.84e9, max(1, dimms // 2), 15e9, 12e9, chain)
    free = np.full(2 * dimms + rates.channels + 1, window_s)
    predicted = np.exp(rng.normal(0.0, 1.0, (rounds, layers, experts)) + 1.5)
    cost = np.stack(
        [1e-4 + 1e-6 * predicted, np.maximum(4e-4, 2e-5 * predicted), np.maximum(6e-4, 4e-4 * predicted)], axis=-1
    )
    return Case(state, sizes._replace(dimm_bytes=room), rates, free, predicted, cost, np.full(layers, 2e-4))


def one_round(
    given: Case, step: int, moved: Moved, plain: bool, margin: float = 0.001, charge: bool = False
) -> tuple[np.ndarray, int]:
    """Decide on one step, judge the decisions by the next step's costs, run the tasks."""
    state, sizes = given.state, given.sizes
    choose, run = (decide_reference, run_tasks_reference) if plain else (decide, run_tasks)
    fresh = choose(state, sizes, given.predicted[step], np.ascontiguousarray(given.cost[step]), given.base_s, margin)
    true = np.ascontiguousarray(given.cost[(step + 1) % given.cost.shape[0]])
    right = (
        confirmed_reference(state, sizes, true, given.base_s, fresh)
        if plain
        else confirmed(state, true, given.base_s, fresh)
    )
    run(state, sizes, given.rates, given.free_s, moved, charge)
    return fresh, right


def outcome(given: Case, plain: bool, charge: bool = False) -> list[dict[str, Any]]:
    """Everything that some rounds leave behind, as plain lists."""
    moved = empty_moved(given.sizes, given.rates)
    found = []
    for step in range(given.cost.shape[0]):
        fresh, right = one_round(given, step, moved, plain, charge=charge)
        after = {name: getattr(given.state, name).tolist() for name in State._fields}
        traffic = {name: getattr(moved, name).tolist() for name in Moved._fields}
        found.append({"fresh": fresh.tolist(), "confirmed": right, "state": after, "moved": traffic})
    return found
