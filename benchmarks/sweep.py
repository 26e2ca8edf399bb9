"""Plans per second of a sweep in worker processes, routing cached, and the share of the workers' time lost to overhead.

Every point differs in one price, so that all share one routing and nothing is planned twice. The first sweep starts the
workers; the second is the figure. The aim is judged on processor time, which other work on the machine does not change:
that of a plan alone, and what this process spends on laying out, sending and collecting it. The wall time stands by.
"""

from __future__ import annotations

import sys
import time

from benchmarks.report import Row, show
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from planner.sweep import Axis, Span, SweepResult, SweepSpec, sweep
from planner.sweep.executors.processes import Processes, cores
from planner.sweep.outcome import outcome

PRICE = "system.overrides.dram.price_usd_per_gb"
CASES: dict[str, tuple[Scenario, int, float]] = {
    # name: scenario, points, plans per second aimed at on two cores
    "8 experts (Mixtral, all-gpu)": (Scenario(), 400, 200.0),
    "8 experts (Mixtral, cpu-experts)": (
        Scenario(system=SystemChoice(id="h100-amx-server"), policy=PolicyChoice(id="cpu-experts")), 400, 200.0,
    ),
    "58 x 256 (DeepSeek-V3, trimoe, published refinement)": (
        Scenario(
            model=ModelChoice(id="deepseek-ai/DeepSeek-V3"),
            system=SystemChoice(id="trimoe-server"),
            policy=PolicyChoice(id="trimoe"),
            workload=Workload(batch=256),
        ),
        80,
        20.0,
    ),
}  # fmt: skip


def timed(spec: SweepSpec, pool: Processes) -> tuple[float, float, SweepResult]:
    """Wall seconds of a sweep, processor seconds of this process, and what it came to."""
    start, used = time.perf_counter(), time.process_time()
    found = sweep(spec, executor=pool)
    return time.perf_counter() - start, time.process_time() - used, found


def alone_s(spec: SweepSpec, found: SweepResult, most: int = 40) -> float:
    """Mean processor seconds of one plan in this process, over up to ``most`` of the points, warm."""
    scenarios = [found.scenario(point) for point in found.points[:most]]
    outcome(scenarios[0])
    start = time.process_time()
    for scenario in scenarios:
        outcome(scenario)
    return (time.process_time() - start) / len(scenarios)


def rows(name: str, pool: Processes) -> list[Row]:
    """Seconds per plan of one case and what is lost."""
    base, count, aim = CASES[name]
    spec = SweepSpec(base=base, axes=(Axis(path=PRICE, linear=Span(low=1.0, high=30.0, count=count)),))
    timed(spec, pool)
    wall, used, found = timed(spec, pool)
    if len(found.fitting) != count:
        raise RuntimeError(f"{name}: {count - len(found.fitting)} points do not fit")
    one, spent, lanes = alone_s(spec, found), used / count, len(pool.lanes)
    each = (one + spent) / lanes
    return [
        Row(
            name,
            1e3 * each,
            "ms per plan",
            aim=1e3 / aim,
            note=f"{1 / each:.0f} plans/s on {lanes} idle cores",
        ),
        Row("  overhead of that", 100 * spent / (one + spent), "%", note=f"a plan alone: {1e3 * one:.1f} ms of a core"),
        Row("  wall time here and now", 1e3 * wall / count, "ms per plan"),
    ]


def main() -> int:
    pool = Processes(cores())
    try:
        found = [row for name in CASES for row in rows(name, pool)]
    finally:
        pool.close()
    return show(f"A sweep on {len(pool.lanes)} worker processes, routing cached", found)


if __name__ == "__main__":
    sys.exit(main())
