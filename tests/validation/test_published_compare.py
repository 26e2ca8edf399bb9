"""Error and verdict, by hand and for any figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.published.compare import error, verdict
from validation.published.records import VERDICTS

POSITIVE = st.floats(1e-6, 1e6)
RANGES = st.tuples(POSITIVE, POSITIVE).map(lambda pair: (min(pair), max(pair)))


@pytest.mark.parametrize(
    ("published", "predicted", "expected"),
    [
        (2.0, 2.5, 0.25),
        (2.0, 1.0, -0.5),
        ((2.0, 4.0), 3.0, 0.0),
        ((2.0, 4.0), 5.0, 0.25),
        ((2.0, 4.0), 1.0, -0.5),
        (2.0, (1.0, 3.0), 0.0),
        (2.0, (3.0, 5.0), 0.5),
        (2.0, (0.5, 1.0), -0.5),
        ((2.0, 4.0), (2.0, 4.0), 0.0),
        ((2.0, 4.0), (2.2, 5.0), 0.25),
        ((2.0, 4.0), (1.0, 5.0), -0.5),
        ((0.0, 0.4), 0.1, 0.0),
        ((0.0, 0.4), 0.5, 0.25),
        ((0.0, 0.4), (0.1, 0.2), 0.0),
        ((0.0, 0.4), (0.1, 0.5), 0.25),
        (None, 2.0, None),
        (2.0, None, None),
    ],
)
def test_error_by_hand(published, predicted, expected):
    found = error(published, predicted)
    assert found == (None if expected is None else pytest.approx(expected))


@given(POSITIVE, POSITIVE)
def test_two_numbers_are_their_ratio_less_one(published, predicted):
    assert error(published, predicted) == pytest.approx(predicted / published - 1.0)


@given(RANGES, POSITIVE)
def test_a_number_against_a_range_is_zero_exactly_inside(published, predicted):
    found = error(published, predicted)
    assert found is not None
    assert (found == 0) == (published[0] <= predicted <= published[1])
    assert (found < 0) == (predicted < published[0])


@given(RANGES, RANGES, st.floats(0.01, 100))
def test_the_unit_does_not_matter(published, predicted, factor):
    scaled = error(tuple(v * factor for v in published), tuple(v * factor for v in predicted))
    assert scaled == pytest.approx(error(published, predicted), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("off", "expected"),
    [(0.0, "reproduced"), (-0.1, "reproduced"), (0.11, "near"), (-0.25, "near"), (0.26, "not_reproduced")],
)
def test_verdict_by_error(off, expected):
    assert verdict(off) == expected
    assert expected in VERDICTS


def test_no_error_has_no_verdict_of_its_own():
    with pytest.raises(ValueError, match="own verdict"):
        verdict(None)
