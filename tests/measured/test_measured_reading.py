"""Tables of runs from people: few columns, other encodings, and what is wrong with them, by line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import PlanError
from tests.measured.measured_cases import FEW
from validation.measured.reading import Line, decode, read_file, read_text
from validation.measured.ship import points


def lines(text: str) -> list[Line]:
    return list(read_text(text, "runs.csv"))


def test_the_few_columns_that_matter_are_enough() -> None:
    [line] = lines(FEW)
    assert line.run is not None
    assert (line.run.model, line.run.gpu, line.run.n_gpu) == ("Qwen/Qwen3-30B-A3B", "RTX 4090 24GB", 1)
    assert line.run.tokens_per_s == 40.0


def test_all_published_points_are_read() -> None:
    found = points()
    assert len(found) == 599
    assert all(line.run is not None for line in found)
    assert sum(line.run.usable for line in found if line.run) == 426


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("40,request", "1e9,request"), "tokens_per_s"),
        (("83.2", "83200000000"), "GB/s"),
        (("40,request", "fast,request"), "takes a number"),
        (("decode", "decoding"), "phase is"),
        (("40,request", "nan,request"), "takes a number"),
        (("512", "-512"), "input_len"),
        ((",request", ""), "cells"),
    ],
)
def test_a_bad_cell_is_named_with_its_line(change: tuple[str, str], words: str) -> None:
    [line] = lines(FEW.replace(*change))
    assert line.run is None
    assert "line 2" in line.problem
    assert words in line.problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("modell,gpu\nx,y\n", "model"),
        ("model,model\nx,y\n", "twice"),
    ],
)
def test_a_bad_header_is_one_sentence(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        lines(text)


def test_encodings_of_other_programs_are_read() -> None:
    text = "model,notes\nx,große Zahl\n"
    for data in (text.encode(), text.encode("utf-8-sig"), text.encode("utf-16"), text.encode("cp1252")):
        assert "große" in decode(data, "runs.csv")


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(b"\x00\x01\x02" * 100)
    with pytest.raises(PlanError, match="zero bytes"):
        list(read_file(path))
    with pytest.raises(PlanError, match="cannot be read"):
        list(read_file(tmp_path / "none.csv"))


def test_other_separators_are_seen() -> None:
    [line] = lines(FEW.replace(",", ";"))
    assert line.run is not None and line.run.batch == 1.0
