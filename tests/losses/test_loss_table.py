"""The table: what it accepts, where it goes wrong in words, and that it comes back the same from every form."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import loss_tables
from planner.errors import PlanError
from planner.files import write_whole
from planner.loss_table import COLUMNS, LossTable, LossTableError, Provenance, falling, table_from_rows
from planner.loss_table_io import KIND, parse_table, read_table, table_bytes, write_table
from planner.loss_tables import LossChoice
from planner.losses import surrogate_losses


def table(layers: tuple[int, ...] = (3, 4, 7), experts: int = 5, seed: int = 0) -> LossTable:
    values = -np.sort(-np.random.default_rng(seed).exponential(size=(len(layers), experts, 4)), axis=2)
    about = Provenance("measured", "gptq", "drawn", "a/model", 128, "Tierline 0", "2026-11-30", ("one", "two"))
    return LossTable(layers, values, False, about)


def frame(changed: Callable[[pd.DataFrame], object] | None = None) -> pd.DataFrame:
    """Two layers of three experts, in disorder; ``changed`` may alter it."""
    rows = [(layer, e, b, 1.0 / b / (1 + e)) for layer in (0, 1) for e in range(3) for b in (1, 2, 3, 4)]
    found = pd.DataFrame(rows, columns=list(COLUMNS)).sample(frac=1, random_state=0).reset_index(drop=True)
    if changed is not None:
        other = changed(found)
        found = other if isinstance(other, pd.DataFrame) else found
    return found


def as_csv(found: pd.DataFrame) -> bytes:
    return found.to_csv(index=False).encode()


def as_parquet(found: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    found.to_parquet(buffer, index=False)
    return buffer.getvalue()


def refused(data: bytes) -> str:
    with pytest.raises(LossTableError) as error:
        parse_table(data, "mine.csv")
    text = str(error.value)
    assert "\n" not in text and text.endswith(".") and len(text) < 500
    return text


# --- round trips -----------------------------------------------------------------------------------------------------
@settings(max_examples=25)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 6), st.sampled_from(["csv", "parquet"]))
def test_out_and_in_again_is_exact(seed: int, layers: int, experts: int, kind: str) -> None:
    first = table(tuple(range(2, 2 + layers)), experts, seed)
    again = parse_table(table_bytes(first, kind))
    assert np.array_equal(again.values, first.values)
    assert (again.layers, again.provenance, again.surrogate) == (first.layers, first.provenance, first.surrogate)
    assert again.digest == first.digest
    assert table_bytes(again, kind) == table_bytes(first, kind)


@pytest.mark.parametrize("as_file", [as_csv, as_parquet])
def test_a_plain_frame_is_accepted_in_any_order(as_file: Callable[[pd.DataFrame], bytes]) -> None:
    found = parse_table(as_file(frame()))
    assert (found.layers, found.experts, found.surrogate) == ((0, 1), 3, False)
    assert found.values[1, 2].tolist() == [1 / 3, 1 / 6, 1 / 9, 1 / 12]
    assert found.source == "imported; the file does not say where its losses come from"
    shuffled = parse_table(as_file(frame(lambda f: f[["loss", "bits", "layer", "expert"]])))
    assert shuffled.digest == found.digest


@pytest.mark.parametrize(
    "kept",
    [
        {name: value}
        for name in ("source", "method", "calibration", "model", "group_size", "software", "date", "notes", "surrogate")
        for value in ("x", 7, -1, 2.5, True, None, [], ["x", 1, None], {"a": 1}, 10**400)
    ],
    ids=lambda kept: json.dumps(kept)[:40],
)
def test_a_header_may_say_anything(kept: dict[str, object]) -> None:
    """What does not fit its field says nothing; the losses are the same."""
    found = parse_table(f"# tierline-loss-table: {json.dumps(kept)}\n".encode() + as_csv(frame()))
    assert np.array_equal(found.values, parse_table(as_csv(frame())).values)
    assert found.surrogate == (kept == {"surrogate": True})
    assert parse_table(table_bytes(found)).digest == found.digest


def test_a_surrogate_stays_one() -> None:
    first = surrogate_losses(2, 3)
    for kind in ("csv", "parquet"):
        again = parse_table(table_bytes(first, kind))
        assert again.surrogate and "not measured on this model" in again.source


def test_spreadsheets_and_comments_are_read() -> None:
    text = "# my table\r\n\r\nlayer, expert,bits,loss\r\n" + "".join(f"0,0,{b}.0,{1 / b}\r\n" for b in (1, 2, 3, 4))
    assert parse_table(b"\xef\xbb\xbf" + text.encode()).values.shape == (1, 1, 4)


# --- what is refused -------------------------------------------------------------------------------------------------
def change(row: int, **values: object) -> Callable[[pd.DataFrame], object]:
    def changing(found: pd.DataFrame) -> pd.DataFrame:
        found = found.sort_values(["layer", "expert", "bits"], ignore_index=True)
        for column, value in values.items():
            found[column] = found[column].astype(object)
            found.loc[row, column] = value
        return found

    return changing


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda f: f[f["expert"] != 1], "lacks expert 1 of layer 0 (and experts of 1 more layers)"),
        (lambda f: f[(f["layer"] != 1) | (f["expert"] != 2)], "lacks expert 2 of layer 1; another layer has 3"),
        (lambda f: f[(f["bits"] != 3) | (f["layer"] != 1)], "lacks layer 1, expert 0 at 3 bits"),
        (lambda f: f[:0], "has no rows"),
        (lambda f: pd.concat([f, f[:1]]), "times; once is accepted"),
        (lambda f: f.drop(columns="bits"), "lacks the column bits"),
        (lambda f: f.rename(columns={"loss": "lss"}), 'the column "lss"'),
        (lambda f: f.assign(weight=1), 'the column "weight"'),
        (change(4, loss=-0.25), "layer 0, expert 1 at 1 bits is -0.25; accepted is a number from 0 up"),
        (change(4, loss="nan"), "not a number (NaN)"),
        (change(4, loss="inf"), "infinite"),
        (change(4, loss="much"), 'Row 5 of the loss table has the loss "much"'),
        (change(4, loss=""), 'the loss ""'),
        (change(5, loss=0.75), "layer 0, expert 1 rises from 0.5 at 1 bits to 0.75 at 2"),
        (change(4, bits=5), "Row 5 of the loss table has bits 5; accepted is a whole number from 1 to 4"),
        (change(4, bits=0), "has bits 0"),
        (change(4, bits="2.5"), 'has bits "2.5"; a whole number is accepted'),
        (change(4, expert=-1), "has expert -1"),
        (change(4, expert=1e9), "has expert 1000000000; accepted is a whole number from 0 to 4,095"),
        (change(4, expert="1e30"), "a whole number is accepted"),
        (change(4, layer=2000), "has layer 2000"),
        (change(4, layer="x"), 'has layer "x"'),
    ],
)
def test_a_bad_csv_is_one_sentence(changed: Callable[[pd.DataFrame], object], words: str) -> None:
    assert words in refused(as_csv(frame(changed)))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda f: f[f["expert"] != 1], "lacks expert 1 of layer 0"),
        (lambda f: f.assign(loss=f["loss"].where(f["expert"] != 2)), "rows of"),
        (lambda f: f.assign(loss=f["loss"].astype(str)), "The column loss of"),
        (lambda f: f.assign(bits=f["bits"] * 1.0), "The column bits of"),
        (lambda f: f.assign(loss=-f["loss"]), "is -1; accepted is a number from 0 up"),
        (lambda f: f.assign(more=1), 'the column "more"'),
        (lambda f: f.drop(columns="layer"), "lacks the column layer"),
        (lambda f: f.assign(layer=np.uint64(2**63)), "has layer 1000000000"),
    ],
)
def test_a_bad_parquet_is_one_sentence(changed: Callable[[pd.DataFrame], object], words: str) -> None:
    assert words in refused(as_parquet(frame(changed)))


def test_equal_losses_are_accepted() -> None:
    assert parse_table(as_csv(frame(change(5, loss=1 / 2)))).values[0, 1, 1] == 0.5


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "lacks the column layer"),
        (b"\xff\xfe\x00", "neither CSV in UTF-8 nor Parquet"),
        (b"layer;expert;bits;loss\n0;0;1;1\n", "separated by commas"),
        (b"layer,expert,bits,loss\n0,0,1\n", "Line 2 of"),
        (b'# note\nlayer,expert,bits,loss\n0,0,1,"1\n', "is not CSV"),
        (b"layer,layer,expert,bits,loss\n", "has the column layer twice"),
        (b"PAR1 and then nothing", "not a Parquet file that can be read"),
        (b"PAR1" + bytes(40) + b"PAR1", "not a Parquet file that can be read"),
        (b"layer,expert,bits,loss\n" + b"0,0,1," + b"9" * 200_000, "is not CSV"),
    ],
)
def test_bytes_that_are_no_table_are_one_sentence(data: bytes, words: str) -> None:
    assert words in refused(data)


def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("planner.loss_table_io.KIND", replace(KIND, most_rows=10))
    for data in (as_csv(frame()), as_parquet(frame())):
        assert "more than 10 rows" in refused(data)
    monkeypatch.setattr("planner.loss_table_io.KIND", replace(KIND, most_bytes=100))
    assert "larger than" in refused(as_csv(frame()))
    path = tmp_path / "t.csv"
    path.write_bytes(as_csv(frame()))
    with pytest.raises(LossTableError, match="larger than"):
        read_table(path)


def test_a_parquet_that_unpacks_to_much_is_refused_before(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    zeros = pd.DataFrame(dict.fromkeys(COLUMNS, np.zeros(500_000, np.int64)))
    zeros.to_parquet(buffer, index=False, use_dictionary=False, compression="zstd")
    data = buffer.getvalue()
    assert len(data) < 100_000
    monkeypatch.setattr("planner.loss_table_io.KIND", replace(KIND, most_bytes=len(data)))
    assert "unpacks to 16 MB" in refused(data)


@settings(max_examples=60)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.booleans())
def test_any_bytes_are_a_sentence(data: bytes, header: bool) -> None:
    refused((b"layer,expert,bits,loss\n" if header else b"") + data)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.csv", "There is no loss table file"), (tmp_path, "cannot be read")):
        with pytest.raises(LossTableError, match=words):
            read_table(path)


# --- the type --------------------------------------------------------------------------------------------------------
def test_a_table_that_is_none_is_refused() -> None:
    about = Provenance("test")
    for layers, values, words in (
        ((0,), np.ones((1, 2, 3)), "shape"),
        ((0, 1), np.ones((1, 2, 4)), "for 2 layers"),
        ((1, 0), np.ones((2, 2, 4)), "ascending"),
        ((0, 0), np.ones((2, 2, 4)), "each once"),
        ((-1,), np.ones((1, 2, 4)), "from 0 up"),
        ((), np.ones((0, 2, 4)), "shape"),
        ((0,), np.full((1, 2, 4), np.nan), "not a number"),
    ):
        with pytest.raises(LossTableError, match=words):
            LossTable(layers, values, False, about)
    ones = np.ones(4, np.int64)
    with pytest.raises(LossTableError, match="gives layer 1, expert 1 at 1 bits 4 times"):
        table_from_rows(ones, ones, ones, np.ones(4), False, about)


def test_values_cannot_be_changed() -> None:
    values = np.ones((1, 2, 4))
    found = LossTable((0,), values, False, Provenance("test"))
    values[:] = 7
    assert found.values.max() == 1
    with pytest.raises(ValueError, match="read-only"):
        found.values[0, 0, 0] = 2


def test_a_table_fits_its_model_or_says_why_not() -> None:
    found = table((3, 4, 7))
    assert found.for_model([3, 4, 7], 5) is found.values
    for layers, experts, words in (
        ((3, 4, 7), 6, "has 5 experts in each layer; the model has 6"),
        ((3, 4, 7, 8), 5, "lacks layer 8; the MoE layers of the model are 3 to 4, 7 to 8"),
        ((3, 4), 5, "also has layer 7"),
        ((0, 1, 2), 5, "lacks layers 0, 1, 2; .* and the table has 3 to 4, 7"),
        (tuple(range(1, 61)), 5, "lacks layers 1, 2, 5, 6 and 53 more"),
    ):
        with pytest.raises(LossTableError, match=words):
            found.for_model(layers, experts)


def test_rising_losses_are_found_and_can_be_levelled() -> None:
    values = np.array([[[0.5, 0.6, 0.2, 0.3], [0.4, 0.3, 0.2, 0.1]]])
    found = LossTable((9,), values, False, Provenance("test", notes=("before",)))
    assert found.rising() == [(9, 0, 2), (9, 0, 4)]
    with pytest.raises(LossTableError, match=r"layer 9, expert 0 rises from 0.5 at 1 bits to 0.6 at 2 \(and at 1 more"):
        found.for_model([9], 2)
    level = found.repaired()
    assert level.values[0].tolist() == [[0.55, 0.55, 0.25, 0.25], [0.4, 0.3, 0.2, 0.1]]
    assert level.provenance.notes[0] == "before" and "2 of 8 losses rose" in level.provenance.notes[1]
    assert level.repaired() is level and level.rising() == []


@given(st.lists(st.floats(0, 10), min_size=4, max_size=4))
def test_levelling_is_the_nearest_falling_row(row: list[float]) -> None:
    given_row = np.array(row)
    found = falling(given_row)
    assert (np.diff(found) <= 1e-12).all()
    assert found.sum() == pytest.approx(given_row.sum(), abs=1e-9)
    for other in (np.sort(given_row)[::-1], np.full(4, given_row.mean())):
        assert np.square(found - given_row).sum() <= np.square(other - given_row).sum() + 1e-9


def test_what_a_file_says_of_itself_is_one_printable_line() -> None:
    hostile = {
        "source": "a\nb\x1b[31m\u202e" + "x" * 5000,
        "model": 7,
        "notes": ["n\n", 3, *["m"] * 100],
        "group_size": True,
        "more": {},
    }
    found = Provenance.from_dict(hostile, otherwise="none")
    assert found.source.startswith("a b") and len(found.source) < 2001
    assert all(char.isprintable() for char in found.source)
    assert (found.model, found.group_size, len(found.notes)) == ("", None, 50)
    assert Provenance.from_dict({}, otherwise="none").source == "none"
    text = f"# tierline-loss-table: {json.dumps(hostile)}\n".encode() + as_csv(frame())
    assert parse_table(text).source == found.source
    assert parse_table(b'# tierline-loss-table: ["x"]\n' + as_csv(frame())).source.startswith("imported")


def test_the_digest_follows_every_part() -> None:
    first = table()
    assert first.digest == table().digest and len(first.digest) == 64
    others = [
        table(seed=1),
        table((3, 4, 8)),
        LossTable(first.layers, first.values, True, first.provenance),
        LossTable(first.layers, first.values, False, Provenance("measured")),
    ]
    assert len({first.digest, *(other.digest for other in others)}) == 5


# --- whole or not at all ---------------------------------------------------------------------------------------------
def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    write_table(table(), path)
    assert read_table(path).digest == table().digest
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(f"planner.files.os.{call}", full)
            with pytest.raises(LossTableError, match="cannot be written: No space left on device"):
                write_table(table(seed=1), path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["t.parquet"]
    with pytest.raises(LossTableError, match="must end in"):
        write_table(table(), tmp_path / "t.xlsx")
    with pytest.raises(PlanError, match="cannot be written"):
        write_whole(tmp_path / "none" / "t.csv", b"")
    with pytest.raises(LossTableError, match="csv or parquet"):
        table_bytes(table(), "xlsx")


# --- kept tables -----------------------------------------------------------------------------------------------------
@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "loss_tables"


def test_a_table_is_kept_by_its_content(home: Path) -> None:
    assert loss_tables.known() == ()
    digest = loss_tables.register(table())
    assert digest == table().digest == loss_tables.register(table())
    again = loss_tables.get(digest)
    assert again.digest == digest and again.provenance == table().provenance
    other = loss_tables.register(table(seed=1))
    assert loss_tables.known() == tuple(sorted((digest, other)))
    assert sorted(os.listdir(home)) == sorted(f"{d}.npz" for d in (digest, other))


def test_the_directory_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIERLINE_DATA")
    assert loss_tables.directory().parts[-2:] == ("tierline", "loss_tables")


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a" * 63, "A" * 64, "g" * 64, "a" * 64 + "/.."])
def test_a_name_is_a_digest_and_no_path(home: Path, name: str) -> None:
    with pytest.raises(LossTableError, match="64 hexadecimal digits"):
        loss_tables.get(name)


def test_a_table_of_another_machine_or_a_damaged_one_is_said_so(home: Path) -> None:
    with pytest.raises(LossTableError, match=r"aaaaaaaaaaaa\.\.\. is not on this machine; import the file"):
        loss_tables.get("a" * 64)
    digest = loss_tables.register(table())
    path = home / f"{digest}.npz"
    other = home / f"{'b' * 64}.npz"
    other.write_bytes(path.read_bytes())
    with pytest.raises(LossTableError, match="was changed on disk"):
        loss_tables.get("b" * 64)
    for i, data in enumerate((b"", b"PK\x03\x04", path.read_bytes()[:-30], bytes(100))):
        name = f"{i}" * 64
        (home / f"{name}.npz").write_bytes(data)
        with pytest.raises(LossTableError, match="damaged on disk"):
            loss_tables.get(name)
    np.savez(home / f"{'c' * 64}.npz", layers=np.array([0]), values=np.array([[object()]]), about=np.zeros(1, np.uint8))
    with pytest.raises(LossTableError, match="damaged on disk"):
        loss_tables.get("c" * 64)


def test_a_rising_table_is_not_kept(home: Path) -> None:
    rising = LossTable((0,), np.array([[[0.1, 0.2, 0.1, 0.1]]]), False, Provenance("test"))
    with pytest.raises(LossTableError, match=r"rises from 0\.1"):
        loss_tables.register(rising)
    assert not home.exists()


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "file"))
    with pytest.raises(LossTableError, match="cannot be made"):
        loss_tables.register(table())
    assert loss_tables.known() == ()


def test_what_a_scenario_may_say(home: Path) -> None:
    assert LossChoice.parse("surrogate") == LossChoice()
    assert LossChoice.parse("surrogate:0.8") == LossChoice(spread=0.8)
    digest = loss_tables.register(table())
    choice = LossChoice.parse(digest)
    assert np.array_equal(choice.losses((3, 4, 7), 5), table().values)
    assert choice.sentence("a/model") == f"loss table {digest[:12]}: measured"
    assert choice.sentence("b/model").endswith("; measured on a/model, not on b/model")
    with pytest.raises(LossTableError, match="lacks layer 0"):
        choice.losses((0, 4, 7), 5)
    surrogate = LossChoice.parse("surrogate:0.8").losses((3, 4, 7), 5, seed=2)
    assert np.array_equal(surrogate, surrogate_losses(3, 5, 0.8, 2).values)
    assert "spread 0.8" in LossChoice.parse("surrogate:0.8").sentence("a/model")


@pytest.mark.parametrize(
    "text", ["", "table.csv", "surrogate:", "surrogate:x", "surrogate:-1", "surrogate:5", "f" * 63]
)
def test_what_a_scenario_may_not_say(text: str) -> None:
    if text == "surrogate:":
        assert LossChoice.parse(text) == LossChoice()
        return
    with pytest.raises(LossTableError, match="loss_table is"):
        LossChoice.parse(text)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32", "uint64"])
def test_small_and_unsigned_columns_of_a_parquet_are_read(kind: str) -> None:
    narrow = frame(lambda f: f.assign(**{column: f[column].astype(kind) for column in COLUMNS[:3]}))
    assert parse_table(as_parquet(narrow)).digest == parse_table(as_csv(frame())).digest


def test_a_pipe_and_a_link_are_written_through(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_whole(link, b"new")
    assert link.is_symlink() and real.read_bytes() == b"new"
    write_whole("/dev/null", b"gone")
    assert not Path("/dev/null").is_file()
