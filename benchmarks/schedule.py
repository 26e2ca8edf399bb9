"""The improved schedule against the published one and against a solver: python -m benchmarks.schedule

58 layers of 256 experts, top 8, on the machine that TriMoE (arXiv 2603.01058) publishes: 16 DIMMs, uniform to Zipf 1.2,
from the planned layout (hottest experts in HBM, warm ones striped) to all experts localised, 64 to 4,096 tokens. The
solver is CP-SAT of OR-tools on the definition of the problem, given the improved schedule as a hint and all cores; it
takes part in a few layers of each case, for at most ``--seconds`` each. All times are CPU times of the process, so that
other work on the machine disturbs them less.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.report import Row, show
from planner.deal import deal
from planner.schedule import START_LAYOUT, ScheduleResult, schedule_layers, warm
from planner.schedule_improved import ImprovedResult, improve_layers
from planner.schedule_improved import warm as warm_improved

LAYERS, EXPERTS, TOP_K, DIMMS, RESIDENT = 58, 256, 8, 16, 16
ZIPF, LAYOUTS, BATCHES = (0.0, 0.4, 0.8, 1.2), ("planned", "half striped", "all localised"), (64, 512, 4096)
EXPERT_BYTES = EXPERT_FLOP = 2 * 3 * 4096 * 1536
HBM, PCIE, HOST, CHANNEL, RANKS = 2.0e12, 64e9, 307.2e9, 38.4e9, 153.6e9
GPU_FLOP, CPU_FLOP, NDP_FLOP = 250e12, 20e12, 256e9
UNITS = 10**7
"""The solver's whole numbers: the improved makespan is this long."""

Case = dict[str, Any]


