"""Runs that a calibration may not see are named with the reason, on the command line and on the page alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner import calibration
from planner.cli.main import main
from planner.errors import PlanError
from validation.measured.own import from_lines
from validation.measured.reading import read_file

HEAD = "model,gpu,batch,phase,tokens_per_s,per\n"
GOOD = tuple(f"openai/gpt-oss-20b,H100 SXM 80GB,{batch},decode,{250 * batch},total\n" for batch in (1, 2, 4))


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))


def table(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(HEAD + "".join(rows), encoding="utf-8")
    return path


def test_repeated_rows_and_other_units_are_left_out_and_named(tmp_path: Path) -> None:
    """A row told twice would stand on both sides of a held-out fit; one in tokens per hour would bend all figures."""
    plain, _ = from_lines(tuple(read_file(table(tmp_path, *GOOD))), "a", "runs.csv")
    odd = "openai/gpt-oss-20b,H100 SXM 80GB,8,decode,4000000,total\n"
    found, unusable = from_lines(tuple(read_file(table(tmp_path, *GOOD, GOOD[1], odd))), "a", "runs.csv")
    assert found.rows == 3
    assert found.calibration.families == plain.calibration.families
    assert dict(unusable)["row 5"] == "the same run as row 3, with the same rate"
    assert "times the prediction: check its unit" in dict(unusable)["row 6"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((GOOD[0],) * 5, "has 1 run that can be used; a calibration takes 3 to 2,000. Not used: row 3: the same run"),
        ((GOOD[0].replace("gpt-oss", "gpt-os"),) * 3, "0 runs that can be used; .* Not used: row 2: model"),
        (
            tuple(row.replace("total", "system") for row in GOOD),
            'row 2: per is "system"; it takes request or total\\.$',
        ),
        (tuple(row.replace("0,total", "0000,total") for row in GOOD), "row 2: .* times the prediction: check its unit"),
    ],
)
def test_too_few_runs_say_why(
    tmp_path: Path, rows: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path, *rows)
    with pytest.raises(PlanError, match=words):
        from_lines(tuple(read_file(path)), "a", "runs.csv")
    assert main(["calibrate", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert calibration.known() == {}


def test_runs_of_several_machines_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, _ = from_lines(tuple(read_file(table(tmp_path, *GOOD))), "a", "runs.csv")
    assert (one.machines, one.mixture) == (1, "")
    other = GOOD[2].replace("H100 SXM 80GB", "H200 SXM 141GB")
    path = table(tmp_path, *GOOD, other)
    two, _ = from_lines(tuple(read_file(path)), "a", "runs.csv")
    assert two.machines == 2
    assert main(["calibrate", str(path), "--accept"]) == 0
    assert "The runs are of 2 machines or engines" in capsys.readouterr().out
