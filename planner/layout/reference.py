"""Plain twin of :mod:`planner.layout.decide` and :mod:`planner.layout.tasks`: one layer, one task at a time.

It changes a :class:`planner.layout.state.State` in the same way, to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.layout.decide import PREFETCHES, RELAYOUTS
from planner.layout.state import IDLE, LOCALISE, PREFETCH, REBALANCE, STRIPE, Sizes, State, task_bytes
from planner.layout.tasks import DONE, LEAST, Moved, Rates


def eighth(x: float) -> float:
    square = x * x
    fourth = square * square
    return fourth * fourth


def smooth(powers: float) -> float:
    return math.sqrt(math.sqrt(math.sqrt(max(powers, 0.0))))


@dataclass
class Layer:
    """Loads of one layer when its tasks are done: GPU, CPU, DIMMs; and the sum of their eighth powers."""

    state: State
    sizes: Sizes
    number: int
    cost: np.ndarray  # [experts, 3]
    load: list[float]
    powers: float = 0.0

    def host_place(self, e: int) -> int:
        home = int(self.state.home[self.number, e])
        return 1 if home < 0 else 2 + home

    def place(self, e: int) -> int:
        n, state = self.number, self.state
        kind, target = state.kind[n, e], int(state.target[n, e])
        if kind == PREFETCH or (state.resident[n, e] and not state.leaving[n, e]):
            return 0
        if kind in (LOCALISE, REBALANCE):
            return 2 + target
        return 1 if kind == STRIPE else self.host_place(e)

    def seconds(self, e: int, place: int) -> float:
        return float(self.cost[e, min(place, 2)])

    def fill(self, base: float) -> None:
        self.load = [0.0] * (2 + self.sizes.dimms)
        self.load[0] = float(base)
        for e in range(self.cost.shape[0]):
            place = self.place(e)
            self.load[place] += self.seconds(e, place)
        self.powers = sum((eighth(value) for value in self.load), 0.0)

    def moved(self, e: int, source: int, goal: int) -> tuple[list[float], float]:
        """Loads and sum after expert e goes from one place to another."""
        load, powers = list(self.load), self.powers
        for place, sign in ((source, -1.0), (goal, 1.0)):
            before = load[place]
            load[place] = before + sign * self.seconds(e, place)
            powers += eighth(load[place]) - eighth(before)
        return load, powers

    def move(self, e: int, source: int, goal: int) -> None:
        self.load, self.powers = self.moved(e, source, goal)

    def powers_after(self, e: int, source: int, goal: int) -> float:
        """The same sum, added up as the scan of the kernel does."""
        left = self.load[source] - self.seconds(e, source)
        filled = self.load[goal] + self.seconds(e, goal)
        return self.powers + eighth(left) - eighth(self.load[source]) + eighth(filled) - eighth(self.load[goal])

    def undone(self, e: int) -> tuple[list[float], float]:
        """Loads and sum without the task of e."""
        kept = self.load, self.powers
        n, state = self.number, self.state
        self.move(e, self.place(e), self.host_place(e))
        leaver = int(state.target[n, e])
        if state.kind[n, e] == PREFETCH and leaver >= 0 and not state.started[n, e]:
            self.move(leaver, self.host_place(leaver), 0)
        result = self.load, self.powers
        self.load, self.powers = kept
        return result


def reservations(state: State, sizes: Sizes, n: int, e: int, kind: int, target: int) -> dict[int, float]:
    """Bytes that a task needs on each DIMM that it writes to."""
    size, dimms = float(sizes.host_bytes[n, e]), sizes.dimms
    if kind == LOCALISE:
        return {target: size * (dimms - 1) / dimms}
    if kind == REBALANCE:
        return {target: size}
    if kind == STRIPE:
        return {d: size / dimms for d in range(dimms) if d != state.home[n, e]}
    return {}


def has_room(state: State, sizes: Sizes, n: int, e: int, kind: int, target: int) -> bool:
    needed = reservations(state, sizes, n, e, kind, target)
    return all(state.held[d] + amount <= sizes.dimm_bytes for d, amount in needed.items())


def queue(state: State, sizes: Sizes, n: int, e: int, kind: int, target: int, gain: float, fresh: np.ndarray) -> None:
    state.kind[n, e], state.target[n, e], state.gain[n, e] = kind, target, gain
    state.age[n, e], state.started[n, e], fresh[n, e] = 0, False, kind
    state.left[n, e] = task_bytes(kind, float(sizes.host_bytes[n, e]), sizes.hbm_bytes, sizes.dimms)
    if kind == PREFETCH and target >= 0:
        state.leaving[n, target] = True
    for d, amount in reservations(state, sizes, n, e, kind, target).items():
        state.held[d] += amount


def withdraw(state: State, sizes: Sizes, layers: np.ndarray | None = None) -> None:
    """Twin of :func:`planner.layout.decide.take_back`; of all layers unless masked."""
    chosen = np.ones(state.kind.shape[0], bool) if layers is None else layers
    for n, e in np.argwhere((state.kind != IDLE) & ~state.started & chosen[:, None]):
        kind, target = int(state.kind[n, e]), int(state.target[n, e])
        if kind == PREFETCH and target >= 0:
            state.leaving[n, target] = False
        for d, amount in reservations(state, sizes, n, e, kind, target).items():
            state.held[d] -= amount
        state.kind[n, e], state.target[n, e], state.left[n, e] = IDLE, -1, 0.0


def enough(gain: float, layer: Layer, margin: float) -> bool:
    return gain > 0.0 and gain >= margin * smooth(layer.powers)


def prefetch(layer: Layer, predicted: np.ndarray, margin: float, fresh: np.ndarray) -> None:
    state, sizes, n = layer.state, layer.sizes, layer.number
    for _ in range(PREFETCHES):
        coming = state.kind[n] == PREFETCH
        staying = state.resident[n] & ~state.leaving[n] & ~coming
        outside = ~coming & ~state.resident[n] & (state.kind[n] == IDLE)
        if not outside.any():
            return
        best = int(np.argmax(np.where(outside, predicted[n], -np.inf)))
        worst = int(np.argmin(np.where(staying, predicted[n], np.inf))) if staying.any() else -1
        full = int(coming.sum() + staying.sum()) >= sizes.slots
        if full and (worst < 0 or predicted[n, best] <= predicted[n, worst]):
            return
        kept = layer.load, layer.powers
        layer.move(best, layer.host_place(best), 0)
        if full:
            layer.move(worst, 0, layer.host_place(worst))
        after = layer.load, layer.powers
        layer.load, layer.powers = kept
        gain = smooth(layer.powers) - smooth(after[1])
        if not enough(gain, layer, margin):
            return
        layer.load, layer.powers = after
        queue(state, sizes, n, best, PREFETCH, worst if full else -1, gain, fresh)


def relayout(layer: Layer, margin: float, fresh: np.ndarray) -> None:
    state, sizes, n = layer.state, layer.sizes, layer.number
    for _ in range(RELAYOUTS):
        emptiest = int(np.argmin(layer.load[2:]))
        pick, least = -1, layer.powers
        for e in np.flatnonzero((state.kind[n] == IDLE) & ~state.resident[n]):
            here = layer.host_place(int(e))
            goal, kind = (2 + emptiest, LOCALISE) if here == 1 else (1, STRIPE)
            after = layer.powers_after(int(e), here, goal)
            if after < least and has_room(state, sizes, n, int(e), kind, emptiest):
                pick, least = int(e), after
        gain = smooth(layer.powers) - smooth(least)
        if pick < 0 or not enough(gain, layer, margin):
            return
        here = layer.host_place(pick)
        if here == 1:
            layer.move(pick, 1, 2 + emptiest)
            queue(state, sizes, n, pick, LOCALISE, emptiest, gain, fresh)
        else:
            layer.move(pick, here, 1)
            queue(state, sizes, n, pick, STRIPE, -1, gain, fresh)


def rebalance(layer: Layer, margin: float, fresh: np.ndarray) -> None:
    state, sizes, n = layer.state, layer.sizes, layer.number
    order = np.argsort(-np.array(layer.load[2:]), kind="stable")
    for pair in range(sizes.dimms // 2):
        full, empty = int(order[pair]), int(order[sizes.dimms - 1 - pair])
        pick, least = -1, layer.powers
        for e in np.flatnonzero((state.kind[n] == IDLE) & ~state.resident[n] & (state.home[n] == full)):
            after = layer.powers_after(int(e), 2 + full, 2 + empty)
            if after < least and has_room(state, sizes, n, int(e), REBALANCE, empty):
                pick, least = int(e), after
        gain = smooth(layer.powers) - smooth(least)
        if pick >= 0 and enough(gain, layer, margin):
            layer.move(pick, 2 + full, 2 + empty)
            queue(state, sizes, n, pick, REBALANCE, empty, gain, fresh)


def decide_reference(
    state: State,
    sizes: Sizes,
    predicted: np.ndarray,
    cost: np.ndarray,
    base_gpu_s: np.ndarray,
    margin: float,
    with_prefetch: bool = True,
    with_relayout: bool = True,
    with_rebalance: bool = True,
) -> np.ndarray:
    """Twin of :func:`planner.layout.decide.decide`."""
    fresh = np.zeros(state.kind.shape, np.int8)
    withdraw(state, sizes)
    for n in range(cost.shape[0]):
        layer = Layer(state, sizes, n, cost[n], [])
        layer.fill(base_gpu_s[n])
        for e in np.flatnonzero(state.kind[n] != IDLE):
            state.gain[n, e] = smooth(layer.undone(int(e))[1]) - smooth(layer.powers)
        if with_prefetch and sizes.slots > 0:
            prefetch(layer, predicted, margin, fresh)
        if with_relayout:
            relayout(layer, margin, fresh)
        if with_rebalance:
            rebalance(layer, margin, fresh)
    return fresh


def confirmed_reference(state: State, sizes: Sizes, cost: np.ndarray, base_gpu_s: np.ndarray, fresh: np.ndarray) -> int:
    """Twin of :func:`planner.layout.decide.confirmed`."""
    good = 0
    for n in range(cost.shape[0]):
        layer = Layer(state, sizes, n, cost[n], [])
        layer.fill(base_gpu_s[n])
        good += sum(smooth(layer.undone(int(e))[1]) > smooth(layer.powers) for e in np.flatnonzero(fresh[n] != IDLE))
    return good


def flows(state: State, sizes: Sizes, n: int, e: int) -> list[tuple[int, int, float]]:
    """Transfers between DIMMs of a whole task: source, goal, bytes."""
    kind, home, target = state.kind[n, e], int(state.home[n, e]), int(state.target[n, e])
    size, dimms = float(sizes.host_bytes[n, e]), sizes.dimms
    if kind == LOCALISE:
        return [(d, target, size / dimms) for d in range(dimms) if d != target]
    if kind == STRIPE:
        return [(home, d, size / dimms) for d in range(dimms) if d != home]
    return [(home, target, size)] if kind == REBALANCE else []


def demands(state: State, sizes: Sizes, rates: Rates, n: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of every resource, and of the ranks of every DIMM, of a whole task."""
    dimms = sizes.dimms
    demand, rank = np.zeros(2 * dimms + rates.channels + 1), np.zeros(dimms)
    for source, goal, amount in flows(state, sizes, n, e):
        demand[dimms + source] += amount / rates.link
        demand[goal] += amount / rates.link
        rank[source] += amount / rates.rank
        rank[goal] += amount / rates.rank
        if rates.chain:
            step = 1 if goal > source else -1
            for passed in range(source + step, goal, step):
                demand[passed] += amount / rates.link
                demand[dimms + passed] += amount / rates.link
    if state.kind[n, e] == PREFETCH:
        demand[-1] = sizes.hbm_bytes / rates.pcie
        home = int(state.home[n, e])
        if home < 0:
            demand[2 * dimms : -1] = sizes.hbm_bytes / rates.channels / rates.channel
            rank[:] = sizes.hbm_bytes / dimms / rates.host_read
        else:
            demand[2 * dimms + home % rates.channels] = sizes.hbm_bytes / rates.channel
            rank[home] = sizes.hbm_bytes / rates.host_read
    return demand, rank


