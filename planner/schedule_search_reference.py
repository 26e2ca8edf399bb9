"""Plain NumPy twins of :mod:`planner.schedule_search`: the same decisions and the same rounding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from planner.schedule_improved import Row
from planner.schedule_search import EPSILON, FIRST_POWER, LAST_POWER, PASSES


def add_up(total: float, values: Iterable[float]) -> float:
    """total + values, from the first to the last."""
    for value in values:
        total += float(value)
    return total


class State:
    """One schedule of a row, with its loads and their powers."""

    def __init__(self, row: Row, domain: np.ndarray) -> None:
        self.row, self.domain = row, domain.copy()
        self.count()

    def count(self) -> float:
        """Loads from scratch; returns the longest."""
        row, striped = self.row, 0.0
        self.load = row.base.copy()
        for e, k in enumerate(self.domain):
            if k == 2:
                self.load[3 + row.home[e]] += row.seconds[2, e]
                continue
            self.load[k] += row.seconds[k, e]
            self.load[2] += row.host[k, e]
            if row.home[e] >= 0:
                self.load[3 + row.home[e]] += row.dimm[k, e]
            else:
                striped += row.dimm[k, e]
        self.load[3:] += striped
        return float(self.load.max())

    def start(self, doublings: int) -> None:
        self.doublings = doublings
        self.scale = 1.0 / self.count()
        self.powers = self.power(self.load)

    def power(self, load: Any) -> Any:
        result = load * self.scale
        for _ in range(self.doublings):
            result = result * result
        return result

    def change(self, e: int, here: int, there: int) -> list[tuple[int, float]]:
        """(resource, seconds) that a move adds, resources in order."""
        row = self.row
        added = [0.0, 0.0, 0.0, 0.0]
        for k, sign in ((here, -1.0), (there, 1.0)):
            if k == 2:
                added[3] += sign * row.seconds[2, e]
            else:
                added[k] += sign * row.seconds[k, e]
                added[2] += sign * row.host[k, e]
                added[3] += sign * row.dimm[k, e]
        home = row.home[e]
        places = [3 + home] if home >= 0 else range(3, self.load.size)
        return [(i, a) for i, a in enumerate(added[:3]) if a] + [(i, added[3]) for i in places if added[3]]

    def gain(self, change: list[tuple[int, float]]) -> float:
        return add_up(0.0, (self.power(self.load[i] + a) - self.powers[i] for i, a in change))

    def apply(self, change: list[tuple[int, float]]) -> None:
        for i, a in change:
            self.load[i] += a
            self.powers[i] = self.power(self.load[i])

    def targets(self, e: int, places: int) -> list[int]:
        here = self.domain[e]
        return [k for k in range(places) if here < places and k != here and self.row.seconds[k, e] < np.inf]

    def moves(self, places: int) -> None:
        experts = self.domain.size
        quiet = e = 0
        for _ in range(PASSES * experts):
            gains = [(self.gain(self.change(e, self.domain[e], k)), k) for k in self.targets(e, places)]
            quiet += 1
            if gains and min(gains)[0] < -EPSILON:
                k = min(gains)[1]
                self.apply(self.change(e, self.domain[e], k))
                self.domain[e] = k
                quiet = 0
            if quiet >= experts:
                break
            e = (e + 1) % experts

    def concerns(self, e: int, fullest: int) -> bool:
        """Whether moving e may relieve the fullest resource."""
        here = self.domain[e]
        if fullest < 2:
            return bool(here == fullest)
        if fullest == 2:
            return bool(here < 2 and self.row.host[here, e] > 0)
        return bool(self.row.home[e] == fullest - 3)

    def exchange(self, places: int, trials: int) -> int:
        """As the kernel: pairs left, or minus one minus them if an exchange was made."""
        fullest = int(np.argmax(self.load))
        for e in [e for e in range(self.domain.size) if self.concerns(e, fullest)]:
            here = int(self.domain[e])
            for there in self.targets(e, places):
                change = self.change(e, here, there)
                best = -EPSILON - self.gain(change)
                self.apply(change)
                partner, target = -1, -1
                for f in np.flatnonzero(self.domain == there).tolist():
                    if f == e or (there == 2 and self.row.home[f] != self.row.home[e]):
                        continue
                    for goal in self.targets(f, places):
                        trials -= 1
                        value = self.gain(self.change(f, there, goal))
                        if value < best:
                            best, partner, target = value, f, goal
                if partner >= 0:
                    self.apply(self.change(partner, there, target))
                    self.domain[e], self.domain[partner] = there, target
                    return -1 - max(trials, 0)
                self.apply(self.change(e, there, here))
                if trials <= 0:
                    return 0
        return trials


def search_reference(*arguments: Any) -> tuple[float, int]:
    """Twin of :func:`planner.schedule_search.search`."""
    row, (domain, enough, places, trials) = Row(*arguments[:5]), arguments[5:]
    state = State(row, domain)
    longest, doublings, ended = state.count(), FIRST_POWER, False
    while longest > enough and longest > 0 and not ended:
        state.start(doublings)
        state.moves(places)
        if doublings < LAST_POWER:
            doublings += 1
        elif trials <= 0:
            ended = True
        else:
            trials = state.exchange(places, trials)
            ended = trials >= 0
            if not ended:
                trials = -1 - trials
        now = state.count()
        if now < longest:
            longest = now
            domain[:] = state.domain
    return longest, max(trials, 0)


def whole_reference(
    seconds: np.ndarray, host: np.ndarray, home: np.ndarray, order: np.ndarray, keep: np.ndarray, away: np.ndarray,
    weights: np.ndarray, domain: np.ndarray,
) -> None:  # fmt: skip
    """Twin of :func:`planner.schedule_search.whole`."""
    groups: dict[int, list[int]] = {}
    for e in order:
        groups.setdefault(int(home[e]) if home[e] >= 0 else -1 - int(e), []).append(int(e))
    error = np.zeros(3)
    for members in groups.values():
        mean, part = np.zeros(3), np.zeros((weights.size, 3))
        for i, weight in enumerate(weights):
            for e in members:
                k, off = away[i, e], 1.0 - keep[i, e]
                if off > 0:
                    part[i, [k, 2]] += np.array([seconds[k, e], host[k, e]])
                    mean[[k, 2]] += weight * off * np.array([seconds[k, e], host[k, e]])
        miss = [add_up(0.0, (error + p - mean) ** 2) for p in part]
        best = int(np.argmin(miss))
        error += part[best] - mean
        domain[members] = np.where(keep[best, members] < 1, away[best, members], 2)
