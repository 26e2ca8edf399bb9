"""Five runs of one's own help where the machine differs and hurt nowhere; a calibration that hurts is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import accuracy, calibration
from planner.calibration import Calibration
from planner.cli.main import main
from validation.measured import own, per_machine
from validation.measured.coefficients import Fittable
from validation.measured.fit import Linear
from validation.measured.own import Own

FIGURES = (
    Fittable("gpu.bandwidth_efficiency", 0.12, ("all_gpu",), low=0.01, high=10.0),
    Fittable("gpu.layer_launch_s", 0.5, ("all_gpu",), low=1e-6, high=10.0),
)
RUNS, NOISE = 20, 0.05


def cell(moved: tuple[float, float], seed: int) -> list[dict[str, float]]:
    """A machine whose figures lie ``moved`` (ln) away from the shipped ones: its judged runs."""
    random = np.random.default_rng(seed)
    share = random.uniform(0.0, 1.0, RUNS)  # of a step that reads; the rest is launching
    jacobian = np.column_stack([share, -(1.0 - share)])
    linear = Linear(tuple(f.path for f in FIGURES), np.log([0.7, 0.1]), np.full(RUNS, 3.0), jacobian)
    measured = linear.log_rates + jacobian @ np.array(moved) + random.normal(0.0, NOISE, RUNS)
    return per_machine.judged(linear, measured, FIGURES, [f"r{i}" for i in range(RUNS)])


def median(rows: list[dict[str, float]], key: str) -> float:
    return float(np.median([abs(row[key]) for row in rows]))


def test_five_runs_are_taken_and_the_others_judged() -> None:
    assert per_machine.calibrated_on(20).sum() == 5
    assert per_machine.calibrated_on(7).sum() == 3
    assert len(cell((0.0, 0.0), 0)) == RUNS - 5


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([-1.0, 1.0]), st.floats(0.15, 0.3), st.floats(0.4, 1.0), st.integers(0, 1000))
def test_five_points_help_a_machine_that_differs(sign: float, reads: float, launches: float, seed: int) -> None:
    rows = cell((sign * reads, -sign * launches), seed)
    assert median(rows, "after") < 0.8 * median(rows, "before")


def test_five_points_do_not_hurt_machines_that_are_as_shipped() -> None:
    rows = [row for seed in range(60) for row in cell((0.0, 0.0), seed)]
    # Five noisy runs cannot be free; they cost less than one factor from the same five, and little of the noise.
    assert median(rows, "after") <= median(rows, "factor")
    assert median(rows, "after") - median(rows, "before") < 0.1 * NOISE


@pytest.mark.parametrize("accepted", [False, True])
def test_a_calibration_that_worsens_what_was_left_out_is_refused_by_default(
    accepted: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Calibration(
        name="mine", engine_version="1", fitted_on="20 runs", date="2026-01-01", families={"generic": {}}
    )
    hurts = Own(made, rows=20, before=0.1, after=0.05, held_out_before=0.1, held_out_after=0.2)
    assert not hurts.helps
    kept: list[Calibration] = []
    monkeypatch.setattr(own, "from_lines", lambda *_: (hurts, ()))
    monkeypatch.setattr(calibration, "register", lambda one: kept.append(one) or "0123456789ab")
    table = tmp_path / "runs.csv"
    table.write_text("model,gpu,tokens_per_s\nx,y,1\n", encoding="utf-8")
    assert main(["calibrate", str(table), *(["--accept"] if accepted else [])]) == 0
    said = capsys.readouterr().out
    assert kept == ([made] if accepted else [])
    assert "10.0 % with the shipped figures, 20.0 % on runs left out" in said
    assert ("it makes runs that were left out worse" in said) is not accepted


def test_the_page_is_that_of_the_stored_run_and_its_runs_are_held_out_ones() -> None:
    stored = per_machine.stored()
    assert per_machine.PAGE.read_text(encoding="utf-8") == per_machine.page(stored)
    held_out = {row.id: row for row in accuracy.residuals()}
    for cell_ in stored["cells"]:
        assert cell_["rows"]
        for row in cell_["rows"]:
            assert held_out[row["id"]].group == row["group"]
            assert math.isfinite(row["after"])
