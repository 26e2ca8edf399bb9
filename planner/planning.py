"""The only door: ``plan(scenario) -> Result``. Every page, link, sweep, route and command goes through it."""

from __future__ import annotations

import models
from planner import ENGINE_VERSION
from planner.as_served import served_report
from planner.assumptions import assumptions
from planner.bound import bound
from planner.computed_work import computed_work
from planner.evaluate import Evaluation, evaluate
from planner.guidance import advice, monitor
from planner.memory_report import memory_record
from planner.placement import placement_record
from planner.policies import get
from planner.policies.base import Policy
from planner.ranges import NO_RANGES, ranges
from planner.result import (
    Details,
    Headline,
    Interval,
    ModelSummary,
    PolicySummary,
    Prefill,
    Result,
    SystemSummary,
)
from planner.scenario import Scenario
from planner.sensitivity import marginals
from planner.stamp import catalog_digest
from planner.uncertainty import doubts, intervals


def plan(
    scenario: Scenario,
    *,
    with_ranges: bool = True,
    with_marginals: bool = True,
    with_schedule: bool | None = None,
    with_served: bool | None = None,
) -> Result:
    """Plan a scenario: placement, time, energy, cost, memory, and what they rest on.

    A plan that does not fit, or a policy whose parts the system lacks, is an answer (``headline.fits`` false, reasons
    given). Bad input raises PlanError, models.ModelError, hardware.HardwareError or planner.routing.RoutingError,
    each with one clear sentence. ``with_ranges`` and ``with_marginals`` switch off the evaluations with other figures
    that give intervals and marginal values (for sweeps); nothing else depends on them. ``with_schedule`` asks for the
    report on the schedule (of policies that have one) apart from marginal values; None = together with them.
    ``with_served`` asks for what clients in a closed loop would measure; None = together with the ranges.
    """
    found = evaluate(scenario)
    spread = ranges(found) if with_ranges and found.fits else NO_RANGES
    ends, told = intervals(found, spread) if with_ranges and found.fits else ({}, None)
    return Result(
        engine_version=ENGINE_VERSION,
        catalog_digest=catalog_digest(),
        scenario_hash=scenario.content_hash(),
        scenario=scenario,
        headline=_headline(found, ends),
        model=_model(found),
        system=_system(found),
        policy=_policy(found),
        placement=placement_record(found),
        decode=found.decode.step if found.decode else None,
        prefill=_prefill(found),
        served=served_report(found) if (with_ranges if with_served is None else with_served) else None,
        memory=memory_record(found),
        energy=found.energy,
        cost=found.cost,
        capacity=found.capacity,
        assumptions=assumptions(found, spread),
        marginals=marginals(found) if with_marginals and found.fits else (),
        details=_details(found, found.fits and (with_marginals if with_schedule is None else with_schedule)),
        bound=bound(found) if with_marginals and found.ctx.machine.gpu else None,
        accuracy=told,
        advice=advice(found),
        monitor=monitor(found),
        warnings=(*(doubts(found) if told else ()), *found.warnings),
    )


def reports_schedule(policy_id: str) -> bool:
    """Whether a policy has a report on its schedule, which takes longer than its plan."""
    return type(get(policy_id)).schedule_report is not Policy.schedule_report


def _details(found: Evaluation, complete: bool) -> Details | None:
    if found.placed is None or found.ready is None or found.routing is None:
        return None
    ctx, policy = found.ctx, found.policy
    told = policy.details(ctx, found.ready, found.placed, found.routing)
    more: dict[str, object] = {}
    work = computed_work(found)
    if not work.as_routed:
        more["facts"] = (*(told.facts if told else ()), ("Not as routed", work.sentence))
    moved = policy.migration(ctx, found.placed, found.prefill.prompt_s) if found.prefill else None
    if moved is not None:
        more["migration"] = moved
    schedule = policy.schedule_report(ctx, found.ready, found.placed, found.routing) if complete else None
    if schedule is not None:
        more["schedule"] = schedule
    return (told or Details()).model_copy(update=more) if more else told


def _headline(found: Evaluation, ends: dict[str, Interval]) -> Headline:
    if not found.fits:
        return Headline(fits=False, reasons=found.reasons)
    assert found.decode is not None and found.capacity is not None
    return Headline(
        fits=True,
        systems_needed=found.capacity.systems_needed,
        bound_by=found.decode.step.bound_by,
        intervals=ends or None,
        **found.figures(),
    )


def _model(found: Evaluation) -> ModelSummary:
    arch, scenario = found.ctx.arch, found.ctx.scenario
    counts = models.parameters(arch)
    return ModelSummary(
        id=arch.id,
        name=arch.name,
        parameters_total=counts.total,
        parameters_main=counts.main,
        parameters_active=counts.active,
        layers=arch.num_layers,
        moe_layers=len(arch.moe_layers),
        experts=arch.experts,
        top_k=arch.top_k,
        shared_experts=arch.shared_experts,
        expert_parameters=arch.expert_parameters,
        native_format=models.FORMATS[arch.native.label].name,
        kv_bytes_per_token=models.kv_bytes_per_token(arch, scenario.model.kv_format),
        sentence=models.sentence(arch),
    )


def _system(found: Evaluation) -> SystemSummary:
    machine = found.ctx.machine
    system = machine.figures.system
    return SystemSummary(
        id=system.id,
        name=system.name,
        sentence=system.sentence,
        nodes=machine.nodes,
        gpus=machine.gpus,
        as_published=system.as_published,
        edited=system.edited,
        findings=system.findings,
    )


def _policy(found: Evaluation) -> PolicySummary:
    policy, ctx, ready = found.policy, found.ctx, found.ready
    others = ctx.other_widths(policy.default_bits)
    return PolicySummary(
        id=policy.id,
        name=policy.name,
        sentence=policy.describe(ctx, ready, found.placed) if ready else policy.sentence,
        kv_location=ready.kv_location if ready else ctx.scenario.policy.kv_location,
        attention_device=ready.attention_device if ready else ctx.scenario.policy.attention_device,
        prefill=found.prefill.mode if found.prefill else ctx.scenario.policy.prefill,
        gpu_format=ctx.gpu_width.name,
        expert_format=" and ".join(w.name for w, _ in others),
        parallelism=ready.layout.words() if ready else "",
        gpu_experts_per_layer=float(ready.resident_per_layer) if ready else 0.0,
        source=policy.source,
        notes=policy.notes,
    )


def _prefill(found: Evaluation) -> Prefill | None:
    p = found.prefill
    if p is None:
        return None
    return Prefill(
        step=p.timing.step,
        mode=p.mode,
        tokens_per_pass=p.tokens_per_pass,
        passes_per_prompt=p.passes_per_prompt,
        prompt_s=p.alone_s,
        alternatives=p.alternatives,
    )
