"""What the futures of TriMoE have to tell in a Result: one sentence for each that is switched on, and the failure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.context import Context
from planner.physics.experts import tokens_and_bytes
from planner.policies import trimoe_cxl, trimoe_domains, trimoe_failure, trimoe_mixed, trimoe_numa
from planner.policies.base import TIER_CODE, Placed, Prepared
from planner.policies.trimoe_futures import active
from planner.result import FailureReport
from planner.routing import RoutingState
from planner.schedule import CPU, ScheduleResult
from planner.step import time_pass

if TYPE_CHECKING:
    from planner.policies.trimoe import TriMoe

Fact = tuple[str, str]
SOURCES = {
    "dimm": "its own DIMM over the host channel",
    "copy": "a second copy on the other DIMMs",
    "storage": "storage",
}


def told(
    policy: TriMoe,
    ctx: Context,
    ready: Prepared,
    placed: Placed,
    routing: RoutingState,
    counts: np.ndarray,
    costs: dict[str, Any],
    plan: ScheduleResult,
) -> tuple[tuple[Fact, ...], FailureReport | None]:
    """Facts of each future that is switched on, and of the failure; ``plan`` is the schedule of ``counts``."""
    if not active(ctx):
        return (), None
    passes = float(policy.passes_per_step(ctx, ready.layout)) / ctx.accepted_per_pass
    facts: list[Fact] = []
    if trimoe_cxl.wanted(ctx):
        facts.append(_cxl(placed, plan, counts, trimoe_cxl.device(ctx).units, passes))
    if trimoe_mixed.warm_width(ctx) is not None:
        facts.append(_mixed(ctx, placed, routing.counts))
    if trimoe_numa.mode(ctx) != trimoe_numa.FITTED:
        facts.append(_numa(ctx, placed, plan, costs["cpu"].seconds, counts, passes))
    report = failure_report(policy, ctx, ready, routing)
    if report is not None:
        facts.append(_failure(ctx, report))
    return tuple(facts), report


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _cxl(placed: Placed, plan: ScheduleResult, counts: np.ndarray, devices: int, passes: float) -> Fact:
    cold = placed.home >= 0
    on_cxl = placed.tier == TIER_CODE["cxl_ndp"]
    load = plan.ndp_s.reshape(*counts.shape[:2], -1)
    dimm, cxl = (
        float(part.max(axis=2).sum(axis=1).mean()) * passes for part in (load[..., :-devices], load[..., -devices:])
    )
    return (
        "Cold experts",
        f"Of {cold.sum(axis=1).mean():.0f} cold experts of a layer, {on_cxl.sum(axis=1).mean():.0f} lie on CXL-NDP, "
        f"the others on DIMMs; in a step the busiest DIMM works {_ms(dimm)}, the busiest CXL device {_ms(cxl)}.",
    )


def _mixed(ctx: Context, placed: Placed, counts: np.ndarray) -> Fact:
    width = trimoe_mixed.warm_width(ctx)
    assert width is not None
    warm = placed.tier == TIER_CODE["host"]
    share = float(np.where(warm, counts, 0).sum()) / max(float(counts.sum()), 1.0)
    held, other = warm.sum() * width.expert_bytes, warm.sum() * ctx.other_widths()[0][0].expert_bytes
    return (
        "Warm experts",
        f"{warm.sum(axis=1).mean():.0f} experts of a layer, with {share:.0%} of the tokens, are in {width.name}: "
        f"{held / 1e9:.3g} GB of host memory, {other / 1e9:.3g} GB in the format of the others. What that does to the "
        "answers is not known: nobody has measured it for this mix.",
    )


def _numa(
    ctx: Context, placed: Placed, plan: ScheduleResult, cpu_s: np.ndarray, counts: np.ndarray, passes: float
) -> Fact:
    link = trimoe_numa.link_bytes_per_s(ctx)
    on_cpu = plan.domain.reshape(counts.shape) == CPU
    if trimoe_numa.mode(ctx) == trimoe_numa.INTERLEAVED:
        assert link is not None
        _, read = tokens_and_bytes(counts, on_cpu, placed.stored.bytes)
        return (
            "Sockets",
            f"Experts interleaved over two sockets: {read / 4 * passes / 1e9:.3g} GB of a step cross the link between "
            f"them in each direction, at {link / 1e9:.3g} GB/s each.",
        )
    assert isinstance(plan, trimoe_domains.WideResult)
    mean = float(np.where(on_cpu, cpu_s, 0.0).sum()) / counts.shape[0] / trimoe_numa.SOCKETS * passes
    later = float(plan.cpu_s.reshape(counts.shape[:2]).sum(axis=1).mean()) * passes
    known = f"{link / 1e9:.3g} GB/s" if link else "not known for this CPU, and not needed"
    return (
        "Sockets",
        f"Each expert on one of two sockets: in a step the later socket computes for {_ms(later)}, the mean of both is "
        f"{_ms(mean)}. No expert crosses the link between them ({known}).",
    )


# --- failure ----------------------------------------------------------------------------------------------------------
def failure_report(policy: TriMoe, ctx: Context, ready: Prepared, routing: RoutingState) -> FailureReport | None:
    """The step in all three states, whichever of them the plan shows; None where nothing fails."""
    asked = trimoe_failure.failure(ctx)
    if asked is None:
        return None
    seconds: dict[str, float] = {}
    for state in ("before", "during", "after"):
        if state == "during" and asked.source == "storage":
            continue
        there = in_state(ctx, state)
        placed = policy.place(there, ready, routing)
        done = time_pass(policy.decode(there, ready, placed, routing), there.machine, there.accepted_per_pass)
        seconds[state] = done.step.total_s
    during = in_state(ctx, "during")
    found = trimoe_failure.failure(during)
    assert found is not None
    before = policy.place(in_state(ctx, "before"), ready, routing)
    rate = trimoe_failure.rebuild_rate(during, found).rate
    size = trimoe_failure.rebuild_bytes(ctx, before.home, before.stored.bytes, asked)
    return FailureReport(
        response="hot-spare" if asked.spare else "re-homing",
        unit=asked.unit,
        source=asked.source,
        experts=int((before.home == asked.unit).sum()),
        bytes=size,
        bytes_per_s=rate,
        recover_s=size / rate,
        before_s=seconds["before"],
        during_s=seconds.get("during"),
        after_s=seconds["after"],
    )


def in_state(ctx: Context, state: str) -> Context:
    """The context with ``failure_state`` set."""
    policy = ctx.scenario.policy
    options = {**policy.options, trimoe_failure.STATE.name: state}
    return replace(
        ctx, scenario=ctx.scenario.model_copy(update={"policy": policy.model_copy(update={"options": options})})
    )


def _failure(ctx: Context, report: FailureReport) -> Fact:
    during = "no step runs" if report.during_s is None else f"a step takes {_ms(report.during_s)}"
    idle = " (one unit idle)" if report.response == "hot-spare" else ""
    return (
        "NDP failure",
        f"A step takes {_ms(report.before_s)} before unit {report.unit} fails{idle}, {_ms(report.after_s)} after "
        f"{report.response}. Until then {during}: {report.bytes / 1e9:.3g} GB with {report.experts} cold experts come "
        f"back from {SOURCES[report.source]} at {report.bytes_per_s / 1e9:.3g} GB/s, in {_ms(report.recover_s)}.",
    )
