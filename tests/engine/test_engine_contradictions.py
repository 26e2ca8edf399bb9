"""A plan that a very similar measured run contradicts says so; one that agrees, or is unlike all of them, does not."""

from __future__ import annotations

import math

import pytest

from planner import neighbours
from planner.measured_runs import MeasuredRun, measured_runs
from planner.uncertainty import _joined

UNIT = "output tokens/s, request"


def _row() -> MeasuredRun:
    """A decode run of one request that was predicted well."""
    runs = [r for r in measured_runs() if (r.regime, r.phase, r.per) == ("cpu_experts", "decode", UNIT)]
    return min(runs, key=lambda r: abs(r.log_ratio))


def _said(rate_times: float, shape_times: float = 1.0, phase: str = "decode") -> tuple[str, ...]:
    run = _row()
    shape = {name: value * (shape_times if name == "batch" else 1.0) for name, value in run.shape.items()}
    rate = run.measured_tokens_per_s * rate_times
    return neighbours.contradictions(shape, "cpu_experts", None, {(phase, UNIT): rate})


def test_a_plan_that_agrees_is_not_doubted() -> None:
    assert _said(1.0) == ()
    assert _said(1.1) == ()


@pytest.mark.parametrize("times", [0.02, 50.0])
def test_a_plan_far_from_a_very_similar_run_is_doubted_with_both_figures(times: float) -> None:
    (sentence,) = _said(times)
    assert _row().label.split(", ")[0] in sentence  # model and machine; two engines ran with this shape
    assert "95 % band" in sentence


def test_only_a_very_similar_run_of_the_same_kind_counts() -> None:
    assert _said(50.0, shape_times=3.0) == ()
    assert _said(50.0, phase="prefill") == ()
    assert neighbours.contradictions({}, "cpu_experts", None, {("decode", UNIT): 1e9}) == ()


def test_the_band_grows_with_what_the_shapes_differ_by() -> None:
    """The least rate that is doubted is higher for a run that is a little less alike."""

    def least(shape_times: float) -> float:
        return next(t for t in (1.05**n for n in range(200)) if _said(t, shape_times))

    assert least(1.0) < least(1.2)


def test_apart_is_the_largest_ratio_of_the_same_quantities() -> None:
    assert neighbours.apart({"a": 2.0, "b": 3.0}, {"a": 1.0, "b": 3.0}) == pytest.approx(math.log(2.0))
    assert neighbours.apart({"a": 2.0}, {"b": 2.0}) == math.inf
    assert neighbours.apart({"a": 0.0}, {"a": 1.0}) == math.inf


def test_most_measured_runs_agree_with_themselves() -> None:
    """The check is rare on what was measured: nine in ten runs do not contradict their own held-out prediction."""
    runs = measured_runs()
    doubted = [
        r.id
        for r in runs
        if neighbours.contradictions(r.shape, r.regime, r.family, {(r.phase, r.per): r.predicted_tokens_per_s})
    ]
    assert len(doubted) <= 0.15 * len(runs)


def test_floors_of_time_do_not_hide_what_cheaper_parts_would_save() -> None:
    floors = {"decode": 0.8, "prefill": 0.8}
    cost = "usd_per_million_output_tokens"
    assert _joined(cost, 10.0, (5.0, 12.0), None, floors) == {cost: (5.0, 12.0)}
    assert _joined(cost, 10.0, (9.0, 12.0), (2.0, 11.0), floors) == {cost: (8.0, 12.0)}
    assert _joined("tpot_s", 1.0, (0.5, 1.5), (0.2, 1.2), floors) == {"tpot_s": (0.8, 1.5)}
    assert _joined("tpot_s", 1.0, None, None, floors) == {}
