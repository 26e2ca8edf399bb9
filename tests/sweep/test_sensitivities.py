"""Tornado, elasticities and flip points: read from the Result, or planned again at each value."""

from __future__ import annotations

import math

import pytest

import planner
from planner.errors import PlanError
from planner.fields import set_paths
from planner.scenario import Scenario
from planner.sensitivities import elasticities, flip_points, inputs, tornado
from planner.sensitivities.inputs import Inputs
from planner.sensitivities.scan import limits, side
from planner.sweep import metric
from planner.sweep.outcome import outcome

CPU = set_paths(Scenario(), {"policy.id": "cpu-experts", "system.id": "h100-amx-server"})
GPU = Scenario()
DRAM = "system.overrides.dram.bandwidth_bytes_per_s"
PRICE = "system.overrides.dram.price_usd_per_gb"


@pytest.fixture(scope="module")
def result():
    return planner.plan(CPU, with_marginals=False)


def test_a_tornado_holds_the_moves_of_the_result_and_nothing_else(result):
    found = tornado(result)
    assert found.bars and list(found.bars) == sorted(found.bars, key=lambda bar: -bar.size)
    moves = {one.path: one.moves_tpot for one in result.assumptions}
    assert all((bar.at_low, bar.at_high) == moves[bar.path] for bar in found.bars)
    assert found.value == result.headline.tpot_s
    cost = tornado(result, "usd_per_million_output_tokens")
    assert any("price" in bar.label.lower() for bar in cost.bars)


def test_a_tornado_of_another_figure_or_of_nothing_is_a_sentence(result):
    with pytest.raises(PlanError, match="tpot_s"):
        tornado(result, "tpot")
    unfit = planner.plan(set_paths(GPU, {"system.overrides.gpu.memory_capacity_bytes": 1e10}))
    with pytest.raises(PlanError, match="does not fit"):
        tornado(unfit)


def test_elasticities_of_known_laws():
    # Prices of the whole machine, life and busy share act on an owned machine's cost in known ways.
    rented = set_paths(GPU, {"economics.mode": "rented", "economics.rent_usd_per_hour": 10.0})
    found = elasticities(
        rented, "usd_per_million_output_tokens", ["economics.rent_usd_per_hour", "economics.busy_share"]
    )
    by = {row.path: row.elasticity for row in found.rows}
    assert by["economics.rent_usd_per_hour"] == pytest.approx(1, rel=1e-6)
    assert by["economics.busy_share"] == pytest.approx(-1, rel=1e-6)
    assert "1 % more rent: 1.0 % more" in next(row.sentence for row in found.rows if row.elasticity > 0)


def test_an_elasticity_is_a_central_difference_through_plan():
    found = elasticities(CPU, "tpot_s", ["dram.bandwidth_bytes_per_s"])
    row = found.rows[0]
    low, high = (
        planner.plan(set_paths(CPU, {DRAM: value}), with_ranges=False, with_marginals=False).headline.tpot_s
        for value in (row.value / 1.01, row.value * 1.01)
    )
    assert row.elasticity == pytest.approx(math.log(high / low) / math.log(1.01**2), rel=1e-9)
    assert -1.0 <= row.elasticity < -0.5


def test_what_moves_nothing_is_listed_as_such():
    found = elasticities(CPU, "tpot_s", ["economics.pue", DRAM])
    assert found.still == ("economics.pue",) and [row.path for row in found.rows] == [DRAM]


@pytest.mark.parametrize(
    ("key", "paths", "words"),
    [
        ("tpot", None, "tpot_s"),
        ("tpot_s", ["policy.id"], "not a number"),
        ("tpot_s", ["workload.bach"], "workload.batch"),
        ("tpot_s", ["workload.requests_per_s"], "no value"),
        ("tpot_s", ["gpu.memory_bandwith"], "no field"),
    ],
)
def test_what_has_no_elasticity_is_one_sentence(key, paths, words):
    with pytest.raises(PlanError, match=r"^[^\n]+$") as refused:
        elasticities(CPU, key, paths)
    assert words in str(refused.value)


