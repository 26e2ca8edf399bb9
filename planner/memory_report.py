"""The memory part of a Result: the ledger, how far it reaches, and the smallest changes that make a plan fit."""

from __future__ import annotations

from typing import Any

from hardware import systems
from models import formats
from planner.evaluate import Evaluation, evaluate
from planner.memory_limits import Limits, lengths
from planner.physics.memory import fits
from planner.result import Change, Memory
from planner.scenario import Scenario

NARROWER_KV = {"bf16": ("fp8", "FP8"), "fp8": ("int4", "INT4"), "int8": ("int4", "INT4")}
MOST_CHANGES = 5


def memory_record(found: Evaluation) -> Memory | None:
    """Ledger, largest batch and context, and, if the plan does not fit, changes that each make it fit."""
    ready, ctx = found.ready, found.ctx
    if ready is None:
        return None
    ledger = ready.ledger
    short = max(ledger, key=lambda t: t.short_bytes)
    limits = Limits(ctx, found.policy)
    batch_limit, context_limit = limits.batch(), limits.context()
    return Memory(
        tiers=tuple(t.record() for t in ledger),
        first_unfit=_unfit(short) if short.short_bytes > 0 else None,
        largest_batch=batch_limit,
        largest_context_tokens=context_limit,
        changes=_changes(found, batch_limit, context_limit) if short.short_bytes > 0 else (),
    )


def _unfit(tier: Any) -> str:
    """The largest item of the tier that is short, in words."""
    name, (bytes_, _) = max(tier.items.items(), key=lambda kv: kv[1][1])
    return (
        f"{tier.name} is {tier.short_bytes / 1e9:,.1f} GB short; its largest part is {name} with {bytes_ / 1e9:,.1f} GB"
    )


def _with(scenario: Scenario, changes: dict[str, Any]) -> Scenario:
    """A copy of the scenario with ``changes`` (dotted paths of two names), checked again."""
    data = scenario.model_dump()
    for path, value in changes.items():
        part, name = path.split(".", 1)
        data[part][name] = value
    return Scenario.model_validate(data)


def _changes(found: Evaluation, batch_limit: int, context_limit: int) -> tuple[Change, ...]:
    """Candidate changes, each planned through the same path; only those that fit are kept."""
    scenario, w = found.ctx.scenario, found.ctx.scenario.workload
    context = w.prompt_tokens + w.output_tokens
    candidates: list[tuple[str, dict[str, Any]]] = []
    if 0 < batch_limit < w.batch:
        candidates.append((f"Batch {batch_limit:,} instead of {w.batch:,}", {"workload.batch": batch_limit}))
    if 1 < context_limit < context:
        shorter = {f"workload.{name}": tokens for name, tokens in lengths(scenario, context_limit).items()}
        candidates.append((f"Context {context_limit:,} instead of {context:,} tokens", shorter))
    narrower = NARROWER_KV.get(scenario.model.kv_format)
    if narrower:
        candidates.append((f"KV cache in {narrower[1]}", {"model.kv_format": narrower[0]}))
    candidates.extend(_weights(found))
    candidates.extend(_systems(found))
    candidates.extend(_policies(found))
    rows = []
    for text, changes in candidates:
        row = _planned(text, changes, _with(scenario, changes))
        if row is not None:
            rows.append(row)
        if len(rows) == MOST_CHANGES:
            break
    return tuple(rows)


def _weights(found: Evaluation) -> list[tuple[str, dict[str, Any]]]:
    scenario = found.ctx.scenario
    rows: list[tuple[str, dict[str, Any]]] = []
    now = scenario.policy.weight_bits or found.ctx.other_widths(found.policy.default_bits)[0][0].bits
    if scenario.policy.gpu_experts_per_layer is not None:
        rows.append(("GPU experts per layer left open", {"policy.gpu_experts_per_layer": None}))
    for bits in (8, 4):
        if bits < now and scenario.policy.expert_format is None:
            rows.append((f"Experts at {bits} bit instead of {now:g}", {"policy.weight_bits": float(bits)}))
    whole = formats.format_for_bits(4)
    if found.ctx.gpu_width.bits > 4:
        rows.append((f"All weights in {formats.FORMATS[whole].name}", {"model.weight_format": whole}))
    return rows


def _systems(found: Evaluation) -> list[tuple[str, dict[str, Any]]]:
    """The same devices in larger numbers, as the catalog has them."""
    scenario = found.ctx.scenario
    count, _, device = scenario.system.id.partition("x-")
    if not count.isdigit():
        return []
    larger = [s for s in systems() if s.id.partition("x-")[2] == device and s.id.partition("x-")[0].isdigit()]
    larger = [s for s in larger if int(s.id.partition("x-")[0]) > int(count)]
    larger.sort(key=lambda s: int(s.id.partition("x-")[0]))
    return [(f"{s.name} instead", {"system.id": s.id}) for s in larger]


def _policies(found: Evaluation) -> list[tuple[str, dict[str, Any]]]:
    """Policies that put experts elsewhere than in HBM, if this one does not."""
    from planner.policies import catalog, get

    if found.policy.id != "all-gpu":
        return []
    rows: list[tuple[str, dict[str, Any]]] = []
    for entry in catalog():
        if entry.id != "all-gpu" and not get(entry.id).missing(found.ctx.machine):
            changes: dict[str, Any] = {"policy.id": entry.id, "policy.options": {}}
            for name in ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel"):
                changes[f"policy.{name}"] = None
            rows.append((f"Policy: {entry.name}", changes))
    return rows


def _planned(text: str, changes: dict[str, Any], scenario: Scenario) -> Change | None:
    try:
        checked = evaluate(scenario, stop_at="memory")
        if checked.ready is None or not fits(checked.ready.ledger):
            return None
        found = evaluate(scenario, quick=True)
    except ValueError:  # a change that this model or system cannot take is no candidate
        return None
    figures = found.figures()
    if not figures or found.ready is None:
        return None
    tier = found.ready.ledger[0]
    return Change(
        text=text,
        set=changes,
        fits=True,
        tier_used_bytes=tier.fullest_bytes * tier.devices,
        tier_capacity_bytes=tier.device_capacity_bytes * tier.devices,
        tpot_s=figures["tpot_s"],
        tokens_per_s_system=figures["tokens_per_s_system"],
        usd_per_million_output_tokens=figures["usd_per_million_output_tokens"],
    )
