"""The quality surrogate: what it was fitted on, that the fit follows from it, and what it refuses to say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.losses import DEFAULT_SPREAD, EXPERT_LOSS, surrogate_losses
from planner.quality import FILE, Point, calibration, fit, fitted, mean_loss, points, predict, recomputed

PUBLISHED = {
    "full precision": 70.03,
    "3 bit, with selector": 69.90,
    "3 bit, without selector": 69.71,
    "2 bit, with selector": 66.68,
    "2 bit, without selector": 63.48,
}


def test_the_calibration_names_what_it_was_fitted_on() -> None:
    found = calibration()
    assert found["fitted_on"].startswith("five published accuracies of Mixtral-8x7B")
    assert "2512.04476" in found["published"]["source"]
    assert {row["setting"]: row["accuracy_percent"] for row in found["published"]["points"]} == PUBLISHED
    assert any("not the paper's GPTQ losses" in line for line in found["assumed"])


def test_the_kept_fit_is_what_the_published_points_give() -> None:
    kept, again = calibration()["fit"], recomputed()
    assert set(kept) == set(again)
    for key in set(kept) - {"points"}:
        assert kept[key] == pytest.approx(again[key], rel=1e-9), key
    for a, b in zip(kept["points"], again["points"], strict=True):
        assert a == {**b, "mean_loss": pytest.approx(b["mean_loss"], rel=1e-9)}


def test_the_mean_loss_of_uniform_widths_is_arithmetic() -> None:
    share = calibration()["published"]["cold_share_of_activations"]
    by_name = {point.setting: point.mean_loss for point in points(calibration()["published"], spread=0.0)}
    assert by_name["2 bit, without selector"] == pytest.approx(share * EXPERT_LOSS[1])
    assert by_name["3 bit, without selector"] == pytest.approx(share * EXPERT_LOSS[2])
    assert by_name["full precision"] == 0.0


def test_the_selector_never_loses_against_uniform_widths() -> None:
    for spread in (0.0, 0.3, 1.0):
        by_name = {point.setting: point.mean_loss for point in points(calibration()["published"], spread)}
        for bits in (2, 3):
            assert by_name[f"{bits} bit, with selector"] <= by_name[f"{bits} bit, without selector"] * (1 + 1e-12)


def test_a_fit_of_an_exact_power_is_exact() -> None:
    made = tuple(Point(str(x), 80.0 - 5.0 * x**1.5, x) for x in (0.0, 0.1, 0.2, 0.3, 0.4))
    found = fit(made)
    assert (found.scale, found.exponent) == (pytest.approx(5.0), pytest.approx(1.5))
    assert found.factor == pytest.approx(1.0, abs=1e-6)


def test_points_that_contradict_each_other_give_a_flat_fit_and_a_wide_interval() -> None:
    made = tuple(
        Point(str(x), 80.0 - drop, x) for x, drop in ((0.0, 0.0), (0.1, 4.0), (0.2, 2.0), (0.3, 1.0), (0.4, 0.5))
    )
    found = fit(made)
    assert found.exponent == 0.0, "never better with more loss"
    assert found.factor > 2


def test_the_interval_covers_every_published_point() -> None:
    found = fitted()
    for point in found.points[1:]:
        answer = predict(point.mean_loss)
        change = point.accuracy_percent - found.full_precision_percent
        assert answer.low is not None and answer.high is not None and answer.inside
        assert answer.low <= change <= answer.high


def test_what_the_documentation_says_of_the_selectors_gain() -> None:
    """At the default spread the surrogate losses cannot tell selector from uniform; near 1.5 they would."""
    published = calibration()["published"]
    assert fit(points(published, DEFAULT_SPREAD)).residual > 0.5
    wide = fit(points(published, 1.5))
    assert wide.residual < 0.12
    drops = {point.setting: wide.drop(point.mean_loss) for point in wide.points}
    assert drops["2 bit, without selector"] - drops["2 bit, with selector"] > 2.5


@given(st.floats(0, fitted().largest_loss), st.floats(0, fitted().largest_loss))
def test_more_loss_is_never_better(a: float, b: float) -> None:
    a, b = sorted((a, b))
    first, second = predict(a), predict(b)
    for one, other in zip(
        (first.low, first.accuracy_points_change), (second.low, second.accuracy_points_change), strict=True
    ):
        assert one is not None and other is not None
        assert other <= one <= 0
    assert first.high is not None and first.accuracy_points_change is not None and first.low is not None
    assert first.low <= first.accuracy_points_change <= first.high


def test_no_loss_no_change() -> None:
    answer = predict(0.0)
    assert (answer.accuracy_points_change, answer.low, answer.high, answer.inside) == (0.0, 0.0, 0.0, True)
    assert math.copysign(1, answer.accuracy_points_change or 0.0) == 1.0


def test_outside_it_is_not_known_unless_asked() -> None:
    loss = 2 * fitted().largest_loss
    answer = predict(loss)
    assert (answer.accuracy_points_change, answer.low, answer.high, answer.inside) == (None, None, None, False)
    assert answer.sentence.startswith("Not known") and "accept extrapolation" in answer.sentence
    answer = predict(loss, accept_extrapolation=True)
    assert answer.accuracy_points_change is not None and not answer.inside
    assert "Extrapolated" in answer.sentence and "Mixtral-8x7B" in answer.sentence
    worst = predict(50.0, accept_extrapolation=True)
    assert worst.low == -fitted().full_precision_percent, "no accuracy below nothing"
    assert worst.accuracy_points_change is not None and worst.accuracy_points_change >= worst.low


@pytest.mark.parametrize("loss", [-0.1, float("nan"), float("inf")])
def test_a_loss_that_is_none_is_refused(loss: float) -> None:
    with pytest.raises(ValueError, match="accepted is a number from 0 up"):
        predict(loss)


def test_mean_loss_weighs_by_activations_and_spares_residents() -> None:
    losses = np.array([[[0.8, 0.4, 0.2, 0.1]] * 3, [[0.6, 0.3, 0.1, 0.0]] * 3])
    bits = np.array([[4, 2, 1], [3, 3, 3]])
    activations = np.array([[6.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    resident = np.array([[True, False, False], [False, False, True]])
    by_hand = ((0.3 * 0.4 + 0.1 * 0.8) + (0.1 + 0.1) / 3) / 2
    assert mean_loss(losses, bits, activations, resident) == pytest.approx(by_hand)


def test_mean_loss_is_that_of_the_calibration() -> None:
    """The fit and a plan compute the same quantity."""
    published = calibration()["published"]
    losses = surrogate_losses(published["layers"], published["experts"], seed=published["seed"]).values
    shape = losses.shape[:2]
    resident = np.broadcast_to(np.arange(8) < 4, shape)
    share = published["cold_share_of_activations"]
    activations = np.where(resident, (1 - share) / 4, share / 4)
    expected = {point.setting: point.mean_loss for point in points(published)}
    for bits in (2, 3):
        assert mean_loss(losses, np.full(shape, bits), activations, resident) == pytest.approx(
            expected[f"{bits} bit, without selector"]
        )


def test_the_documentation_shows_the_fit_as_it_is() -> None:
    page = (Path(planner.__path__[0]).parent / "docs" / "losses.md").read_text(encoding="utf-8")
    found = fitted()
    for point in found.points[1:]:
        answer = predict(point.mean_loss)
        assert answer.accuracy_points_change is not None and answer.low is not None and answer.high is not None
        drop, best, worst = -answer.accuracy_points_change, -answer.high, -answer.low
        name = point.setting.replace("without selector", "without")
        row = f"| {name} | {point.accuracy_percent:.2f} | {point.mean_loss:.3g} | "
        assert f"{row}{shown(drop)} ({best:.2g} to {worst:.2g}) |" in page
    words = " ".join(page.split())
    assert f"factor of {found.factor:.2g} either way" in words
    assert f"residual ({found.residual:.2g}) and the leave-one-out error ({found.leave_one_out:.2g})" in words
    assert f"Beyond a mean loss of {found.largest_loss:.3g}" in words
    gains = EXPERT_LOSS[:-1] - EXPERT_LOSS[1:]
    assert "fall as " + " : ".join(f"{gain:.2f}" if gain < 1 else "1" for gain in gains / gains[0]) in words


def shown(drop: float) -> str:
    return f"{drop:.2f}" if drop < 1 else f"{drop:.2g}"


def test_the_file_is_plain_json() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8"))["name"] == "quality-mixtral-8x7b"
