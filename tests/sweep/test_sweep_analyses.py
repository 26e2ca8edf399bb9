"""What is read off a sweep: frontier, knee, maps, cost against load, the best and what excludes all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.fields import set_paths
from planner.scenario import Scenario
from planner.sweep import Axis, Outcome, Point, SweepError, SweepResult, SweepSpec, sweep
from planner.sweep.boundary import Turn, bounds_map, marks, nearest_cell, turns, winners_map
from planner.sweep.frontier import frontier, pareto
from planner.sweep.idle import idle_axes
from planner.sweep.knee import knee, knee_of
from planner.sweep.load import (
    ApiPrice,
    break_even_busy_share,
    break_even_load,
    busy_curve,
    load_curve,
    month_margin,
)
from planner.sweep.near_best import choose, excluded, infeasible, left_out

BATCH, BANDWIDTH = "workload.batch", "system.overrides.gpu.memory_bandwidth_bytes_per_s"
PCIE = "system.overrides.pcie.bandwidth_bytes_per_s"


def made(axes, rows, base=None):
    """A sweep result with figures made up: rows of (values, figures or reason, more of the outcome)."""
    spec = SweepSpec(base=base or Scenario(), axes=tuple(Axis(path=p, values=v) for p, v in axes.items()))
    points = []
    for index, (values, figures, more) in enumerate(rows):
        given_ = {"status": "fits", "figures": figures} if isinstance(figures, dict) else {"reason": figures}
        points.append(Point(index=index, values=values, outcome=Outcome(**{**given_, **more})))
    return SweepResult(
        engine_version="x", catalog_digest="y", spec=spec, points=tuple(points), complete=True, distinct=len(points)
    )


numbers = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=40)


@given(points=numbers, more_x=st.booleans(), more_y=st.booleans())
def test_nothing_dominates_the_pareto_set_and_it_dominates_the_rest(points, more_x, more_y):
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    kept = pareto(xs, ys, more_x, more_y)

    def at_least(a, b, more):
        return a >= b if more else a <= b

    def beats(one, other):
        return (
            at_least(xs[one], xs[other], more_x)
            and at_least(ys[one], ys[other], more_y)
            and (xs[one], ys[one]) != (xs[other], ys[other])
        )

    assert not any(beats(one, two) for one in range(len(points)) for two in kept)
    same = {(xs[place], ys[place]) for place in kept}
    for place in set(range(len(points))) - set(kept):
        assert (xs[place], ys[place]) in same or any(beats(two, place) for two in kept)
    assert [xs[place] for place in kept] == sorted(xs[place] for place in kept)


def test_a_frontier_names_the_best_point_that_meets_the_targets():
    base = set_paths(Scenario(), {"workload.slo_tpot_s": 0.05})
    rows = [
        ((1,), {"tokens_per_s_user": 50.0, "tokens_per_s_gpu": 10.0}, {"meets_slo": True}),
        ((2,), {"tokens_per_s_user": 30.0, "tokens_per_s_gpu": 15.0}, {"meets_slo": True}),
        ((3,), {"tokens_per_s_user": 10.0, "tokens_per_s_gpu": 40.0}, {"meets_slo": False}),
        ((4,), {"tokens_per_s_user": 9.0, "tokens_per_s_gpu": 20.0}, {"meets_slo": False}),
    ]
    found = frontier(made({BATCH: (1, 2, 3, 4)}, rows, base))
    assert found.pareto == (2, 1, 0) and found.best_meeting == 1 and found.least_x == 20.0
    assert found.spot(3).y == 20.0


def test_the_knee_of_a_saturating_curve_and_of_none():
    xs = tuple(float(x) for x in range(11))
    assert knee_of(xs, tuple(min(x, 4.0) for x in xs)) == 4
    assert knee_of(xs, xs) is None
    assert knee_of(xs, tuple(x * x for x in xs)) is None
    assert knee_of(xs, tuple(-x for x in xs)) is None
    assert knee_of((1.0,), (1.0,)) is None
    assert knee_of(xs, (5.0,) * 11) is None
    assert knee_of(xs, (float("nan"),) * 11) is None
    wobble = (0.0, 0.02, -0.03, 0.01, 0.03, -0.02, 0.0, 0.02, -0.01, 0.03, 0.01)
    assert knee_of(xs, tuple(min(x, 4.0) + w for x, w in zip(xs, wobble, strict=True))) == 4
    assert knee_of(xs, tuple(x + w for x, w in zip(xs, wobble, strict=True))) is None


def test_experts_in_hbm_marks_what_the_policy_keeps_by_itself():
    base = set_paths(Scenario(), {"policy.id": "fiddler", "system.id": "desktop-rtx4090"})
    path = "policy.gpu_experts_per_layer"
    found = knee(sweep(SweepSpec(base=base, axes=(Axis(path=path, values=(None, 0, 1, 2, 8)),))))
    assert list(found.xs) == sorted(found.xs) and 8.0 not in found.xs  # eight of them do not fit
    assert found.today is not None
    kept = planner.plan(base, with_ranges=False, with_marginals=False)
    assert (found.today.index, found.today.x) == (0, kept.policy.gpu_experts_per_layer)
    assert found.today.y == kept.headline.tokens_per_s_system


def test_a_policy_that_keeps_all_experts_in_hbm_says_so_whatever_is_asked_for():
    found = knee(sweep(SweepSpec(axes=(Axis(path="policy.gpu_experts_per_layer", values=(None, 0, 2, 8)),))))
    assert found.xs == (8.0,) and found.today.x == 8.0 and found.knee is None


def test_a_map_draws_its_edges_between_regions():
    rows = [
        ((x, y), {"tpot_s": float(x * y)}, {"bound_by": "hbm" if x + y < 4 else "link"})
        for x in (1, 2, 3)
        for y in (1, 2)
    ]
    found = bounds_map(
        made({BATCH: (1, 2, 3), "workload.prompt_tokens": (1, 2)}, rows), BATCH, "workload.prompt_tokens", "tpot_s"
    )
    assert (found.xs, found.ys) == ((1.0, 2.0, 3.0), (1.0, 2.0))
    assert [[cell.value for cell in row] for row in found.cells] == [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]
    assert set(found.edges()) == {(0, 1, "right"), (1, 0, "right"), (0, 1, "above")}
    assert found.regions() == {"hbm": 3, "link": 3}


def test_what_ends_a_region_is_the_first_other_one_along_each_axis():
    regions = {(1, 1): "a", (2, 1): "a", (4, 1): "b", (1, 2): "c", (2, 2): "a", (4, 2): "b"}
    rows = [((x, y), {"tpot_s": 1.0}, {"bound_by": region}) for (x, y), region in regions.items()]
    axes = {BATCH: (1, 2, 4), "workload.prompt_tokens": (1, 2)}
    found = bounds_map(made(axes, rows), BATCH, "workload.prompt_tokens", "tpot_s")
    assert turns(found, 0, 0) == (
        Turn(BATCH, "above", 2.0, 4.0, "b"),
        Turn("workload.prompt_tokens", "above", 1.0, 2.0, "c"),
    )
    assert turns(found, 1, 1) == (Turn(BATCH, "below", 2.0, 1.0, "c"), Turn(BATCH, "above", 2.0, 4.0, "b"))
    assert nearest_cell(found, 2.9, 1.0) == (0, 2)  # by ratio: 2.9 is nearer to 4 than to 2
    assert nearest_cell(found, 2.7, 1.0) == (0, 1)
    assert nearest_cell(found, 64.0, 1.0) is None and nearest_cell(found, 0.1, 1.0) is None


def test_the_winner_of_a_cell_is_the_best_that_meets_its_targets():
    rows = [
        ((1, 1, "a"), {"tpot_s": 1.0}, {"meets_slo": False}),
        ((1, 1, "b"), {"tpot_s": 2.0}, {}),
        ((1, 1, "c"), {"tpot_s": 5.0}, {}),
        ((2, 1, "a"), "does not fit here", {"status": "does not fit"}),
        ((2, 1, "b"), "does not fit here", {"status": "does not fit"}),
        ((2, 1, "c"), "nor here", {"status": "does not fit"}),
    ]
    axes = {BATCH: (1, 2), "workload.prompt_tokens": (1,), "policy.id": ("a", "b", "c")}
    found = winners_map(made(axes, rows), BATCH, "workload.prompt_tokens", "tpot_s")
    first, second = found.cells[0]
    assert (first.region, first.second, first.ratio) == ("b", "c", 2.5)
    assert second.region == "" and second.value is None and second.reason == "does not fit here; nor here"


def test_a_map_over_words_is_refused_and_so_is_an_axis_that_is_none():
    found = made({BATCH: (1,), "policy.id": ("a",)}, [((1, "a"), {"tpot_s": 1.0}, {})])
    with pytest.raises(SweepError, match="no numbers"):
        bounds_map(found, BATCH, "policy.id", "tpot_s")
    with pytest.raises(SweepError, match=r"no axis.*workload\.batch"):
        bounds_map(found, "workload.prompt_tokens", BATCH, "tpot_s")


def test_marks_are_systems_with_both_figures_and_devices_with_one():
    found = marks(BANDWIDTH, PCIE)
    both = [mark for mark in found if mark.x is not None and mark.y is not None]
    assert any("H100" in mark.name for mark in both)
    one = {mark.name for mark in found if mark.y is None}
    assert any("H100" in name for name in one)
    assert len({(mark.x, mark.y) for mark in found}) == len(found)
    assert marks(BATCH, "workload.prompt_tokens") == ()


def test_cost_of_a_load_steps_in_whole_systems_and_meets_the_api_where_the_plans_say():
    base = set_paths(Scenario(), {"economics.mode": "rented", "economics.rent_usd_per_hour": 8.0})
    one = planner.plan(base, with_ranges=False, with_marginals=False).capacity.system_requests_per_s * 0.7
    loads = tuple(one * share for share in (0.1, 0.5, 0.9, 1.1, 1.9, 2.1))
    result = sweep(SweepSpec(base=base, axes=(Axis(path="workload.requests_per_s", values=loads),)))
    per_request = 8.0 / 3600 / (0.7 * one)  # what one rented system costs at 0.7 of its load
    api = ApiPrice(0.0, per_request * 1e6 / 256)
    curve = load_curve(result, api)
    assert [point.systems for point in curve] == [1, 1, 1, 2, 2, 3]
    assert all(point.usd_per_month == pytest.approx(8.0 * 730 * point.systems, rel=1e-6) for point in curve)
    at = break_even_load(result, api).first
    assert at == pytest.approx(0.7 * one, rel=2e-4)
    assert month_margin(api)(set_paths(base, {"workload.requests_per_s": at})) <= 0
    assert break_even_load(result, ApiPrice(0.0, 1e-6)) is None


def test_a_further_system_that_is_not_filled_makes_own_machines_dearer_again():
    base = set_paths(Scenario(), {"economics.mode": "rented", "economics.rent_usd_per_hour": 8.0})
    one = planner.plan(base, with_ranges=False, with_marginals=False).capacity.system_requests_per_s * 0.7
    loads = tuple(one * share for share in (0.5, 0.9, 1.1, 1.7, 1.95, 2.9))
    result = sweep(SweepSpec(base=base, axes=(Axis(path="workload.requests_per_s", values=loads),)))
    per_request = 8.0 / 3600 / (0.8 * one)  # an API at which one system pays from 0.8, two from 1.6 of a system's load
    api = ApiPrice(0.0, per_request * 1e6 / 256)
    found = break_even_load(result, api)
    assert found.first == pytest.approx(0.8 * one, rel=2e-4)
    assert found.lasting == pytest.approx(1.6 * one, rel=2e-4)
    three = Axis(path="workload.requests_per_s", values=loads[:3])  # ends where two systems are too many
    assert break_even_load(sweep(SweepSpec(base=base, axes=(three,))), api).lasting is None
    margin = month_margin(api)
    for share, cheaper in ((0.79, False), (0.81, True), (1.01, False), (1.59, False), (1.61, True)):
        assert (margin(set_paths(base, {"workload.requests_per_s": one * share})) <= 0) is cheaper


def test_the_price_that_own_machines_match_costs_the_same_as_they_do():
    shares = (0.1, 0.5, 1.0)
    curve = busy_curve(Scenario(), 0.05, shares)
    assert [point.busy_share for point in curve] == list(shares)
    for point in curve:
        base = set_paths(Scenario(), {"economics.busy_share": point.busy_share})
        head = planner.plan(base, with_ranges=False, with_marginals=False).headline
        own = (1024 * head.usd_per_million_input_tokens + 256 * head.usd_per_million_output_tokens) / 1e6
        assert point.usd_per_request == pytest.approx(own, rel=1e-12)
        api = ApiPrice(0.05, point.matching_usd_per_million_output)
        assert api.usd_per_request(base) == pytest.approx(own, rel=1e-12)
    at = break_even_busy_share(Scenario(), ApiPrice(0.05, curve[1].matching_usd_per_million_output))
    assert at == pytest.approx(0.5, rel=2e-4)
    unfit = set_paths(Scenario(), {"system.overrides.gpu.memory_capacity_bytes": 1e10})
    assert busy_curve(unfit, 0.05, shares) == ()


def test_an_axis_that_moves_nothing_is_told_and_one_that_was_not_compared_is_not():
    cxl = Axis(path="system.overrides.cxl.internal_bandwidth_bytes_per_s", values=(1e11, 2e11))
    batch = Axis(path=BATCH, values=(1, 2))
    assert idle_axes(sweep(SweepSpec(axes=(cxl, batch)))) == (cxl.path,)
    assert idle_axes(sweep(SweepSpec(axes=(cxl, batch), design="sobol", samples=1))) == ()


def test_what_is_left_out_is_counted_under_its_constraint():
    axes = (Axis(path="policy.id", values=("all-gpu", "monde", "no-such")),)
    told = left_out(sweep(SweepSpec(axes=axes)))
    assert told.startswith("Of 3 points") and "lacks excludes 1" in told and "not accepted excludes 1" in told
    assert left_out(sweep(SweepSpec(axes=(Axis(path=BATCH, values=(1,)),)))) == ""


def test_break_even_busy_share_is_where_both_cost_the_same():
    base = set_paths(Scenario(), {"economics.mode": "rented", "economics.rent_usd_per_hour": 8.0})
    head = planner.plan(base, with_ranges=False, with_marginals=False).headline
    own = (1024 * head.usd_per_million_input_tokens + 256 * head.usd_per_million_output_tokens) / 1e6
    api = ApiPrice(0.0, own * 1e6 / 256 * 2)  # twice what own machines cost at today's busy share
    assert break_even_busy_share(base, api) == pytest.approx(base.economics.busy_share / 2, rel=2e-4)
    assert break_even_busy_share(base, ApiPrice(0.0, 1e-9)) is None


def test_the_best_that_meets_the_targets_and_what_is_near():
    rows = [
        ((1,), {"usd_per_million_output_tokens": 1.0}, {"meets_slo": False}),
        ((2,), {"usd_per_million_output_tokens": 2.0}, {"meets_slo": True}),
        ((3,), {"usd_per_million_output_tokens": 2.03}, {"meets_slo": True}),
        ((4,), {"usd_per_million_output_tokens": 2.05}, {"meets_slo": True}),
    ]
    found = choose(made({BATCH: (1, 2, 3, 4)}, rows))
    assert (found.best, found.near) == (1, (1, 2))
    assert found.sentence == "1 other is within 2 % of the best."


def test_one_constraint_that_excludes_all_is_named():
    base = set_paths(Scenario(), {"model.id": "mistralai/Mixtral-8x22B-v0.1", "system.id": "1x-h100-sxm"})
    found = sweep(SweepSpec(base=base, axes=(Axis(path="economics.pue", values=(1.0, 1.1)),)))
    text = infeasible(found)
    assert choose(found).best is None and choose(found).sentence == text
    assert "the capacity of GPU" in text and "excludes all 2" in text and "GB needed" in text


def test_a_missed_target_says_how_near_the_nearest_is():
    base = set_paths(Scenario(), {"workload.slo_tpot_s": 1e-3})
    found = sweep(SweepSpec(base=base, axes=(Axis(path=BATCH, values=(1, 32)),)))
    text = choose(found).sentence
    assert "the target of TPOT excludes all 2" in text and "The nearest is" in text and "1.00" in text
    assert [row.points for row in excluded(found)] == [2]


def test_several_constraints_are_counted():
    rows = [
        ((1,), "GPU HBM: 5 GB needed, 1 GB there.", {"status": "does not fit"}),
        ((2,), "GPU HBM: 5 GB needed, 1 GB there.", {"status": "does not fit"}),
        ((3,), "X needs NDP DIMMs; this system has none.", {"status": "does not fit"}),
        ((4,), "", {"status": "not run"}),
    ]
    text = infeasible(made({BATCH: (1, 2, 3, 4)}, rows))
    assert (
        "No point of 3 is feasible: the capacity of GPU HBM excludes 2 and a part that the system lacks excludes 1"
        in text
    )
