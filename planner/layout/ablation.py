"""The paper's ablation: GPU and near-data DIMMs alone, then one mechanism of TriMoE more in each row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.layout.records import AblationRow, SimulationOptions
from planner.layout.simulation import DEFAULT_STEPS, Setting, loads, prepare, simulate
from planner.policies import get
from planner.routing import Sequence
from planner.scenario import Scenario
from planner.step import time_pass

PUBLISHED = (1.75, 1.28, 1.16)
"""Ratios of + AMX CPU, + refinement, + relayout in TriMoE (second-hand)."""
CHUNK = 16  # steps timed at once


def ablation(
    scenario: Scenario,
    steps: int = DEFAULT_STEPS,
    options: SimulationOptions | None = None,
    hot_share: float | None = None,
) -> tuple[AblationRow, ...]:
    """Base, + AMX CPU, + refinement, + migration, all on the same steps.

    Base is the policy ``monde`` on the same DIMMs with the same experts in HBM, experts dealt out by the offline
    profile and left there. hot_share: share of the active experts that it moves to the GPU, rounded up (1/17 in a
    public re-implementation of MoNDE); None = by the ratio of bandwidths. The second row starts by layout or from
    greedy, as options or scenario say, without refinement; the last has prefetch, relayout and rebalancing.
    """
    options = (options or SimulationOptions()).model_copy(update={"cpu": True, "ndp": True})
    if (options.schedule or scenario.policy.options.get("schedule")) == "greedy":
        options = options.model_copy(update={"schedule": "published"})
    setting = prepare(scenario, options)
    sequence = loads(scenario, steps, options, setting)
    still: dict[str, object] = {"prefetch": False, "relayout": False, "rebalance": False}
    start = options.start or setting.ctx.option("start", "greedy")
    runs: tuple[tuple[str, str, dict[str, object]], ...] = (
        ("+ AMX CPU", f"three domains, assigned {_start(str(start))}, layout fixed", {**still, "schedule": "greedy"}),
        ("+ refinement", "bottleneck refinement of every step", still),
        ("+ relayout", "prefetch, relayout and rebalancing in the background", {}),
    )
    base = _base_step_s(setting, sequence, hot_share)
    rows = [_row("GPU + NDP", _base_words(hot_share), base, scenario, None, None)]
    for (name, what, changes), published in zip(runs, PUBLISHED, strict=True):
        step = simulate(scenario, steps, options.model_copy(update=changes), sequence).mean_step_s
        rows.append(_row(name, what, step, scenario, rows[-1], published))
    return tuple(rows)


def _start(start: str) -> str:
    return "by layout" if start == "layout" else "each expert to its fastest domain"


def _base_words(hot_share: float | None) -> str:
    moved = "as many as the bandwidths balance" if hot_share is None else f"{hot_share:.3g} of the active ones"
    return f"MoNDE on the same DIMMs: the hottest experts, {moved}, move to the GPU; placement fixed"


def _row(
    name: str, what: str, step_s: float, scenario: Scenario, before: AblationRow | None, published: float | None
) -> AblationRow:
    rate = scenario.workload.batch / step_s
    return AblationRow(
        name=name,
        what=what,
        mean_step_s=step_s,
        tokens_per_s=rate,
        ratio=rate / before.tokens_per_s if before else None,
        published=published,
    )


def _base_step_s(setting: Setting, sequence: Sequence, hot_share: float | None) -> float:
    """Mean step of MoNDE on these steps, with TriMoE's number of experts in HBM and its places of KV and attention."""
    monde = get("monde")
    counts = sequence.counts
    own = {o.name for o in monde.options}
    chosen = {name: value for name, value in setting.ctx.scenario.policy.options.items() if name in own}
    if hot_share is not None:
        chosen["hot_experts"] = int(np.ceil(hot_share * float((counts > 0).sum(axis=2).mean())))
    policy = setting.ctx.scenario.policy.model_copy(
        update={
            "id": monde.id,
            "options": chosen,
            "gpu_experts_per_layer": setting.ready.resident_per_layer,
            "kv_location": setting.ready.kv_location,
            "attention_device": setting.ready.attention_device,
        }
    )
    ctx = replace(setting.ctx, scenario=setting.ctx.scenario.model_copy(update={"policy": policy}))
    ready = monde.prepare(ctx)
    placed = monde.place(ctx, ready, setting.routing)
    total = 0.0
    for first in range(0, counts.shape[0], CHUNK):
        part = setting.routing.replaced(counts=counts[first : first + CHUNK])
        timing = time_pass(monde.decode(ctx, ready, placed, part), ctx.machine, ctx.accepted_per_pass)
        total += float(timing.total_s.mean(axis=0).sum())
    return total / counts.shape[0]
