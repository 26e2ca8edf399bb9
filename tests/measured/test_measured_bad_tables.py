"""Tables as other programs write them and as people get them wrong: read right, or one sentence by row and column."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from planner.cli.main import main
from planner.errors import PlanError
from planner.fields.sentences import nearest
from tests.measured.measured_cases import FEW
from validation.measured import stream
from validation.measured.reading import Line, decode, read_file, read_text
from validation.measured.report import Row, answered, predicted_of

HEADER, ROW = FEW.strip().splitlines()


def one(text: str) -> Line:
    [line] = read_text(text, "runs.csv")
    return line


def problem(text: str) -> str:
    line = one(text)
    assert line.run is None
    return line.problem


def with_rate(text: str, separator: str = ",") -> str:
    """The table with this rate, in cells that end with ``separator``."""
    cells = next(csv.reader([ROW]))
    cells[HEADER.split(",").index("tokens_per_s")] = text
    quoted = [f'"{cell}"' if separator in cell else cell for cell in cells]
    return f"{HEADER.replace(',', separator)}\n{separator.join(quoted)}\n"


@pytest.mark.parametrize(
    ("rate", "separator", "value"),
    [
        ("1500.5", ",", 1500.5),
        ("1,500", ",", 1500.0),
        ("1,234,567.5", ",", 1234567.5),
        ("1500,5", ";", 1500.5),
        ("12,5", "\t", 12.5),
        ("1.500,5", ";", 1500.5),
        ("0,125", ";", 0.125),
        ("1,500", ";", None),
        ("12,5", ",", None),
        ("1.500,5", ",", None),
        ("1_500", ",", None),
        ("1500 tok/s", ",", None),
    ],
)
def test_decimal_commas_are_read_where_they_are_certain_and_never_guessed(
    rate: str, separator: str, value: float | None
) -> None:
    line = one(with_rate(rate, separator))
    if value is None:
        assert line.run is None
        assert "line 2: tokens_per_s is" in line.problem
    else:
        assert line.run is not None, line.problem
        assert line.run.tokens_per_s == value


def test_an_ambiguous_comma_names_both_readings() -> None:
    assert "may be 1500 or 1.500" in problem(with_rate("1,500", ";"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_every_common_encoding_is_read(encoding: str) -> None:
    text = FEW.replace(HEADER, HEADER + ",notes").replace(ROW, ROW + ",Größe")
    assert "Größe" in decode(text.encode(encoding), "runs.csv")
    assert one(decode(text.encode(encoding), "runs.csv")).run is not None


def test_a_zero_byte_is_refused_early_and_a_row_s_problem_later() -> None:
    with pytest.raises(PlanError, match="zero bytes"):
        decode(FEW.replace("40", "4\0").encode(), "runs.csv")
    late = FEW + "\n".join([ROW] * 200) + "\n" + ROW.replace("40,request", "4\0,request") + "\n"
    found = list(read_text(decode(late.encode(), "runs.csv"), "runs.csv"))
    assert [line.number for line in found if line.run is None] == [len(found) + 1]
    assert 'tokens_per_s is "4\\u0000"' in found[-1].problem


def test_blank_lines_ahead_of_the_header_are_passed_and_counted() -> None:
    assert one("\n\r\n" + FEW).number == 4
    with pytest.raises(PlanError, match="is empty"):
        one("\n\n\n")


def test_capitals_of_a_header_do_not_matter() -> None:
    line = one(FEW.replace(HEADER, HEADER.title()))
    assert line.run is not None
    assert line.run.tokens_per_s == 40.0


def test_an_open_quotation_mark_is_named_where_it_opens() -> None:
    first, second = read_text(f'{HEADER}\n{ROW}\n"{ROW}\n{ROW}\n{ROW}\n', "runs.csv")
    assert first.run is not None
    assert second.problem == "line 3: a quotation mark opens and is not closed in its line"


def test_a_huge_cell_is_its_row_s_fault_alone() -> None:
    first, second = read_text(f"{HEADER}\n{'x' * 300_000}{ROW}\n{ROW}\n", "runs.csv")
    assert "300," in first.problem and "characters" in first.problem
    assert second.run is not None


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("tokens_per_s", "0", "above 0, or an empty cell"),
        ("tokens_per_s", "1e9", "from 0 to 1e+07"),
        ("batch", "1.5", "whole number"),
        ("batch", "-1", "from 1 to"),
        ("phase", "decoding", "decode, prefill or e2e"),
        ("per", "gpu", "request or total"),
    ],
)
def test_a_wrong_cell_says_what_its_column_takes(column: str, value: str, words: str) -> None:
    cells = ROW.split(",")
    cells[HEADER.split(",").index(column)] = value
    text = problem(f"{HEADER}\n{','.join(cells)}\n")
    assert text.startswith(f"line 2: {column} is")
    assert words in text


def test_a_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read"):
        list(read_file(tmp_path))


def test_an_unknown_gpu_is_answered_with_the_one_whose_parts_it_names() -> None:
    known = ["H800 80GB", "H100 SXM 80GB", "A100 SXM 40GB", "A100 SXM 80GB"]
    assert nearest("H100 80G", known) == ["H100 SXM 80GB"]
    assert nearest("a100-80gb", known) == ["A100 SXM 80GB"]


def test_a_rate_in_another_unit_is_doubted_and_scored() -> None:
    sound = answered(one(FEW), predicted_of(one(FEW).run))  # type: ignore[arg-type]
    wrong = answered(one(with_rate("4e6")), sound)
    assert not any("unit" in note for note in sound.notes)
    assert any("times the prediction: check its unit" in note for note in wrong.notes)
    assert wrong.error is not None


def test_rows_come_one_by_one_and_equal_runs_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[float | None] = []
    answer = predicted_of(one(FEW).run)  # type: ignore[arg-type]

    def counted(run) -> Row:  # type: ignore[no-untyped-def]
        planned.append(run.batch)
        if run.batch == 3:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(stream, "predicted_of", counted)
    cells, where = ROW.split(","), HEADER.split(",").index("batch")
    rows = [",".join([*cells[:where], batch, *cells[where + 1 :]]) for batch in ("1", "2", "1", "3")]
    lines = read_text("\n".join([HEADER, *rows]), "runs.csv")
    found: list[Row] = []

    with pytest.raises(KeyboardInterrupt):
        found.extend(stream.rows(lines, workers=1))
    assert planned == [1.0, 2.0, 3.0]
    assert len(found) == 3  # what was done before somebody stopped
    assert any("the same run as" in note for note in found[2].notes)


def test_cells_of_the_written_table_are_never_formulas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "runs.csv", tmp_path / "out.csv"
    table.write_text(f"id,{HEADER}\n=1+1,{ROW}\n=1+1,{ROW}\n", encoding="utf-8")
    assert main(["validate", str(table), "--out", str(out), "--workers", "1"]) == 0
    assert [row["id"] for row in csv.DictReader(out.open(encoding="utf-8"))] == ["'=1+1", "'=1+1"]
    assert "formula" not in capsys.readouterr().err