def finish(state: State, sizes: Sizes, n: int, e: int) -> None:
    kind, home, target = state.kind[n, e], int(state.home[n, e]), int(state.target[n, e])
    size, dimms = float(sizes.host_bytes[n, e]), sizes.dimms
    if kind == PREFETCH:
        state.resident[n, e] = True
    elif kind == LOCALISE:
        for d in range(dimms):
            if d != target:
                state.held[d] -= size / dimms
        state.home[n, e] = target
    elif kind == STRIPE:
        state.held[home] -= size * (dimms - 1) / dimms
        state.home[n, e] = -1
    else:
        state.held[home] -= size
        state.home[n, e] = target
    state.kind[n, e], state.target[n, e], state.left[n, e], state.started[n, e] = IDLE, -1, 0.0, False


def run_tasks_reference(
    state: State, sizes: Sizes, rates: Rates, free_s: np.ndarray, moved: Moved, charge: bool = False
) -> None:
    """Twin of :func:`planner.layout.tasks.run_tasks`."""
    queued = [(int(n), int(e)) for n, e in np.argwhere(state.kind != IDLE)]
    for array in moved:
        array[:] = 0
    for n, e in sorted(queued, key=lambda at: -state.gain[at] / max(state.left[at], 1.0)):
        kind = int(state.kind[n, e])
        size = task_bytes(kind, float(sizes.host_bytes[n, e]), sizes.hbm_bytes, sizes.dimms)
        demand, rank = demands(state, sizes, rates, n, e)
        rest = float(state.left[n, e]) / size if size > 0.0 else 0.0
        share = rest
        if not charge:
            for need, room in zip(demand, np.maximum(free_s - moved.used, 0.0), strict=True):
                if need * share > room:
                    share = float(room) / float(need)
        if share < LEAST and share < rest:
            continue
        if not state.started[n, e]:
            state.started[n, e] = True
            leaver = int(state.target[n, e])
            if kind == PREFETCH and leaver >= 0:
                state.resident[n, leaver] = state.leaving[n, leaver] = False
        moved.used[:] += demand * share
        moved.rank_s[:] += rank * share
        if share >= rest * DONE:
            moved.bytes[kind - 1] += state.left[n, e]
            moved.done[kind - 1] += 1
            finish(state, sizes, n, e)
        else:
            moved.bytes[kind - 1] += size * share
            state.left[n, e] -= size * share
    for at in queued:
        if state.kind[at] != IDLE:
            state.age[at] += 1
