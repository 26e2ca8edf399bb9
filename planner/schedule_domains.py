"""Assignment of a layer's experts where the machine has more compute domains than TriMoE's three.

The published algorithm of :mod:`planner.schedule` (each expert to its fastest domain, then the costliest expert of the
bottleneck to where it helps most, until nothing helps), on any set of resources: a CPU for each socket, near-data units
of two kinds, memory channels for each socket. An expert still has three ways to run (GPU, CPU, near data); which CPU
and which unit that is follows from where it lies. Running takes ``own_s`` on one resource, and the bytes read take
time on others by the ``pattern`` of where they lie.

    load[r] = base[r] + sum_e [ where(e) = r ] own_s(e) + reads(e) table[pattern(e), r];   makespan = max_r load[r]

On TriMoE's own machine it makes the same moves as :func:`planner.schedule.schedule_layers` (a test holds them
together). Ties go to the lower resource, domain and expert.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from planner.arrays import kernel_input
from planner.schedule import DEFAULT_MOVES, IMPROVEMENT, START_GREEDY, START_LAYOUT


@dataclass(frozen=True)
class DomainProblem:
    """Scheduling problem of many rows (a sampled step of a layer); rows are independent. Last axis of three: GPU, CPU,
    near data."""

    own_s: np.ndarray
    """float64 [rows, experts, 3], seconds of running there, inf where impossible"""
    where: np.ndarray
    """int [rows, experts, 3], resource that the seconds are spent on"""
    reads: np.ndarray
    """float64 [rows, experts, 3], bytes read from host memory when run there"""
    pattern: np.ndarray
    """int [rows, experts], row of ``table``: where those bytes lie"""
    table: np.ndarray
    """float64 [patterns, resources], seconds on each resource for one byte"""
    tokens: np.ndarray
    """int [rows, experts]; experts with none cost nothing"""
    layout: np.ndarray
    """int [rows, experts], domain of the expert by where it lies, for the layout start"""
    base_s: np.ndarray
    """float64 [rows, resources], load before any expert"""


@dataclass(frozen=True)
class DomainSchedule:
    domain: np.ndarray
    """int8 [rows, experts]: 0 GPU, 1 CPU, 2 near data, -1 no tokens"""
    load_s: np.ndarray
    """float64 [rows, resources]"""
    moves: np.ndarray
    """int32 [rows]"""

    @property
    def makespan_s(self) -> np.ndarray:
        return np.asarray(self.load_s.max(axis=1))


@njit(nogil=True, cache=True)
def _put(load, own_s, where, reads, line, sign):  # type: ignore[no-untyped-def]
    """Adds (sign 1) or takes away (-1) one expert in one domain."""
    load[where] += sign * own_s
    if reads > 0.0:
        for r in range(load.shape[0]):
            load[r] += sign * reads * line[r]


@njit(nogil=True, cache=True)
def _after(load, own_s, where, reads, line):  # type: ignore[no-untyped-def]
    """Makespan if one expert were added."""
    longest = 0.0
    for r in range(load.shape[0]):
        value = load[r] + reads * line[r]
        if r == where:
            value += own_s
        if value > longest:
            longest = value
    return longest


@njit(nogil=True, cache=True)
def _refine(own_s, where, reads, pattern, table, domain, load, left, every, max_moves):  # type: ignore[no-untyped-def]
    """Bottleneck moves of one row; ``every``: all experts of the bottleneck are tried, not only the costliest."""
    experts = domain.shape[0]
    moves = 0
    while moves < max_moves:
        worst = 0
        for r in range(1, load.shape[0]):
            if load[r] > load[worst]:
                worst = r
        now = load[worst]
        # The costliest by its own time there; where nothing runs there, the largest reader of it.
        pick, cost = -1, 0.0
        for e in range(experts):
            d = domain[e]
            if d >= 0 and where[e, d] == worst and own_s[e, d] > cost:
                cost, pick = own_s[e, d], e
        if pick < 0:
            for e in range(experts):
                d = domain[e]
                if d >= 0 and reads[e, d] * table[pattern[e], worst] > cost:
                    cost, pick = reads[e, d] * table[pattern[e], worst], e
        if pick < 0:
            break
        best, target, chosen = now * IMPROVEMENT, -1, -1
        for e in range(experts):
            d = domain[e]
            if not every:
                if e != pick:
                    continue
            elif d < 0 or (where[e, d] != worst and reads[e, d] * table[pattern[e], worst] <= 0.0):
                continue
            line = table[pattern[e]]
            for r in range(load.shape[0]):
                left[r] = load[r]
            _put(left, own_s[e, d], where[e, d], reads[e, d], line, -1.0)
            for there in range(3):
                if there == d or own_s[e, there] == np.inf:
                    continue
                after = _after(left, own_s[e, there], where[e, there], reads[e, there], line)
                if after < best:
                    best, target, chosen = after, there, e
        if target < 0:
            break
        d = domain[chosen]
        line = table[pattern[chosen]]
        _put(load, own_s[chosen, d], where[chosen, d], reads[chosen, d], line, -1.0)
        _put(load, own_s[chosen, target], where[chosen, target], reads[chosen, target], line, 1.0)
        domain[chosen] = target
        moves += 1
    return moves


@njit(nogil=True, cache=True)
def _run(  # type: ignore[no-untyped-def]
    own_s,
    where,
    reads,
    pattern,
    table,
    tokens,
    layout,
    base_s,
    by_layout,
    refine,
    every,
    max_moves,
    domain,
    load,
    moves,
):
    left = np.empty(load.shape[1])
    for m in range(tokens.shape[0]):
        for r in range(load.shape[1]):
            load[m, r] = base_s[m, r]
        for e in range(tokens.shape[1]):
            domain[m, e] = -1
            if tokens[m, e] <= 0:
                continue
            best = 0
            for d in range(1, 3):
                if own_s[m, e, d] < own_s[m, e, best]:
                    best = d
            if by_layout and own_s[m, e, layout[m, e]] < np.inf:
                best = layout[m, e]
            domain[m, e] = best
            _put(load[m], own_s[m, e, best], where[m, e, best], reads[m, e, best], table[pattern[m, e]], 1.0)
        if refine:
            moves[m] = _refine(
                own_s[m], where[m], reads[m], pattern[m], table, domain[m], load[m], left, every, max_moves
            )
            # Once more from nothing, so that rounding of the moves is not left in the sums.
            for r in range(load.shape[1]):
                load[m, r] = base_s[m, r]
            for e in range(tokens.shape[1]):
                d = domain[m, e]
                if d >= 0:
                    _put(load[m], own_s[m, e, d], where[m, e, d], reads[m, e, d], table[pattern[m, e]], 1.0)


def schedule_domains(
    problem: DomainProblem,
    start: int = START_GREEDY,
    refine: bool = True,
    every: bool = False,
    max_moves: int = DEFAULT_MOVES,
) -> DomainSchedule:
    """The published schedule of every row. ``start``: 0 greedy, 1 by layout. ``every``: refinement tries all experts
    that load the bottleneck instead of the costliest alone. Raises ValueError with a sentence."""
    p = problem
    rows, experts = np.shape(p.tokens)
    if p.base_s.shape != (rows, p.table.shape[1]):
        raise ValueError(f"base_s has shape {p.base_s.shape}; accepted is {(rows, p.table.shape[1])}")
    if start not in (START_GREEDY, START_LAYOUT):
        raise ValueError(f"start is {start}; accepted are 0 (greedy) and 1 (layout)")
    own = kernel_input(p.own_s, np.float64)
    tokens = kernel_input(p.tokens, np.int32)
    stuck = (tokens > 0) & ~np.isfinite(own.min(axis=2))
    if stuck.any():
        row, expert = (int(i) for i in np.argwhere(stuck)[0])
        raise ValueError(f"expert {expert} in row {row} has tokens, but no domain that can run it in finite time")
    where = kernel_input(p.where, np.int32)
    pattern = kernel_input(p.pattern, np.int32)
    for name, index, size in (("where", where, p.table.shape[1]), ("pattern", pattern, p.table.shape[0])):
        if index.size and not 0 <= int(index.min()) <= int(index.max()) < size:
            raise ValueError(f"{name} runs from {index.min()} to {index.max()}; accepted are 0 to {size - 1}")
    found = DomainSchedule(
        np.empty((rows, experts), np.int8), np.empty((rows, p.table.shape[1])), np.zeros(rows, np.int32)
    )
    _run(  # type: ignore[call-arg]
        own, where, kernel_input(p.reads, np.float64), pattern, kernel_input(p.table, np.float64), tokens,
        kernel_input(p.layout, np.int32), kernel_input(p.base_s, np.float64), start == START_LAYOUT, bool(refine),
        bool(every), int(max_moves), found.domain, found.load_s, found.moves,
    )  # fmt: skip
    return found


def improve_domains(problem: DomainProblem) -> DomainSchedule:
    """Of four searches (both starts, the costliest expert or every expert), the shortest of each row."""
    runs = [
        schedule_domains(problem, start, every=every)
        for start in (START_GREEDY, START_LAYOUT)
        for every in (False, True)
    ]
    best = np.argmin(np.stack([run.makespan_s for run in runs]), axis=0)
    rows = np.arange(len(best))
    return DomainSchedule(
        *(np.stack([getattr(run, name) for run in runs])[best, rows] for name in ("domain", "load_s", "moves"))
    )


def lower_bound_s(problem: DomainProblem, iterations: int = 300) -> np.ndarray:
    """Proven lower bound on the makespan of every row, float64 [rows], s.

    Weak duality of the linear programme in which experts may be split: for any prices of the resources that add up to
    1, ``T >= price . base + sum_e min_d (price . load of e in d)``. The prices follow the loads (multiplicative
    weights). No schedule is shorter than the quickest way of any expert either.
    """
    p = problem
    rows, resources = p.base_s.shape
    patterns = p.table.shape[0]
    there = np.asarray(p.tokens) > 0
    own = np.where(there[..., None], p.own_s, 0.0)
    reads = np.where(there[..., None], p.reads, 0.0)
    best = np.where(there, p.own_s.min(axis=2), 0.0).max(axis=1, initial=0.0)
    row = np.arange(rows)[:, None]
    price = np.full((rows, resources), 1.0 / resources)
    for iteration in range(iterations):
        with np.errstate(invalid="ignore"):  # 0 x inf: a way that is not open
            own_cost = np.take_along_axis(price, p.where.reshape(rows, -1), 1).reshape(own.shape) * own
        read_cost = np.take_along_axis(price @ p.table.T, p.pattern, 1)[..., None] * reads
        cost = np.where(np.isfinite(own), own_cost + read_cost, np.inf)
        chosen = cost.argmin(axis=2)[..., None]

        def of(values: np.ndarray, chosen: np.ndarray = chosen) -> np.ndarray:
            return np.asarray(np.take_along_axis(values, chosen, 2)[..., 0])

        best = np.maximum(best, (price * p.base_s).sum(axis=1) + of(cost).sum(axis=1))
        at = (row * resources + of(p.where)).ravel()
        load = p.base_s + np.bincount(at, of(own).ravel(), rows * resources).reshape(rows, resources)
        at = (row * patterns + p.pattern).ravel()
        load = load + np.bincount(at, of(reads).ravel(), rows * patterns).reshape(rows, patterns) @ p.table
        size = 0.5 / np.sqrt(1.0 + iteration)
        price = price * np.exp(size * load / np.maximum(load.max(axis=1, keepdims=True), 1e-300))
        price = price / price.sum(axis=1, keepdims=True)
    return np.asarray(best)


def warm() -> None:
    """Compile (or load from the cache) the kernels on a tiny input."""
    one = np.ones((1, 2, 3))
    index = np.zeros((1, 2), int)
    schedule_domains(
        DomainProblem(
            one,
            np.zeros((1, 2, 3), int) + np.arange(3),
            one,
            index,
            np.ones((1, 4)),
            index + 1,
            index,
            np.zeros((1, 4)),
        )
    )
