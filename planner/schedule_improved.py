"""Assignment of a layer's experts to GPU, CPU and near-data DIMMs close to the optimum, with a proof of how close.

The improved mode for the problem of :mod:`planner.schedule`, whose published refinement leaves tens of per cent on the
table. For each row:

1. Local search from the published schedule (:mod:`planner.schedule_search`).
2. Prices that try to prove that nothing is faster by more than TOLERANCE (:mod:`planner.schedule_bound`). If they do,
   the row is done.
3. Otherwise bisection between what is proven impossible and the best schedule. A horizon that cannot be disproved comes
   with a mixture of relaxed schedules that fits into it; rounded to whole ones and searched from there, it mostly gives
   a better schedule. The end is a schedule within TOLERANCE of the bound, or the best bound that prices can prove.

The lower bound is valid for the whole problem, contention and host channels included; the proof is in
:mod:`planner.schedule_bound`. Everything is deterministic unless a time budget is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from planner.schedule import NONE, ScheduleResult, schedule_layers
from planner.schedule_knapsack import prepare
from planner.schedule_prove import Pool, empty_pool, prove
from planner.schedule_search import fill_loads, search, whole

TOLERANCE = 5e-4
"""A row is done when its makespan is proven to be within this share of the optimum."""
TURNS = 4
"""Whole schedules made from one mixture."""
TRIES = 24
"""Whole schedules searched from, for one row."""
FIRST_TRIALS, SPLIT_TRIALS, FULL_TRIALS = 5_000, 3_000, 10_000
"""Pairs that exchanges may try: from the published schedule, between GPU and CPU only, everywhere."""
ALL_TRIALS = 30_000
"""The same, for all schedules of one row together."""
BETTER = 1.0 - 1e-12
"""A schedule is better if it is shorter by more than rounding."""


@dataclass(frozen=True)
class ImprovedResult(ScheduleResult):
    """A schedule for each row with proof of its quality; ``moves`` counts experts placed unlike the published one."""

    lower_bound_s: np.ndarray
    """float64 [rows], proven: no schedule of the row is shorter"""
    gap: np.ndarray
    """float64 [rows], makespan over lower bound, minus 1; zero for a row without any load"""


class Row(NamedTuple):
    """The active experts of one row, as the kernels take them."""

    seconds: np.ndarray
    """float64 [3, experts] on GPU, CPU, NDP, inf where impossible"""
    host: np.ndarray
    """float64 [2, experts], seconds of the host channels if it runs on the GPU, the CPU"""
    dimm: np.ndarray
    """float64 [2, experts], the same for its home DIMM, or for every DIMM if striped"""
    home: np.ndarray
    """int64 [experts], -1 striped"""
    base: np.ndarray
    """float64 [3 + dimms], seconds of GPU, CPU, host channels and DIMMs before any expert"""


class Kit(NamedTuple):
    """The kernels of a row, compiled or plain."""

    search: Callable[..., Any]
    whole: Callable[..., Any]
    prove: Callable[..., Any]


COMPILED = Kit(search, whole, prove)


def least_makespan(row: Row) -> float:
    """What no schedule of the row can beat, at a glance: the base load, or one expert alone at its best."""
    longest = float(row.base.max())
    if row.home.size:
        on = np.where(row.home >= 0, row.base[3 + row.home], row.base[3])
        best = on + row.seconds[2]
        for k in (0, 1):
            away = np.maximum(row.base[k] + row.seconds[k], row.base[2] + row.host[k])
            best = np.minimum(best, np.maximum(away, on + row.dimm[k]))
        longest = max(longest, float(best.max()))
    return longest


def whole_schedules(row: Row, pool: Pool, kit: Kit) -> Iterator[np.ndarray]:
    """Whole schedules near the mixture that no price could disprove, each beginning at another DIMM."""
    mixed = np.flatnonzero(pool.weights > 1e-9)
    dimms = row.base.shape[0] - 3
    for turn in range(TURNS if mixed.size else 0):
        domain = np.zeros(row.home.shape[0], np.int64)
        place = (row.home + turn * dimms // TURNS) % dimms
        order = np.argsort(np.where(row.home >= 0, place, dimms), kind="stable")
        kit.whole(
            row.seconds, row.host, row.home, order, pool.keep[mixed], pool.away[mixed], pool.weights[mixed], domain
        )
        yield domain


class RowWork:
    """Work on one row: the best schedule so far, and what is proven about it."""

    def __init__(self, row: Row, start: np.ndarray, kit: Kit = COMPILED) -> None:
        self.row, self.kit, self.tries = row, kit, 0
        self.domain = start.copy()
        """int64 [experts]"""
        self.makespan, _ = kit.search(*row, self.domain, 0.0, 3, FIRST_TRIALS)
        self.trials = ALL_TRIALS
        self.lower = min(least_makespan(row), self.makespan)
        """No schedule is shorter: proven."""

    def run(self, late: Callable[[], bool] = lambda: False) -> None:
        """Improve and prove until both meet, tries run out, or ``late`` says so."""
        if self.lower >= self.makespan * BETTER or late():
            return
        row = self.row
        tables = prepare(row.seconds, row.dimm, row.home, row.base)
        self.pool, cuts, number = empty_pool(row.home.shape[0])

        def disproved(horizon: float) -> bool:
            return bool(self.kit.prove(horizon, *row, tables, self.pool, cuts, number))

        horizon, open_s = self.makespan * (1.0 - TOLERANCE), self.makespan
        step = 4.0 * TOLERANCE
        while self.lower < self.makespan * (1.0 - TOLERANCE) and not late():
            if disproved(horizon):
                self.lower = horizon
            else:
                self._look_near(horizon)
                open_s = min(horizon, self.makespan)  # the shortest that could not be disproved
            if self.lower >= open_s * (1.0 - TOLERANCE):
                break
            horizon = max(0.5 * (self.lower + open_s), open_s * (1.0 - step))
            step *= 4.0
        self.lower = min(self.lower, self.makespan)

    def _look_near(self, horizon: float) -> None:
        """Look near the mixture found for this horizon for better schedules.

        DIMMs of a rounded mixture are within their room, so GPU and CPU are balanced first, all else only then.
        """
        for domain in whole_schedules(self.row, self.pool, self.kit):
            if self.makespan <= horizon or self.tries == TRIES:
                break
            self.tries += 1
            made, left = self.kit.search(*self.row, domain, horizon, 2, SPLIT_TRIALS)
            self.trials -= SPLIT_TRIALS - left
            if made > horizon and self.trials > 0:
                made, left = self.kit.search(*self.row, domain, horizon, 3, FULL_TRIALS)
                self.trials -= FULL_TRIALS - left
            if made < self.makespan * BETTER:
                self.domain, self.makespan = domain, made


def improve_layers(
    gpu_s: np.ndarray,
    cpu_s: np.ndarray,
    ndp_s: np.ndarray,
    tokens: np.ndarray,
    home: np.ndarray,
    gpu_reads: np.ndarray,
    cpu_reads: np.ndarray,
    dimm_read_bytes_per_s: float,
    host_bytes_per_s: float,
    base_gpu_s: np.ndarray,
    base_cpu_s: np.ndarray,
    base_host_s: np.ndarray,
    dimms: int,
    published: ScheduleResult,
    budget_s: float | None = None,
    kit: Kit = COMPILED,
) -> ImprovedResult:
    """A schedule of every row near its optimum, with a proven lower bound; never longer than ``published``.

    The arguments before ``published`` are those of :func:`planner.schedule.schedule_layers`, which made it. budget_s:
    time after which no more work is begun, longest rows first; rows not reached keep the published schedule and a weak
    bound, and the result depends on the machine's speed. Without it the result is deterministic. kit: the kernels,
    compiled or plain. Raises ValueError with a sentence.
    """
    arguments = (gpu_s, cpu_s, ndp_s, tokens, home, gpu_reads, cpu_reads, dimm_read_bytes_per_s, host_bytes_per_s)
    bases = (base_gpu_s, base_cpu_s, base_host_s)
    schedule_layers(*arguments, *bases, dimms, refine=False)  # refuses what is wrong, each with its sentence
    rows, experts = np.shape(tokens)
    if published.domain.shape != (rows, experts) or published.ndp_s.shape != (rows, dimms):
        raise ValueError(
            f"published is a schedule of shape {published.domain.shape} on {published.ndp_s.shape[-1]} DIMMs; accepted "
            f"is one of the same layers, {(rows, experts)} on {dimms}"
        )
    if not np.array_equal(published.domain == NONE, np.asarray(tokens) <= 0):
        raise ValueError("published leaves out other experts than those without tokens; it is of other layers")
    if budget_s is not None and not budget_s >= 0:
        raise ValueError(f"budget_s is {budget_s}; accepted is a time of at least 0, or None for no limit")
    end = np.inf if budget_s is None else time.perf_counter() + budget_s
    result = ImprovedResult(
        **{name: getattr(published, name).copy() for name in ScheduleResult.__dataclass_fields__},
        lower_bound_s=np.zeros(rows),
        gap=np.zeros(rows),
    )
    result.moves[:] = 0
    for m in np.argsort(-published.makespan_s, kind="stable"):
        active = np.flatnonzero(np.asarray(tokens)[m] > 0)
        row = _row(arguments, bases, dimms, int(m), active)
        if time.perf_counter() >= end:
            result.lower_bound_s[m] = min(least_makespan(row), published.makespan_s[m])
            continue
        start = published.domain[m, active].astype(np.int64)
        work = RowWork(row, start, kit)
        work.run(lambda: time.perf_counter() >= end)
        result.lower_bound_s[m] = min(work.lower, published.makespan_s[m])
        if work.makespan < published.makespan_s[m] * BETTER:
            load = np.empty(3 + dimms)
            result.makespan_s[m] = fill_loads(*row, work.domain, load)
            result.gpu_s[m], result.cpu_s[m], result.host_s[m] = load[:3]
            result.ndp_s[m] = load[3:]
            result.domain[m, active] = work.domain
            result.moves[m] = np.count_nonzero(work.domain != start)
    some = result.lower_bound_s > 0
    result.gap[some] = np.maximum(result.makespan_s[some] / result.lower_bound_s[some] - 1.0, 0.0)
    return result


def _row(arguments: tuple[Any, ...], bases: tuple[Any, ...], dimms: int, m: int, active: np.ndarray) -> Row:
    """Row m of the arguments of :func:`improve_layers`, active experts only, bytes as seconds."""
    gpu, cpu, ndp, _, homes, gpu_reads, cpu_reads, rank_rate, host_rate = arguments
    home = np.asarray(homes)[m, active].astype(np.int64)
    near = np.where(home >= 0, np.asarray(ndp)[m, active], np.inf)
    reads = np.stack([np.asarray(gpu_reads)[m, active], np.asarray(cpu_reads)[m, active]]).astype(float)
    base_gpu, base_cpu, base_host = (float(base[m]) for base in bases)
    base = np.full(3 + dimms, base_host * host_rate / dimms / rank_rate)
    base[:3] = base_gpu, base_cpu, base_host
    return Row(
        np.stack([np.asarray(gpu)[m, active], np.asarray(cpu)[m, active], near]).astype(float),
        reads / host_rate,
        reads / rank_rate / np.where(home >= 0, 1, dimms),
        home,
        base,
    )


def warm() -> None:
    """Compile (or load from the cache) the kernels on a tiny input."""
    one, none = np.ones((1, 4)), np.zeros(1)
    tables = (one, 2 * one, one, one, np.zeros((1, 4)), one, one, 1.0, 1.0, none, none, none, 1)
    improve_layers(*tables, schedule_layers(*tables, refine=False))
    row = _row(tables[:9], tables[9:12], 1, 0, np.arange(4))
    work = RowWork(row, np.zeros(4, np.int64))
    work.pool, cuts, number = empty_pool(4)
    prove(1.0, *row, prepare(row.seconds, row.dimm, row.home, row.base), work.pool, cuts, number)
    work.pool.weights[0] = 1.0
    next(whole_schedules(row, work.pool, COMPILED))
