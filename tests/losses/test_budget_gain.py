"""One budget over all layers: the plan says what it gains over an equal one for each."""

from __future__ import annotations

import re
from typing import Any

import pytest

from planner.evaluate import evaluate
from planner.result import Details
from tests.engine.engine_scenarios import scenario


def told(options: dict[str, Any], **chosen: Any) -> Details:
    found = evaluate(
        scenario(
            model__id="allenai/OLMoE-1B-7B-0924",
            system__id="h100-cxl-ndp",
            workload__batch=4,
            routing__sigma=1.5,
            policy__id="context-aware",
            policy__gpu_experts_per_layer=chosen.get("kept", 8),
            policy__weight_bits=chosen.get("bits", 3),
            policy__options=options,
        )
    )
    assert found.ready is not None and found.placed is not None and found.routing is not None
    details = found.policy.details(found.ctx, found.ready, found.placed, found.routing)
    assert details is not None
    return details


def shares(details: Details) -> list[float]:
    return [float(x) for x in re.findall(r"([0-9.]+)%", dict(details.facts)["Hot-expert budget"])]


def test_both_hot_budgets_tell_the_same_two_shares() -> None:
    """Layers of different skew: the same bytes catch more where they may go anywhere; told whichever is chosen."""
    equal, free = shares(told({})), shares(told({"hot_budget": "global"}))
    assert equal == free[::-1]
    assert free[0] > free[1]


def test_a_shared_bit_budget_says_what_it_saves() -> None:
    """The saving is that of the reported losses: global against each layer's own optimum, residents being the same."""
    one = told({"selector": "global", "loss_table": "surrogate:1"})
    each = told({"selector": "exact", "loss_table": "surrogate:1"})
    assert one.selector is not None and each.selector is not None
    gain = float(re.findall(r"saves ([0-9.]+)%", dict(one.facts)["Bit budget"])[0])
    assert gain == pytest.approx(100 * (1 - one.selector.loss / each.selector.loss), abs=0.005)
    assert gain > 0.1
    assert "Bit budget" not in dict(each.facts)


def test_without_a_hot_set_there_is_nothing_to_tell() -> None:
    assert "Hot-expert budget" not in dict(told({}, kept=0).facts)
    assert dict(told({}, bits=8).facts).keys() == {"Hot-expert budget"}
