"""What must hold of every Result that fits, whatever the policy: identities, floors, bounds. Plain assertions."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from planner.context import machine_parts
from planner.result import TIERS, Memory, Result, Step

REL = 1e-9


def near(a: float, b: float, rel: float = REL) -> bool:
    return a == pytest.approx(b, rel=rel, abs=1e-30)


def every_number_is_finite(node: Any, path: str = "") -> None:
    """No NaN and no infinity anywhere, at any depth."""
    if isinstance(node, float):
        assert math.isfinite(node), f"{path} is {node}"
    elif isinstance(node, dict):
        for key, value in node.items():
            every_number_is_finite(value, f"{path}.{key}")
    elif isinstance(node, (list, tuple)):
        for index, value in enumerate(node):
            every_number_is_finite(value, f"{path}[{index}]")


def step_laws(step: Step) -> None:
    """Exposed parts add up, busy is at least exposed, shares add up, floors are below, domains below capacity."""
    assert step.total_s > 0
    assert near(sum(p.exposed_s for p in step.parts), step.total_s)
    for part in step.parts:
        assert part.busy_s >= part.exposed_s - REL * step.total_s, part
        assert part.exposed_s >= 0, part
    assert near(sum(step.bound_shares.values()), 1.0)
    assert step.bound_by == max(step.bound_shares, key=lambda k: step.bound_shares[k])
    assert 0 <= step.fixed_s <= step.total_s * (1 + REL)
    assert step.p99_s > 0
    assert step.standard_error_s >= 0
    assert step.byte_floor_s <= step.total_s * (1 + REL)
    assert step.flop_floor_s <= step.total_s * (1 + REL)
    for domain in step.domains:
        if domain.achieved_share is not None:
            assert domain.achieved_share <= 1 + REL, domain
            assert domain.byte_share is not None
            assert 0 <= domain.byte_share <= domain.achieved_share * (1 + REL), domain
            assert domain.bytes is not None and domain.bytes >= 0
        if domain.flop_share is not None:
            assert 0 <= domain.flop_share <= 1 + REL, domain
        assert 0 <= domain.busy_share <= 1 + REL, domain
        assert domain.busy_s == pytest.approx(domain.busy_share * step.total_s)
        assert domain.busy_share >= (domain.achieved_share or 0.0) * (1 - REL), domain


def memory_laws(memory: Memory) -> None:
    """Items add up to what is used; what is free is counted on the fullest device."""
    for tier in memory.tiers:
        assert near(sum(i.bytes for i in tier.items), tier.used_bytes)
        assert near(tier.capacity_bytes, tier.devices * tier.device_capacity_bytes)
        assert tier.fullest_device_bytes * tier.devices >= tier.used_bytes * (1 - REL)
        assert tier.free_bytes == pytest.approx(
            (tier.device_capacity_bytes - tier.fullest_device_bytes) * tier.devices, rel=REL, abs=1.0
        )
        assert all(i.bytes > 0 for i in tier.items)


def placement_laws(result: Result) -> None:
    """Classes partition the experts and the tokens; distinct experts are at most E and at most the pairs."""
    p, model = result.placement, result.model
    assert p is not None
    shape = (model.moe_layers, model.experts)
    for table in (p.tier, p.bits, p.load, p.learned, p.klass):
        assert (len(table), *{len(row) for row in table}) == shape
    assert near(sum(c.token_share for c in p.classes), 1.0)
    assert sum(c.experts for c in p.classes) == shape[0] * shape[1]
    for tiers, bits, klasses in zip(p.tier, p.bits, p.klass, strict=True):
        for tier, width, klass in zip(tiers, bits, klasses, strict=True):
            assert TIERS[tier] == p.classes[klass].tier
            assert width == p.classes[klass].bits
    for row in p.load:
        assert near(sum(row), p.tokens_per_pass * model.top_k)
    assert p.distinct_experts_per_layer <= min(model.experts, p.tokens_per_pass * model.top_k) + REL
    assert p.distinct_experts_per_layer >= model.top_k - REL


def money_laws(result: Result) -> None:
    """Energy by device and by movement, cost by part, tokens times cost and the bill, tokens and time."""
    head, energy, cost, capacity = result.headline, result.energy, result.cost, result.capacity
    assert energy is not None and cost is not None and capacity is not None
    w, economics = result.scenario.workload, result.scenario.economics
    assert head.tpot_s and head.tokens_per_s_system and head.tokens_per_s_user and head.tokens_per_s_end_to_end
    assert near(head.tpot_s * head.tokens_per_s_system, w.batch)
    assert near(head.tpot_s * head.tokens_per_s_user, 1.0)
    assert head.energy_j_per_output_token == energy.j_per_output_token
    for parts in (energy.by_device, energy.by_movement):
        assert near(sum(s.value for s in parts), energy.j_per_output_token)
    assert near(energy.average_w * head.tpot_s / w.batch, energy.j_per_output_token)
    assert energy.peak_w >= energy.average_w * (1 - REL)
    assert near(sum(s.value for s in cost.by_part), cost.usd_per_million_output_tokens) or not cost.by_part
    if cost.capex_usd is not None:
        assert near(sum(s.value for s in cost.bill_of_materials), cost.capex_usd)
    figures = machine_parts(result.scenario)
    steady, serial_s = figures.get("gpu.serving_efficiency") or 1.0, figures.get("gpu.request_serial_s") or 0.0
    per_request_s = 1 / (capacity.system_requests_per_s * steady) + serial_s
    assert near(w.output_tokens / per_request_s, head.tokens_per_s_end_to_end)
    # Tokens x cost = the bill: one system at its busy share makes this many tokens in a month.
    requests = capacity.system_requests_per_s * economics.busy_share * 730.0 * 3600.0
    paid = (
        requests
        / 1e6
        * (w.output_tokens * cost.usd_per_million_output_tokens + w.prompt_tokens * cost.usd_per_million_input_tokens)
    )
    assert near(paid, cost.usd_per_month_one_system, 1e-7)
    if capacity.load_requests_per_s is None:
        assert capacity.systems_needed == 1
    else:
        need = capacity.load_requests_per_s / (capacity.system_requests_per_s * w.target_utilisation)
        assert capacity.systems_needed >= need * (1 - 1e-9)
        assert capacity.systems_needed == 1 or capacity.systems_needed - 1 < need
    assert head.usd_per_month == capacity.usd_per_month


def fitting_laws(result: Result) -> None:
    """All laws of a Result that fits."""
    head = result.headline
    assert head.fits and not head.reasons
    assert result.decode is not None and result.prefill is not None and result.memory is not None
    every_number_is_finite(result.model_dump())
    step_laws(result.decode)
    step_laws(result.prefill.step)
    memory_laws(result.memory)
    assert all(t.free_bytes >= 0 for t in result.memory.tiers)
    assert result.memory.first_unfit is None and result.memory.changes == ()
    assert result.memory.largest_batch >= result.scenario.workload.batch
    placement_laws(result)
    money_laws(result)
    assert head.tpot_s == result.decode.total_s
    assert head.bound_by == result.decode.bound_by
    assert head.ttft_s is not None and head.ttft_s >= result.prefill.prompt_s * (1 - REL)
    chosen = result.prefill.alternatives[result.prefill.mode]
    assert chosen is not None
    if result.scenario.policy.prefill == "auto":
        assert chosen == min(s for s in result.prefill.alternatives.values() if s is not None)


def unfit_laws(result: Result) -> None:
    """A plan that does not fit is an answer: reasons in words, and no number that pretends otherwise."""
    head = result.headline
    assert not head.fits
    assert head.reasons and all(r.endswith(".") for r in head.reasons)
    named = head.model_dump(exclude={"fits", "reasons"})
    assert all(value is None for value in named.values()), named
    for part in (result.decode, result.prefill, result.energy, result.cost, result.capacity):
        assert part is None
    every_number_is_finite(result.model_dump())
    if result.memory is not None:
        memory_laws(result.memory)
        assert result.memory.first_unfit
        assert any(t.free_bytes < 0 for t in result.memory.tiers)
        for change in result.memory.changes:
            assert change.fits and change.set


def round_trip(result: Result) -> None:
    """Exact through JSON, both by pydantic and by plain json."""
    text = result.model_dump_json()
    assert Result.model_validate_json(text) == result
    assert Result.model_validate(json.loads(json.dumps(result.model_dump(mode="json")))) == result


def is_a_sentence(error: BaseException) -> None:
    """What a person can read: one line that ends like a sentence, no code names of exceptions."""
    text = str(error)
    assert 10 < len(text) < 600, text
    assert "\n" not in text
    assert "Traceback" not in text and "object at 0x" not in text
