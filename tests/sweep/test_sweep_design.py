"""What a sweep asks for: axes, grids and sequences, and what is refused before anything is planned."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import PlanError
from planner.fields import get_path, set_paths
from planner.scenario import Scenario
from planner.sweep import Axis, Span, Steps, SweepError, SweepSpec, spec_from, spec_from_json, sweep
from planner.sweep.paths import check, scenario_at

BANDWIDTH = "system.overrides.gpu.memory_bandwidth_bytes_per_s"


def test_values_of_the_four_kinds_of_axis():
    assert Axis(path="workload.batch", values=(4, 1)).points() == (4, 1)
    assert Axis(path=BANDWIDTH, linear=Span(low=1e12, high=2e12, count=3)).points() == (1e12, 1.5e12, 2e12)
    assert Axis(path=BANDWIDTH, log=Span(low=1e12, high=4e12, count=3)).points() == pytest.approx((1e12, 2e12, 4e12))
    assert Axis(path="workload.batch", range=Steps(low=1, high=10, step=3)).points() == (1, 4, 7, 10)


@given(low=st.floats(1, 50), ratio=st.floats(1, 100), count=st.integers(1, 40))
def test_spans_over_whole_numbers_are_whole_distinct_and_within(low, ratio, count):
    points = Axis(path="workload.batch", log=Span(low=low, high=low * ratio, count=count)).points()
    assert all(isinstance(point, int) for point in points)
    assert len(set(points)) == len(points) <= count
    assert all(round(low) <= point <= round(low * ratio) for point in points)
    assert list(points) == sorted(points)


def test_a_grid_runs_its_last_axis_fastest():
    spec = SweepSpec(axes=(Axis(path="workload.batch", values=(1, 2)), Axis(path="economics.pue", values=(1.0, 1.2))))
    assert list(spec.coordinates()) == [(1, 1.0), (1, 1.2), (2, 1.0), (2, 1.2)]
    assert spec.count == 4


def test_a_sobol_design_is_reproducible_and_covers_each_half_of_each_axis_alike():
    axes = (Axis(path=BANDWIDTH, log=Span(low=1e12, high=4e12, count=2)), Axis(path="workload.batch", values=(1, 2)))
    spec = SweepSpec(axes=axes, design="sobol", samples=64, seed=5)
    points = list(spec.coordinates())
    assert points == list(spec.coordinates()) and len(points) == 64
    assert sum(point[0] < 2e12 for point in points) == 32
    assert sum(point[1] == 1 for point in points) == 32


@pytest.mark.parametrize("design", ["grid", "sobol"])
def test_a_billion_points_are_refused_with_the_count_and_without_making_them(design):
    axes = tuple(
        Axis(path=path, linear=Span(low=1, high=60_000, count=1000))
        for path in ("workload.batch", "workload.prompt_tokens", "workload.output_tokens")
    )
    spec = SweepSpec(axes=axes, design=design, samples=10**9 if design == "sobol" else None)
    start = time.perf_counter()
    with pytest.raises(SweepError, match="1,000,000,000 points") as refused:
        sweep(spec)
    assert time.perf_counter() - start < 1
    assert "samples" in str(refused.value) or "fewer values" in str(refused.value)
    assert str(refused.value).count(".") == 1


def test_the_refusal_says_how_many_values_the_longest_axis_may_have():
    spec = SweepSpec(
        axes=(
            Axis(path="workload.batch", values=(1, 2)),
            Axis(path="economics.pue", linear=Span(low=1, high=5, count=10**6)),
        )
    )
    with pytest.raises(SweepError, match=r"give economics\.pue 10,000 values instead of 1,000,000"):
        spec.refuse_if_too_large()


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        (Axis(path="workload.bach", values=(1,)), "nearest is workload.batch"),
        (Axis(path="system.overrides.gpu.memory_bandwith", values=(1,)), "gpu.memory_bandwidth_bytes_per_s"),
        (Axis(path="workload.batch", values=(0,)), "from 1 to 65,536"),
        (Axis(path="workload.batch", linear=Span(low=1, high=1e6, count=3)), "from 1 to 65,536"),
        (Axis(path="system.overrides.gpu.tdp_w", values=(1e9,)), "it takes 1 to 10000 W"),
        (Axis(path="policy.id", linear=Span(low=1, high=2, count=2)), "list its values"),
        (Axis(path="system.overrides", values=("x",)), "cannot be an axis"),
        (Axis(path="schema_version", values=(1,)), "cannot be an axis"),
        (Axis(path="model.kv_format", values=("fp9",)), "nearest is fp8"),
    ],
)
def test_what_no_point_could_take_is_refused_in_one_sentence(axis, words):
    with pytest.raises(PlanError, match=r"^[^\n]+$") as refused:
        check(SweepSpec(axes=(axis,)))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "no object"),
        ("{", "JSON"),
        ('{"axes": []}', "axes"),
        ('{"axes": [{"path": "workload.batch"}]}', "exactly one of values"),
        ('{"axes": [{"path": "workload.batch", "values": [1], "log": {"low": 1, "high": 2, "count": 2}}]}', "exactly"),
        ('{"axes": [{"path": "workload.batch", "log": {"low": 0, "high": 2, "count": 2}}]}', "above 0"),
        ('{"axes": [{"path": "workload.batch", "values": [1]}, {"path": "workload.batch", "values": [2]}]}', "twice"),
        ('{"axes": [{"path": "workload.batch", "values": [1]}], "design": "sobol"}', "Sobol design"),
        ('{"axes": [{"path": "workload.batch", "values": [1]}], "colour": 1}', "unknown field 'colour'"),
        ('{"base": {"workload": {"batch": 0}}, "axes": [{"path": "economics.pue", "values": [1]}]}', "workload.batch"),
        ('{"axes": [{"path": "workload.batch", "linear": {"low": 1, "high": NaN, "count": 2}}]}', ""),
    ],
)
def test_a_spec_that_cannot_be_read_is_one_sentence(text, words):
    with pytest.raises(PlanError, match=r"^[^\n]+$") as refused:
        spec_from_json(text)
    assert words in str(refused.value)
    assert "pydantic" not in str(refused.value)


def test_a_spec_goes_through_json():
    spec = SweepSpec(
        name="x",
        base=set_paths(Scenario(), {"workload.batch": 7}),
        axes=(
            Axis(path="policy.id", values=("all-gpu",)),
            Axis(path="economics.pue", range=Steps(low=1, high=2, step=1)),
        ),
    )
    assert spec_from_json(spec.model_dump_json()) == spec


def test_another_policy_runs_with_its_own_defaults_and_another_system_without_edits():
    base = set_paths(
        Scenario(), {"policy.gpu_experts_per_layer": 2, "system.overrides.gpu.power_limit_w": 500, "policy.id": "monde"}
    )
    assert scenario_at(base, ["policy.id"], ["all-gpu"]).policy.gpu_experts_per_layer is None
    assert scenario_at(base, ["policy.id"], ["monde"]) == base
    assert scenario_at(base, ["system.id"], ["8x-h100-sxm"]).system.overrides == {}
    # What is swept beside it is set afterwards, whatever the order of the axes.
    both = scenario_at(base, ["policy.gpu_experts_per_layer", "policy.id"], [1, "cpu-experts"])
    assert (both.policy.id, both.policy.gpu_experts_per_layer) == ("cpu-experts", 1)


def test_a_swept_load_takes_the_place_of_the_other_way_to_state_it():
    base = set_paths(Scenario(), {"workload.output_tokens_per_day": 1e6})
    found = scenario_at(base, ["workload.requests_per_s"], [2.0])
    assert get_path(found, "workload.output_tokens_per_day") is None
    assert found.workload.requests_per_s == 2.0


@pytest.mark.parametrize("step", [1e-320, 5e-324, 1e-12])
def test_a_step_too_small_to_count_is_refused_like_any_other_number_of_points(step):
    spec = SweepSpec(axes=(Axis(path="economics.pue", range={"low": 1, "high": 2, "step": step}),))
    with pytest.raises(SweepError, match="more than 1,000,000,000 points"):
        spec.refuse_if_too_large()


def test_a_spec_of_a_newer_version_says_so():
    with pytest.raises(SweepError, match="newer Tierline"):
        spec_from({"schema_version": 2, "axes": [{"path": "workload.batch", "values": [1]}]})


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ({"path": "workload.batch", "values": [8, "16"]}, 'workload.batch is "16"; it takes a number'),
        ({"path": "workload.batch", "values": ["many"]}, "whole number from 1"),
        ({"path": "system.overrides.gpu.power_limit_w", "values": ["700"]}, "it takes a number"),
        ({"path": "economics.pue", "linear": {"low": "1", "high": 2, "count": 3}}, "linear.low of axis 1"),
        ({"path": "economics.pue", "linear": {"low": 1, "high": 2, "count": True}}, "linear.count of axis 1"),
        ({"path": "economics.pue", "range": {"low": 1, "high": 2, "step": "1"}}, "range.step of axis 1"),
    ],
)
def test_text_is_no_number(axis, words):
    with pytest.raises(PlanError, match=r"^[^\n]+$") as refused:
        check(spec_from({"axes": [axis]}))
    assert words in str(refused.value)
