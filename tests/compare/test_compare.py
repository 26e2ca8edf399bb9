"""Comparisons of real scenarios: figures are those of plan(), reasons add up, what cannot be split is merged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.compare import compare
from planner.compare.groups import GROUPS, differing_groups, group_of, mixed
from planner.compare.records import Comparison
from planner.difference import flat
from planner.errors import PlanError
from planner.fields import fields, set_paths
from planner.result import Result
from planner.scenario import Scenario
from planner.words.names import HEADLINE
from tests.compare.compare_cases import BASE, MANY


def quick(scenario: Scenario) -> Result:
    return planner.plan(scenario, with_ranges=False, with_marginals=False)


def test_every_field_belongs_to_one_group() -> None:
    outside = [path for path in fields() if group_of(path) is None]
    assert outside == ["schema_version", "workload.preset"]
    assert {group_of(path) for path in fields()} - {None} == set(GROUPS)
    assert group_of("system.overrides.gpu.price_usd") == "prices"
    assert group_of("system.overrides.dram.price_usd_per_gb") == "prices"
    assert group_of("system.overrides.gpu.power_limit_w") == "hardware"


@given(st.sets(st.sampled_from(list(GROUPS))))
def test_mixture_takes_each_field_from_one_side(taken: set[str]) -> None:
    found, ours, theirs = flat(mixed(BASE, MANY, taken)), flat(BASE), flat(MANY)  # type: ignore[arg-type]
    for path in {*ours, *theirs}:
        side = theirs if group_of(path) in taken else ours
        assert found.get(path) == side.get(path), path


def test_figures_are_the_plans_own_and_reasons_add_up() -> None:
    found = compare([BASE, MANY], ["now", "then"], planned=quick)
    ends = [quick(scenario).headline for scenario in (BASE, MANY)]
    pair = found.pairs[0]
    assert pair.groups == ("policy", "precision", "hardware", "workload", "routing", "prices")
    assert pair.merges == ()
    assert pair.plans == 2**6
    for delta in pair.deltas:
        first, last = (getattr(end, delta.metric) for end in ends)
        assert (delta.base, delta.other) == (first, last)
        assert delta.delta == sum(part.value for part in delta.parts)
        assert delta.delta == pytest.approx(last - first, abs=1e-12 * max(first, last))
    prices = {d.metric: {p.name: p.value for p in d.parts}["Prices"] for d in pair.deltas}
    assert prices["tpot_s"] == 0.0
    assert prices["usd_per_million_output_tokens"] != 0.0


@settings(max_examples=8, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "workload.batch": st.integers(1, 64),
            "routing.sigma": st.floats(0.1, 1.0),
            "policy.gpu_experts_per_layer": st.integers(0, 16),
            "system.overrides.dram.bandwidth_bytes_per_s": st.floats(5e10, 6e11),
            "economics.busy_share": st.floats(0.1, 1.0),
        },
    )
)
def test_any_two_scenarios_add_up(changes: dict[str, float]) -> None:
    found = compare([BASE, set_paths(BASE, changes)], planned=quick)
    for delta in found.pairs[0].deltas:
        assert delta.delta == sum(part.value for part in reversed(delta.parts))
        assert delta.delta == pytest.approx((delta.other or 0) - (delta.base or 0), abs=1e-12 * abs(delta.base or 1))
    assert len(found.differing) == sum(flat(BASE)[p] != v if p in flat(BASE) else True for p, v in changes.items())


def test_policy_and_the_hardware_it_needs_are_one_reason() -> None:
    monde = set_paths(
        BASE, {"system.id": "trimoe-server", "policy.id": "trimoe", "workload.batch": 8, "economics.pue": 1.1}
    )
    found = compare([BASE, monde], ["cpu", "ndp"], planned=quick)
    pair = found.pairs[0]
    assert [merge.name for merge in pair.merges] == ["Policy and the hardware it needs"]
    assert "needs NDP DIMMs" in pair.merged_because
    assert [part.name for part in pair.deltas[0].parts] == ["Policy and the hardware it needs", "Workload", "Prices"]


def test_a_side_that_does_not_fit_has_a_reason_and_no_delta() -> None:
    big = set_paths(BASE, {"workload.batch": 60_000})
    found = compare([BASE, big, MANY], ["small", "big", "many"], planned=quick)
    assert found.sides[1].figures == dict.fromkeys(HEADLINE)
    assert all(d.delta is None and "not available: big does not fit" in d.unavailable for d in found.pairs[0].deltas)
    assert all(d.delta is not None for d in found.pairs[1].deltas)
    assert any("big has no figures" in note for note in found.notes)
    unknown = set_paths(BASE, {"system.id": "no-such-machine"})
    lost = compare([BASE, unknown], planned=quick).sides[1]
    assert lost.why_not.startswith("cannot be planned: ") and "no-such-machine" in lost.why_not
    pasted = set_paths(BASE, {"model.config": {"architectures": ["X"]}})
    both = compare([big, pasted], ["big", "pasted"], planned=quick)
    assert not any(note.startswith("Different models") for note in both.notes)
    assert not any(".;" in delta.unavailable or delta.unavailable.endswith(".") for delta in both.pairs[0].deltas)


def test_different_models_are_compared_and_said() -> None:
    other = set_paths(BASE, {"model.id": "deepseek-ai/DeepSeek-V2-Lite"})
    found = compare([BASE, other], planned=quick)
    assert any(note.startswith("Different models are compared") for note in found.notes)
    assert [part.name for part in found.pairs[0].deltas[0].parts] == ["Model"]
    assert compare([BASE, BASE], planned=quick).notes == ("B is the same scenario as one before it.",)


def test_round_trip_and_bounds() -> None:
    found = compare([BASE, MANY], ["<b>|*x*", ""], planned=quick)
    assert Comparison.model_validate_json(found.model_dump_json()) == found
    json.dumps(found.model_dump(mode="json"), allow_nan=False)
    assert [side.label for side in found.sides] == ["<b>|*x*", "B"]
    assert [side.label for side in compare([BASE, BASE], ["x", "x"], planned=quick).sides] == ["x", "x (2)"]
    for wrong in ([BASE], [BASE] * 5):
        with pytest.raises(PlanError, match="it takes 2 to 4"):
            compare(wrong)


def test_groups_that_differ() -> None:
    assert differing_groups(BASE, BASE) == ()
    assert differing_groups(BASE, set_paths(BASE, {"workload.preset": "chat"})) == ()
    assert differing_groups(BASE, set_paths(BASE, {"model.kv_format": "fp8"})) == ("precision",)
