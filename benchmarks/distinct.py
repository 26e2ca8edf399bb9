"""Plans of a sweep: with the routing cached, and where prompt, batch or everything differs from the plan before.

CPU time of one core, figures alone (no ranges, no marginal values). The aims are those of a sweep on two cores: 200
plans per second for 8 experts, 20 for 58 x 256 with routing cached.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable

import planner
from benchmarks.report import Row, show
from planner.routing import clear_cache
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload

CORES = 2
CASES = (
    ("Mixtral, all-gpu", "mistralai/Mixtral-8x7B-v0.1", "8x-h200-sxm", "all-gpu", 64, 200.0),
    ("Mixtral, cpu-experts", "mistralai/Mixtral-8x7B-v0.1", "h100-amx-server", "cpu-experts", 8, 200.0),
    ("Mixtral, trimoe", "mistralai/Mixtral-8x7B-v0.1", "trimoe-server", "trimoe", 64, 200.0),
    ("DeepSeek-V3, all-gpu", "deepseek-ai/DeepSeek-V3", "8x-h200-sxm", "all-gpu", 256, 20.0),
    ("DeepSeek-V3, cpu-experts", "deepseek-ai/DeepSeek-V3", "h100-amx-server", "cpu-experts", 8, 20.0),
    ("DeepSeek-V3, trimoe", "deepseek-ai/DeepSeek-V3", "trimoe-server", "trimoe", 256, 20.0),
)


def cpu_ms(work: Callable[[], object], repeats: int = 7) -> float:
    """Median CPU time of this process: other work on the machine counts as little as may be."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times)


def rows(name: str, model: str, system: str, policy: str, batch: int, aim_per_s: float) -> list[Row]:
    numbers = itertools.count(1)

    def plan(**load: int) -> None:
        workload = Workload(**{"batch": batch, **load})
        asked = Scenario(
            model=ModelChoice(id=model),
            system=SystemChoice(id=system),
            policy=PolicyChoice(id=policy),
            workload=workload,
        )
        planner.plan(asked, with_ranges=False, with_marginals=False)

    def afresh() -> None:
        clear_cache()
        plan()

    plan()
    warm = cpu_ms(plan)
    prompt = cpu_ms(lambda: plan(prompt_tokens=1024 + next(numbers)))
    other = cpu_ms(lambda: plan(batch=batch + next(numbers)))
    cold = cpu_ms(afresh)
    return [
        Row(name, warm, "ms", aim=1e3 * CORES / aim_per_s, note=f"{CORES * 1e3 / warm:,.0f} plans/s on {CORES} cores"),
        Row("  another prompt length", prompt, "ms", prompt / warm, "warm"),
        Row("  another batch", other, "ms", other / warm, "warm"),
        Row("  nothing cached", cold, "ms", cold / warm, "warm"),
    ]


def main() -> int:
    return show("Plans of a sweep, CPU time of one core", [row for case in CASES for row in rows(*case)])


if __name__ == "__main__":
    sys.exit(main())
