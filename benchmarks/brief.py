"""Time to the brief: its facts without and with what would change the decision, and each of its files."""

from __future__ import annotations

import sys
from time import perf_counter

from benchmarks.report import Row, show
from planner.brief import Brief, brief, completed, export
from planner.fields import set_paths
from planner.scenario import Scenario
from planner.sweep import executor

SMALL = set_paths(Scenario(), {"model.id": "allenai/OLMoE-1B-7B-0924", "routing.steps": 4, "workload.batch": 2})
SCENARIOS = {
    "Mixtral-8x7B": Scenario(),
    "DeepSeek-V3": set_paths(
        Scenario(), {"model.id": "deepseek-ai/DeepSeek-V3", "system.id": "8x-h200-sxm", "workload.batch": 256}
    ),
}


def main() -> int:
    rows, made = [], None
    for name, scenario in SCENARIOS.items():
        brief(scenario, with_flips=False)  # kernels and catalogs
        start = perf_counter()
        made = brief(scenario, with_flips=False)
        rows.append(Row(f"{name}: facts", perf_counter() - start, "s"))
        start = perf_counter()
        made = brief(scenario)
        rows.append(Row(f"{name}: facts with flip points, one process", perf_counter() - start, "s"))
        processes = executor("processes")
        completed(brief(SMALL, with_flips=False), processes)  # start the workers
        early = brief(scenario, with_flips=False)
        start = perf_counter()
        completed(early, processes)
        rows.append(Row(f"{name}: flip points alone, worker processes", perf_counter() - start, "s"))
    assert isinstance(made, Brief)
    for form in ("html", "xlsx", "csv", "pdf"):
        export(made, form)
        start = perf_counter()
        size = len(export(made, form))
        rows.append(Row(f"{form}, {size / 1e3:.0f} kB", perf_counter() - start, "s"))
    return show("Time to the brief", rows)


if __name__ == "__main__":
    sys.exit(main())