def test_a_flip_point_is_where_the_plans_say_it_is():
    reserve = "system.overrides.gpu.reserve_bytes"
    report = flip_points([CPU, GPU], "usd_per_million_output_tokens", ["gpu.reserve_bytes", PRICE])
    assert report.recommended == 1
    (flip,) = report.flips
    assert (flip.path, flip.side, flip.option) == (reserve, "above", 0)
    assert flip.same_until < flip.at <= flip.same_until * 1.0002

    def best(value):
        plans = [
            planner.plan(set_paths(option, {reserve: value}), with_ranges=False, with_marginals=False)
            for option in (CPU, GPU)
        ]
        costs = [plan.headline.usd_per_million_output_tokens for plan in plans]
        return min((place for place in range(2) if costs[place] is not None), key=costs.__getitem__)

    assert best(flip.same_until) == 1 and best(flip.at) == 0
    steady = next(one for one in report.steady if one.path == PRICE)
    assert steady.at is None and "none within bounds" in steady.sentence


@pytest.mark.parametrize(
    ("one", "other", "objective", "path"),
    [
        (("trimoe-server", "monde", 32), ("trimoe-server", "layer-streaming", 32), "tokens_per_s_system", "pcie"),
        (("h100-cxl-ndp", "monde", 32), ("h100-cxl-ndp", "cpu-experts", 32), "usd_per_million_output_tokens", "batch"),
        (("2x-h100-sxm", "all-gpu", 32), ("epyc-rtx5090", "cpu-experts", 8), "usd_per_million_output_tokens", "hbm"),
    ],
)
def test_plans_just_either_side_of_a_flip_point_choose_differently(one, other, objective, path):
    paths = {"pcie": "pcie.bandwidth_bytes_per_s", "batch": "workload.batch", "hbm": "gpu.memory_bandwidth_bytes_per_s"}
    names = ("system.id", "policy.id", "workload.batch")
    options = [set_paths(GPU, dict(zip(names, values, strict=True))) for values in (one, other)]
    report = flip_points(options, objective, [paths[path]])
    assert report.flips
    known = [Inputs(option) for option in options]
    sign = 1 if metric(objective).more_is_better else -1

    def best(flip, value):
        told = [
            outcome(each.changed(flip.path, each.get(flip.path).value * value if flip.relative else value))
            for each in known
        ]
        scores = {place: sign * one.figure(objective) for place, one in enumerate(told) if one.fits}
        return max(scores, key=scores.get)

    for flip in report.flips:
        assert best(flip, flip.same_until) == report.recommended
        assert best(flip, flip.at) == flip.option != report.recommended


def test_a_flip_by_an_exact_law():
    # Two rents: whichever machine is dearer per token flips where the rents' ratio crosses that of the rates.
    a = set_paths(GPU, {"economics.mode": "rented", "economics.rent_usd_per_hour": 10.0})
    b = set_paths(a, {"workload.batch": 16, "economics.rent_usd_per_hour": 2.0})
    report = flip_points([a, b], "usd_per_million_output_tokens", ["economics.rent_usd_per_hour"])
    assert not report.flips  # scaled together, the order of two rents never changes
    assert report.steady[0].relative


def test_targets_decide_before_the_objective():
    slow_but_cheap = set_paths(CPU, {"workload.slo_tpot_s": 0.08})
    fast = set_paths(GPU, {"workload.slo_tpot_s": 0.08})
    report = flip_points([slow_but_cheap, fast], "capex_usd", ["workload.slo_tpot_s"])
    assert report.recommended == 1
    flip = next(one for one in report.flips if one.side == "above")
    tpot = planner.plan(CPU, with_ranges=False, with_marginals=False).headline.tpot_s
    assert flip.option == 0
    assert flip.same_until < tpot <= flip.at and flip.at == pytest.approx(tpot, rel=2e-4)


def test_no_recommendation_is_said():
    never = [set_paths(one, {"workload.slo_tpot_s": 1e-9}) for one in (CPU, GPU)]
    report = flip_points(never, paths=["economics.pue"])
    assert report.recommended is None and "None of the options" in report.sentence


def test_one_option_has_no_flip_points():
    with pytest.raises(PlanError, match="2 to 8"):
        flip_points([CPU])


def test_the_grid_reaches_both_ends_and_never_today_again():
    for one in inputs(CPU):
        low, high = limits(one)
        assert one.low <= low <= one.value <= high <= one.high
        for end in (low, high):
            values = side(one, end)
            assert one.value not in values
            assert not values or values[-1] == end
            assert list(values) == sorted(values, reverse=end < one.value)
