"""The schedule of one step, at its true loads or at the predicted ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from planner.context import Context
from planner.layout.records import SimulationOptions
from planner.physics.operation import Array
from planner.policies.base import Placed
from planner.policies.trimoe_costs import expert_costs, scheduling_problem
from planner.schedule import START_GREEDY, START_LAYOUT, ScheduleResult, schedule_layers


def _problem(
    ctx: Context, placed: Placed, counts: np.ndarray, costs: dict[str, Any], base_gpu_s: Array, o: SimulationOptions
) -> dict[str, Any]:
    """The scheduling problem, rows = MoE layers, with the domains that take part."""
    problem = scheduling_problem(ctx, placed, counts, costs, base_gpu_s)
    for name, takes_part in (("cpu_s", o.cpu), ("ndp_s", o.ndp)):
        if not takes_part:
            problem[name] = np.full_like(problem[name], np.inf)
    return problem


def _published(ctx: Context, problem: dict[str, Any], options: SimulationOptions) -> tuple[str, ScheduleResult]:
    """Which schedule is asked for, and the paper's, refined unless only the first assignment is."""
    start = options.start or str(ctx.option("start", "greedy"))
    chosen = options.schedule or str(ctx.option("schedule", "published"))
    first = START_LAYOUT if start == "layout" else START_GREEDY
    return chosen, schedule_layers(**problem, start=first, refine=chosen != "greedy")


def schedule(
    ctx: Context, placed: Placed, counts: np.ndarray, costs: dict[str, Any], base_gpu_s: Array, o: SimulationOptions
) -> ScheduleResult:
    """The schedule of one step, rows = MoE layers. counts: int [1, layers, experts]."""
    problem = _problem(ctx, placed, counts, costs, base_gpu_s, o)
    chosen, published = _published(ctx, problem, o)
    if chosen != "improved":
        return published
    from planner.schedule_improved import improve_layers  # not needed, nor its kernels, in most simulations

    return improve_layers(**problem, published=published)


def predicted_makespan_s(
    ctx: Context,
    placed: Placed,
    home: np.ndarray,
    resident: np.ndarray,
    load: Array,
    base_gpu_s: Array,
    options: SimulationOptions,
) -> Array:
    """Makespan of each layer if its experts lay so and had the predicted load, float64 [layers], s.

    load: float64 [layers, experts], mean tokens; costs are weighed by the chance that the expert is hit at all, as in
    :func:`planner.policies.trimoe_costs.expected_costs`. By the published schedule, also where the improved one is
    used: that one takes as long for a layer as this for all of them.
    """
    hit = np.maximum(1.0 - np.exp(-load), 1e-12)  # never 0: what cannot run costs infinity all the same
    tokens = np.maximum(load / np.maximum(hit, 1e-30), 1.0)[None]
    there = replace(placed, home=home, resident=resident)
    costs = expert_costs(ctx, there, tokens)
    problem = _problem(ctx, there, np.ceil(tokens).astype(np.int32), costs, base_gpu_s, options)
    for name in ("gpu_s", "cpu_s", "ndp_s", "gpu_reads", "cpu_reads"):
        problem[name] = problem[name] * hit
    return _published(ctx, problem, options)[1].makespan_s