def token_counts(
    rng: np.random.Generator, layers: int, experts: int, top_k: int, batch: int, zipf: float
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of each expert, [layers, experts], batch tokens with top_k distinct experts each; and the popularity."""
    popularity = rng.permuted(np.tile(np.arange(1.0, experts + 1) ** -zipf, (layers, 1)), axis=1)
    tokens = np.empty((layers, experts), np.int64)
    for layer, weights in enumerate(popularity):
        keys = np.log(weights) + rng.gumbel(size=(batch, experts))
        chosen = np.argpartition(-keys, top_k - 1, axis=1)[:, :top_k]
        tokens[layer] = np.bincount(chosen.ravel(), minlength=experts)
    return tokens, popularity


def layers_of(
    seed: int, layers: int, zipf: float, layout: str, batch: int, experts: int = EXPERTS, dimms: int = DIMMS,
    resident: int = RESIDENT, top_k: int = TOP_K,
) -> Case:  # fmt: skip
    """Arguments of :func:`planner.schedule.schedule_layers` for random layers on TriMoE's machine.

    Layout and homes follow the expected load, times the tokens drawn. planned: of the experts outside HBM the most
    loaded are striped for the CPU, as many as balance it with the DIMMs.
    """
    rng = np.random.default_rng(seed)
    tokens, popularity = token_counts(rng, layers, experts, top_k, batch, zipf)
    mean = np.clip(popularity / popularity.sum(axis=1, keepdims=True) * batch * top_k, 1.0, batch)
    rank = np.argsort(np.argsort(-popularity, axis=1, kind="stable"), axis=1)
    hot = rank < resident
    near = np.maximum(EXPERT_FLOP * mean / NDP_FLOP, EXPERT_BYTES / RANKS)
    striped = np.zeros(hot.shape, bool)
    if layout == "planned":
        order = np.argsort(rank, axis=1)
        warm_s = np.maximum(EXPERT_FLOP * mean / CPU_FLOP, EXPERT_BYTES / HOST)
        on_cpu = np.cumsum(np.take_along_axis(np.where(hot, 0.0, warm_s), order, 1), axis=1)
        on_ndp = np.cumsum(np.take_along_axis(np.where(hot, 0.0, near), order, 1), axis=1)
        split = np.argmin(np.maximum(on_cpu, (on_ndp[:, -1:] - on_ndp) / dimms), axis=1)
        striped = ~hot & (rank <= split[:, None])
    elif layout == "half striped":
        striped = ~hot & (rng.random(hot.shape) < 0.5)
    home = deal(np.where(hot | striped, -1.0, near), dimms)
    read = EXPERT_BYTES / np.where(home < 0, HOST, CHANNEL)
    on_gpu = np.maximum(EXPERT_BYTES / HBM, EXPERT_FLOP * tokens / GPU_FLOP)
    return {
        "gpu_s": np.where(hot, on_gpu, np.maximum(np.maximum(on_gpu, EXPERT_BYTES / PCIE), read)),
        "cpu_s": np.maximum(EXPERT_FLOP * tokens / CPU_FLOP, read),
        "ndp_s": np.where(home < 0, np.inf, np.maximum(EXPERT_FLOP * tokens / NDP_FLOP, EXPERT_BYTES / RANKS)),
        "tokens": tokens,
        "home": home,
        "gpu_reads": np.where(hot, 0.0, float(EXPERT_BYTES)),
        "cpu_reads": np.full(hot.shape, float(EXPERT_BYTES)),
        "dimm_read_bytes_per_s": RANKS,
        "host_bytes_per_s": HOST,
        "base_gpu_s": np.full(layers, 1e-4),
        "base_cpu_s": np.zeros(layers),
        "base_host_s": np.zeros(layers),
        "dimms": dimms,
    }


def loads(case: Case, layer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Active experts; seconds [experts, 3, 3 + dimms] that each option puts on GPU, CPU, host, DIMMs; base load."""
    dimms, rank, host = case["dimms"], case["dimm_read_bytes_per_s"], case["host_bytes_per_s"]
    active = np.flatnonzero(case["tokens"][layer] > 0)
    home = case["home"][layer, active]
    table = np.zeros((active.size, 3, 3 + dimms))
    share = np.where(home[:, None] < 0, 1.0 / dimms, np.arange(dimms) == home[:, None])
    for k, name in enumerate(("gpu", "cpu")):
        reads = case[f"{name}_reads"][layer, active]
        table[:, k, k] = case[f"{name}_s"][layer, active]
        table[:, k, 2] = reads / host
        table[:, k, 3:] = reads[:, None] * share / rank
    near = np.where(home < 0, np.inf, case["ndp_s"][layer, active])
    table[:, 2, 3:] = np.where(share == 1.0, near[:, None], 0.0)
    table[home < 0, 2, :] = np.inf
    base = np.full(3 + dimms, case["base_host_s"][layer] * host / dimms / rank)
    base[:3] = [case[f"base_{name}_s"][layer] for name in ("gpu", "cpu", "host")]
    return active, table, base


@dataclass(frozen=True)
class Solved:
    makespan_s: float
    lower_bound_s: float
    proven: bool
    """optimal, to a relative 1e-4"""


def solve(case: Case, layer: int, hint: np.ndarray, longest: float, limit_s: float) -> Solved:
    """The layer by CP-SAT, minimising the makespan, started from the domains ``hint``, which take ``longest``.

    Loads are rounded down to whole units, so its bound holds for the layer; its schedule is measured unrounded.
    """
    from ortools.sat.python import cp_model

    active, table, base = loads(case, layer)
    unit = UNITS / longest
    model = cp_model.CpModel()
    end = model.new_int_var(0, UNITS, "makespan")
    runs = [{k: model.new_bool_var("") for k in range(3) if np.isfinite(table[i, k]).all()} for i in range(active.size)]
    for i, options in enumerate(runs):
        model.add_exactly_one(options.values())
        for k, variable in options.items():
            model.add_hint(variable, int(hint[active[i]] == k))
    for r in range(base.size):
        terms = [
            int(table[i, k, r] * unit) * variable
            for i, options in enumerate(runs)
            for k, variable in options.items()
            if table[i, k, r] > 0
        ]
        model.add(sum(terms) + int(base[r] * unit) <= end)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit_s
    solver.parameters.relative_gap_limit = 1e-4
    status = solver.solve(model)
    total = base.copy()
    for i, options in enumerate(runs):
        total += sum(table[i, k] * solver.value(variable) for k, variable in options.items())
    bound = solver.best_objective_bound / unit
    return Solved(float(total.max()), bound, status == cp_model.OPTIMAL)


@dataclass(frozen=True)
class Line:
    """One case, all layers; gaps are shares."""

    name: str
    greedy: np.ndarray
    """published from the greedy start over the best known bound, minus 1"""
    layout: np.ndarray
    """the same from the layout start"""
    gap: np.ndarray
    """improved, over its own bound"""
    published_ms: float
    improved_ms: np.ndarray
    """each layer apart"""
    over_solver: np.ndarray
    """improved over the solver's schedule, the layers that it solved to a proof"""
    over_best: np.ndarray
    """improved over the better of the two, the layers where it ended without"""
    bound_loss: np.ndarray
    """1 - own bound over the proven optimum"""
    solver_ms: np.ndarray


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, (time.process_time() - start) * 1e3


def one_layer(case: Case, layer: int) -> Case:
    cut = {key: value[layer : layer + 1] for key, value in case.items() if isinstance(value, np.ndarray)}
    return {**case, **cut}


def improve(case: Case, published: ScheduleResult) -> tuple[ImprovedResult, np.ndarray]:
    """All layers at once, and the milliseconds of each alone (the better of two runs, for the noise of the machine)."""
    whole = improve_layers(**case, published=published)
    times = []
    for layer in range(len(whole.gap)):
        own = one_layer(case, layer)
        first = schedule_layers(**own)
        times.append(min(timed(lambda own=own, first=first: improve_layers(**own, published=first))[1] for _ in "12"))  # type: ignore[misc]
    return whole, np.array(times)


def measure(name: str, case: Case, solved_layers: int, limit_s: float) -> Line:
    published, published_ms = timed(lambda: schedule_layers(**case))
    layout = schedule_layers(**case, start=START_LAYOUT)
    improved, improved_ms = improve(case, published)
    over, best, loss, solver_ms = [], [], [], []
    for layer in range(solved_layers):
        hint, longest = improved.domain[layer], improved.makespan_s[layer]
        found, spent_ms = timed(lambda hint=hint, longest=longest, at=layer: solve(case, at, hint, longest, limit_s))  # type: ignore[misc]
        solver_ms.append(spent_ms)
        if improved.lower_bound_s[layer] > found.makespan_s * (1 + 1e-9):
            raise AssertionError(f"{name}, layer {layer}: the bound is above a schedule of the solver")
        if found.proven:
            over.append(improved.makespan_s[layer] / found.makespan_s - 1)
            loss.append(1 - improved.lower_bound_s[layer] / found.makespan_s)
        else:
            best.append(max(improved.makespan_s[layer] / found.makespan_s - 1, 0.0))
    return Line(
        name, published.makespan_s / improved.lower_bound_s - 1, layout.makespan_s / improved.lower_bound_s - 1,
        improved.gap, published_ms / len(improved.gap), improved_ms, np.array(over), np.array(best), np.array(loss),
        np.array(solver_ms),
    )  # fmt: skip


def percent(values: np.ndarray) -> str:
    return f"{100 * values.mean():6.2f} /{100 * values.max():6.2f}" if values.size else "     - /     -"


def milliseconds(values: np.ndarray) -> str:
    return f"{values.mean():.2f} / {values.max():.2f}" if values.size else "-"


def text(line: Line) -> str:
    ratio = f"{line.solver_ms.mean() / line.improved_ms.mean():,.0f}x" if line.solver_ms.size else "-"
    return (
        f"{line.name:34s}{percent(line.greedy)} |{percent(line.layout)} |{percent(line.gap)} |"
        f"{percent(line.over_solver)} ({line.over_solver.size}) |{percent(line.over_best)} ({line.over_best.size}) |"
        f"{percent(line.bound_loss)} | {line.published_ms:.3f} | {milliseconds(line.improved_ms)} | "
        f"{milliseconds(line.solver_ms)} | {ratio}"
    )


def merged(name: str, lines: list[Line]) -> Line:
    def join(field: str) -> np.ndarray:
        return np.concatenate([getattr(line, field) for line in lines])

    arrays = {f: join(f) for f in Line.__dataclass_fields__ if f not in ("name", "published_ms")}
    return replace(lines[0], name=name, published_ms=float(np.mean([line.published_ms for line in lines])), **arrays)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedule", description=__doc__)
    parser.add_argument("--layers", type=int, default=LAYERS, help="layers of each case")
    parser.add_argument("--solved", type=int, default=1, help="layers of each case that the solver tries")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time of the solver for one layer")
    options = parser.parse_args()
    warm()
    warm_improved()
    print("\nMakespan above a bound or schedule, in per cent, mean / max over layers; CPU ms per layer, mean / max")
    print(
        "case | published over that bound, greedy start | layout start | improved over its own bound | improved over "
        "the solver's proven optimum (layers) | over the best known, not proven (layers) | own bound below the optimum "
        "| published ms | improved ms | solver ms | solver over improved"
    )
    lines: list[Line] = []
    for zipf in ZIPF:
        for layout in LAYOUTS:
            for batch in BATCHES:
                case = layers_of(len(lines), options.layers, zipf, layout, batch)
                name = f"Zipf {zipf}, {layout}, batch {batch:,}"
                lines.append(measure(name, case, min(options.solved, options.layers), options.seconds))
                print(text(lines[-1]), flush=True)
    for group in (*(f"Zipf {zipf}" for zipf in ZIPF), *LAYOUTS, *(f"batch {batch:,}" for batch in BATCHES), ""):
        chosen = [line for line in lines if f", {group}," in f", {line.name},"] if group else lines
        print(text(merged(f"all of {group}" if group else "all", chosen)))
    return summary(merged("all", lines))


def summary(every: Line) -> int:
    published = f"{100 * every.greedy.mean():.1f} % from the greedy start, {100 * every.layout.mean():.1f} % by layout"
    rows = [
        Row("improved, a layer, mean", float(every.improved_ms.mean()), "ms"),
        Row("improved, a layer, slowest", float(every.improved_ms.max()), "ms", aim=20.0),
        Row("improved over its own bound, mean", 100 * float(every.gap.mean()), "%"),
        Row("improved over its own bound, worst", 100 * float(every.gap.max()), "%"),
        Row("published over that bound, mean", 100 * float(every.greedy.mean()), "%", note=published),
    ]
    if every.over_solver.size:
        rows.append(Row("improved over proven optima, worst", 100 * float(every.over_solver.max()), "%", aim=1.0))
    if every.over_best.size:
        rows.append(Row("improved over best known, worst", 100 * float(every.over_best.max()), "%", aim=1.0))
    if every.solver_ms.size:
        ratio = every.solver_ms.mean() / every.improved_ms.mean()
        rows.append(Row("solver, a layer, mean", float(every.solver_ms.mean()), "ms", ratio, "the improved time"))
    return show("Improved schedule", rows)


if __name__ == "__main__":
    sys.exit(main())
