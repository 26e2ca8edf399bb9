"""TriMoE over 256 decode steps of DeepSeek-V2 (59 x 160, batch 512, 16 DIMMs), all mechanisms, on one core, warm."""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.report import Row, median_s, show
from planner.kernels import warm_all
from planner.layout import SimulationOptions, loads, simulate
from planner.layout.reference import decide_reference, run_tasks_reference
from planner.layout.simulation import Setting, prepare
from planner.layout.state import begin
from planner.layout.tasks import empty_moved
from planner.policies.trimoe_costs import expected_costs
from planner.routing import Sequence
from planner.routing.sequence import forget
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload

STEPS, FEW, PLAIN = 256, 16, 2
AIM_S = 3.0
SCENARIO = Scenario(
    model=ModelChoice(id="deepseek-ai/DeepSeek-V2"),
    system=SystemChoice(id="trimoe-server"),
    policy=PolicyChoice(id="trimoe"),
    workload=Workload(batch=512),
)


def plain_s(setting: Setting, sequence: Sequence) -> float:
    """Seconds of one step of decisions and transfers in plain Python."""
    state, sizes = begin(setting.placed.resident, setting.placed.home, setting.sizes), setting.sizes
    average = sequence.counts[0].astype(float)
    cost = np.stack(expected_costs(setting.ctx, average, setting.placed.stored), axis=-1)
    moved = empty_moved(sizes, setting.rates)

    def once() -> None:
        decide_reference(state, sizes, average, cost, setting.frame.base_s, 0.001)
        run_tasks_reference(state, sizes, setting.rates, setting.free_s, moved)

    return median_s(once, PLAIN)


def main() -> int:
    warm_all()
    layout, greedy = (SimulationOptions(start=start) for start in ("layout", "greedy"))
    improved = SimulationOptions(start="layout", schedule="improved")
    still = SimulationOptions(start="layout", prefetch=False, relayout=False, rebalance=False)
    setting = prepare(SCENARIO, layout)

    def draw() -> Sequence:
        forget()
        return loads(SCENARIO, STEPS, layout, setting)

    sequence = draw()
    few = Sequence(sequence.counts[:FEW].copy(), sequence.begun[:FEW].copy(), 512, "the first steps", None, None, None)
    drawing = median_s(draw, 3)
    all_of_it = median_s(lambda: simulate(SCENARIO, options=layout, sequence=sequence), 5)
    without = median_s(lambda: simulate(SCENARIO, options=still, sequence=sequence), 5)
    background = (all_of_it - without) / STEPS
    return show(
        f"TriMoE simulated, DeepSeek-V2, batch 512, {STEPS} steps, one core",
        [
            Row("all mechanisms, layout start, refinement", all_of_it, "s", aim=AIM_S),
            Row("  schedules and costs alone", without, "s", without / all_of_it, "all"),
            Row(
                "all mechanisms, greedy start",
                median_s(lambda: simulate(SCENARIO, options=greedy, sequence=sequence), 3),
                "s",
            ),
            Row("drawing the routing of these steps", drawing, "s"),
            Row(
                f"improved schedule, {FEW} steps",
                median_s(lambda: simulate(SCENARIO, options=improved, sequence=few), 1),
                "s",
            ),
            Row("decisions and transfers of a step", 1e3 * background, "ms"),
            Row(
                "  plain twin",
                1e3 * plain_s(setting, sequence),
                "ms",
                plain_s(setting, sequence) / max(background, 1e-9),
                "compiled",
            ),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
