"""Whether what was decided for a layer is worth what it costs.

:mod:`planner.layout.decide` weighs moves as if every expert were computed where it lies. The scheduler does better than
that: it sends what a full domain has too much of to another one, over PCIe if need be, so a layout that looks uneven
may already be scheduled well, and evening it out may take the scheduler's choices away. So each layer is scheduled at
its predicted loads with and without its new tasks, and they stay only if

    makespan without - makespan with > alpha x (seconds of rank time that they take from the DIMMs, mean over DIMMs).

1 / alpha steps is the memory of the predicted load (the mean age of what it averages): no gain is claimed beyond it.
"""

from __future__ import annotations

import numpy as np

from planner.layout.decide import take_back
from planner.layout.state import IDLE, LOCALISE, PREFETCH, REBALANCE, STRIPE, STRIPED, Sizes, State
from planner.layout.tasks import Rates
from planner.physics.operation import Array


def layout_after(state: State, tasks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """home and resident when the masked tasks (bool [layers, experts]) are done; the state stays as it is."""
    home, resident = state.home.copy(), state.resident.copy()
    onto_one = tasks & ((state.kind == LOCALISE) | (state.kind == REBALANCE))
    home[onto_one] = state.target[onto_one]
    home[tasks & (state.kind == STRIPE)] = STRIPED
    coming = tasks & (state.kind == PREFETCH)
    resident[coming] = True
    # The expert that leaves for a prefetch under way has left already.
    layer, expert = np.nonzero(coming & ~state.started & (state.target >= 0))
    resident[layer, state.target[layer, expert]] = False
    return home, resident


def charge_s(state: State, sizes: Sizes, rates: Rates, tasks: np.ndarray) -> Array:
    """Rank seconds that the masked tasks take from the DIMMs, mean over DIMMs, float64 [layers].

    What goes from DIMM to DIMM is read in one and written in another; what goes to HBM is read.
    """
    left = np.where(tasks, state.left, 0.0)
    fetched = np.where(state.kind == PREFETCH, left, 0.0).sum(axis=1)
    return np.asarray((2.0 * (left.sum(axis=1) - fetched) / rates.rank + fetched / rates.host_read) / sizes.dimms)


def keep(
    state: State, sizes: Sizes, fresh: np.ndarray, without_s: Array, with_s: Array, cost_s: Array, alpha: float
) -> None:
    """Take back the tasks that have not begun of every layer that does not gain enough; fresh is cleared there too.

    without_s, with_s: predicted makespans [layers]; cost_s: :func:`charge_s` of those tasks.
    """
    poor = ~(without_s - with_s > alpha * cost_s)
    take_back(state, sizes, poor)
    fresh[poor] = IDLE


def new_tasks(state: State) -> np.ndarray:
    """Tasks that have not begun, bool [layers, experts]."""
    return (state.kind != IDLE) & ~state.started
