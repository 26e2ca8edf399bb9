"""The calibration files hold what their fits find."""

from __future__ import annotations

import pytest

from validation.published.calibrations import calibration
from validation.published.fit import RESIDENCY, fit_p1, fit_r1, residency


def test_p1_is_what_its_fit_finds(run):
    assert fit_p1(run) == pytest.approx(calibration("P1").values(), rel=2e-4), (
        "fit it again: python -m validation.published --fit"
    )


def test_r1_is_what_its_fit_finds(run):
    assert fit_r1(run) == calibration("R1").values()


def test_the_generated_residency_is_printed_beside_the_recorded_one_and_near_it(run):
    data = calibration("P1").data["residency"]
    found = residency(run, calibration("P1").values()["sigma"])
    for k, name, _ in RESIDENCY:
        assert data["generated"][name] == pytest.approx(found[name], abs=6e-4)
        assert sum(found[name]) == pytest.approx(1.0)
        gap = sum(abs(a - b) for a, b in zip(found[name], data["probabilities"][k], strict=True))
        uniform = sum(abs(a - b) for a, b in zip(data["uniform"][k], data["probabilities"][k], strict=True))
        assert gap < uniform and gap < 0.07
