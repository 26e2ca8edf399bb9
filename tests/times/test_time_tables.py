"""Tables of expert time against tokens: between their rows, in bad files, in a plan."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import time_tables
from planner.bound import bound
from planner.cli.main import main
from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.policies.trimoe_times import cpu_floor_s, default_table, gpu_floor_s, on_cpu, on_gpu
from planner.scenario import Scenario
from planner.time_table import Curve, TimeTable, TimeTableError
from planner.time_table_io import KIND, digest, parse_table, read_table, table_bytes, write_table
from tests.policies.policy_cases import case, every_layer, tiny


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))


def trimoe(batch: int = 24, table: str | None = None, **policy: Any) -> Scenario:
    """DIMMs that compute slowly, so that the CPU has work to do."""
    options = {"start": "layout", **({"time_table": table} if table else {})}
    slow = {"ndp.flop_per_s": 2e10}
    return tiny("trimoe", options, batch=batch, system="trimoe-server", over=slow, gpu_experts_per_layer=2, **policy)


# --- the curve -------------------------------------------------------------------------------------------------------
def test_between_before_and_beyond_the_rows() -> None:
    curve = Curve("cpu", "", (2, 10, 20), (1.0, 3.0, 3.0))
    assert curve([0, 1, 2, 6, 10, 15, 20, 40]).tolist() == [0, 1, 1, 2, 3, 3, 3, 6]


def test_a_time_that_falls_is_replaced_by_the_longest_so_far() -> None:
    curve = Curve("gpu", "", (1, 2, 4), (2.0, 1.0, 3.0))
    assert curve.falling == (2,)
    assert curve([1, 2, 3]).tolist() == [2, 2, 2.5]


@given(
    rows=st.lists(
        st.tuples(st.integers(1, 500), st.floats(1e-9, 1.0)), min_size=1, max_size=20, unique_by=lambda r: r[0]
    )
)
@settings(deadline=None)
def test_more_tokens_never_take_less_time(rows: list[tuple[int, float]]) -> None:
    rows.sort()
    seconds = Curve("gpu", "", tuple(n for n, _ in rows), tuple(s for _, s in rows))(np.arange(0, 1000))
    assert seconds[0] == 0
    assert (np.diff(seconds) >= 0).all()


# --- the file --------------------------------------------------------------------------------------------------------
HEADER = b"device,tokens,seconds\n"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "lacks the column device"),
        (HEADER, "has no rows"),
        (b"device,tokens\ncpu,1\n", "lacks the column seconds"),
        (b"device,tokens,second\ncpu,1,1\n", 'has the column "second".* the nearest is seconds'),
        (b"device,tokens,tokens,seconds\ncpu,1,1,1\n", "has the column tokens twice"),
        (HEADER + b"cpu,1,-0.5\n", "The CPU takes -0.5 seconds at 1 tokens"),
        (HEADER + b"cpu,1,0\n", "takes 0 seconds"),
        (HEADER + b"cpu,1,nan\n", "not a number"),
        (HEADER + b"cpu,1,inf\n", "infinite"),
        (HEADER + b"cpu,1,fast\n", 'has "fast" seconds'),
        (HEADER + b"cpu,4,1\ncpu,2,2\n", "has 2 tokens after 4"),
        (HEADER + b"cpu,4,1\ncpu,4,2\n", "has 4 tokens after 4"),
        (HEADER + b"cpu,0,1\n", "has a row of 0 tokens"),
        (HEADER + b"cpu,1.5,1\n", 'has "1.5" tokens'),
        (HEADER + b"cpu,1e400,1\n", 'has "1e400" tokens'),
        (HEADER + b"cpu,99999999,1\n", "99999999 tokens"),
        (HEADER + b"tpu,1,1\n", 'Line 2 of "x.csv" has the device "tpu"'),
        (HEADER + b"cpu,1\n", "has 2 values; the header names 3 columns"),
        (HEADER + b'cpu,1,"1\n', "is not CSV"),
        (b"device,format,tokens,seconds\ncpu,bf17,1,1\n", 'the format "bf17".*the nearest is bf16'),
        (b"\xff\xfe\x00", "is not CSV in UTF-8"),
        (b"\x80\x04pickle", "is not CSV in UTF-8"),
        (b"x" * (KIND.most_bytes + 1), "is larger than 8 MB"),
        (HEADER + b"cpu,1,1\n" * 200_001, "more than 200,000 rows"),
    ],
)
def test_bad_files_are_refused_with_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(TimeTableError, match=sentence) as refused:
        parse_table(data, "x.csv")
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 320


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_a_table_or_one_sentence(data: bytes) -> None:
    for given_bytes in (data, HEADER + data):
        with suppress(TimeTableError):  # anything else fails the test
            assert parse_table(given_bytes).curves


def test_written_and_read_back_it_is_the_same(tmp_path: Path) -> None:
    table = TimeTable(
        (Curve("gpu", "bf16", (1, 7), (1e-5, 1 / 3)), Curve("cpu", "", (16,), (2.5e-4,))), "measured", "m", "s"
    )
    path = tmp_path / "t.csv"
    write_table(table, path)
    assert read_table(path) == table
    assert digest(read_table(path)) == digest(table)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["t.csv"]


def test_provenance_that_is_no_provenance_says_nothing() -> None:
    for first in (b"# tierline-time-table: [1]\n", b"# tierline-time-table: {\n", b"# " + b"[" * 30_000 + b"\n"):
        assert "does not say" in parse_table(first + HEADER + b"cpu,1,1\n").source


def test_a_table_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    table = TimeTable((Curve("cpu", "", (1,), (1.0,)),), "x")
    with pytest.raises(PlanError, match=r"must end in \.csv"):
        write_table(table, tmp_path / "t.exe")
    with pytest.raises(PlanError, match="cannot be written"):
        write_table(table, tmp_path / "nowhere" / "t.csv")
    assert list(tmp_path.iterdir()) == []


# --- kept on this machine --------------------------------------------------------------------------------------------
def test_kept_tables_are_found_by_content_and_refused_when_changed() -> None:
    table = TimeTable((Curve("cpu", "", (1,), (1.0,)),), "x")
    name = time_tables.register(table)
    assert time_tables.register(table) == name
    assert time_tables.known() == (name,)
    assert time_tables.chosen(name) == table
    assert time_tables.chosen("physics") is None
    other = TimeTable((Curve("cpu", "", (1,), (2.0,)),), "x")
    (time_tables.directory() / f"{digest(other)}.csv").write_bytes(table_bytes(table))
    with pytest.raises(TimeTableError, match="was changed on disk"):
        time_tables.chosen(digest(other))
    with pytest.raises(TimeTableError, match="not on this machine"):
        time_tables.chosen("0" * 64)
    with pytest.raises(TimeTableError, match="accepted is physics"):
        time_tables.chosen("../../etc/passwd")


# --- in a plan -------------------------------------------------------------------------------------------------------
def kept(text: str) -> str:
    return time_tables.register(parse_table(text.encode()))


@pytest.mark.parametrize("change", [{}, {"weight_bits": 6.0}, {"weight_bits": 3.5}], ids=str)
def test_the_exported_default_gives_the_plan_of_the_formulas(change: dict[str, Any]) -> None:
    plain = evaluate(trimoe(**change))
    table = time_tables.register(default_table(plain.ctx, 24))
    again = evaluate(trimoe(table=table, **change))
    assert plain.decode is not None and again.decode is not None
    assert again.decode.step.total_s == pytest.approx(plain.decode.step.total_s, rel=1e-9)
    assert vars(again.decode.flows) == pytest.approx(vars(plain.decode.flows), rel=1e-9)


def test_the_default_keeps_both_ends_of_each_tile() -> None:
    scenario = Scenario.model_validate(
        {
            "model": {"id": "deepseek-ai/DeepSeek-V2"},
            "system": {"id": "trimoe-server", "overrides": {"cpu.overlap": 1, "cpu.bf16_flop_per_s": 1e12}},
            "policy": {"id": "trimoe"},
        }
    )
    ctx = evaluate(scenario, quick=True).ctx
    curve = default_table(ctx, 100).curve("cpu", ctx.other_widths()[0][0].format)
    assert curve is not None
    assert {16, 17, 32, 33, 48, 49, 96, 97} <= set(curve.tokens)  # AMX tiles of 16 rows
    assert len(curve.tokens) < 30


def test_a_slower_cpu_in_the_table_moves_work_and_lengthens_the_step() -> None:
    plain = evaluate(trimoe())
    slow = evaluate(trimoe(table=kept("device,tokens,seconds\ncpu,1,0.01\ncpu,100,0.02\n")))
    assert plain.decode is not None and slow.decode is not None
    assert slow.decode.step.total_s > plain.decode.step.total_s
    assert slow.decode.flows.cpu_flop < plain.decode.flows.cpu_flop


def test_seconds_are_those_of_the_table_by_hand() -> None:
    c = case(trimoe(table=kept("device,tokens,seconds\ngpu,1,1\ngpu,3,2\ncpu,1,4\ncpu,5,8\n")))
    row = every_layer([0, 1, 2, 3, 5, 10, 0, 0])
    hot = on_gpu(c.ctx, row, c.ctx.gpu_width.expert_bytes, c.ctx.gpu_width.format).seconds[0, 0]
    assert hot.tolist() == pytest.approx([0, 1, 1.5, 2, 2 * 5 / 3, 2 * 10 / 3, 0, 0])
    warm = on_cpu(c.ctx, row, c.placed.stored, c.placed.widths).seconds[0, 0]
    assert warm.tolist() == pytest.approx([0, 4, 5, 6, 8, 16, 0, 0])
    alone = on_cpu(c.ctx, row, c.placed.stored, c.placed.widths, 0.5).seconds[0, 0]
    assert (alone >= warm).all() and (alone[row[0, 0] > 0] > warm[row[0, 0] > 0]).all()


def test_a_table_faster_than_the_machine_is_clamped_said_and_never_beats_the_bound() -> None:
    table = kept("device,tokens,seconds\ngpu,1,1e-12\ncpu,1,1e-12\n")
    c = case(trimoe(table=table))
    row = every_layer([0, 1, 2, 3, 5, 10, 0, 0])
    bytes_ = c.placed.stored.bytes
    floor = cpu_floor_s(c.ctx, row, bytes_)
    np.testing.assert_allclose(on_cpu(c.ctx, row, c.placed.stored, c.placed.widths).seconds, floor)
    width = c.ctx.gpu_width
    np.testing.assert_allclose(
        on_gpu(c.ctx, row, width.expert_bytes, width.format).seconds,
        gpu_floor_s(c.ctx, row, width.expert_bytes, width.format),
    )
    found = evaluate(trimoe(64, table))
    assert found.decode is not None
    assert any("those are used there" in w for w in found.warnings), found.warnings
    assert any("beyond 1 tokens" in w for w in found.warnings)
    step = found.decode.step
    assert step.total_s >= max(step.byte_floor_s, step.flop_floor_s)
    proven = bound(found)
    assert proven is not None and proven.step_s <= step.total_s * (1 + 1e-9)


def test_a_format_that_the_table_lacks_is_one_sentence() -> None:
    table = kept("device,format,tokens,seconds\ncpu,int8,1,1\n")
    with pytest.raises(PlanError, match=r"no rows of cpu at format .*; it has int8"):
        evaluate(trimoe(table=table))
    assert evaluate(trimoe(table=table, expert_format="int8")).decode is not None


# --- commands --------------------------------------------------------------------------------------------------------
def test_export_edit_import_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        "--model",
        "deepseek-ai/DeepSeek-V2-Lite",
        "--system",
        "trimoe-server",
        "--policy",
        "trimoe",
        "--batch",
        "16",
    ]
    out = tmp_path / "times.csv"
    assert main(["export-times", *flags, "--out", str(out)]) == 0
    out.write_text(out.read_text().replace("the planner's own formulas", "measured by hand"))
    capsys.readouterr()
    assert main(["import-times", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {c["device"] for c in answer["curves"]} == {"gpu", "cpu"}
    assert answer["source"] == "measured by hand"
    assert main(["plan", *flags, "--set", f"policy.options.time_table={answer['digest']}", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert any("measured by hand" in w for w in planned["warnings"])
    assert main(["plan", *flags, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    # The layout is learnt from mean loads, which are fractions of a token; there a table has slopes for stairs.
    assert planned["headline"]["tpot_s"] == pytest.approx(plain["headline"]["tpot_s"], rel=0.01)


def test_export_is_for_trimoe_and_import_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export-times", "--policy", "all-gpu", "--out", str(tmp_path / "t.csv")]) != 0
    assert "times are exported for 'trimoe'" in capsys.readouterr().err
    assert main(["import-times", str(tmp_path / "none.csv")]) != 0
    assert "There is no time table file" in capsys.readouterr().err
    assert list(tmp_path.glob("*.csv")) == []
