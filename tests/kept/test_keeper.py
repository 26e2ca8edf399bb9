"""The one keeper: by content, whole or refused in a sentence, never stale."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from planner import calibration, loss_tables, measured_machines, time_tables
from planner.errors import PlanError
from planner.keeper import Keeper


def _read(data: bytes) -> str:
    text = data.decode()
    if text.startswith("bad"):
        raise PlanError("it is bad.")
    return text


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keeper[str]:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))
    return Keeper[str](
        folder="notes",
        suffix=".txt",
        plural="notes",
        subject="The note",
        option="note",
        accepted="64 digits",
        again="write it again",
        largest_bytes=100,
        read=_read,
        write=str.encode,
        digest=lambda text: hashlib.sha256(text.encode()).hexdigest(),
    )


def test_what_is_kept_is_found_by_its_content(notes: Keeper[str]) -> None:
    assert notes.known() == () and notes.sound() == {}
    name = notes.register("one")
    assert notes.register("one") == name and notes.get(name) == "one"
    assert notes.sound() == {name: "one"} and notes.known() == (name,)


def test_a_file_that_changes_while_it_is_open_is_read_anew(notes: Keeper[str]) -> None:
    name = notes.register("one")
    assert notes.get(name) == "one"
    path = notes.directory() / f"{name}.txt"
    path.write_text("two")
    os.utime(path, ns=(1, 1))
    with pytest.raises(PlanError, match=r"The note [0-9a-f]{12}\.\.\. was changed on disk; write it again\."):
        notes.get(name)
    path.write_text("one")
    assert notes.get(name) == "one"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff", "damaged on disk"),
        (b"x" * 101, "damaged on disk"),
        (b"bad", r"cannot be used: it is bad\."),
        (None, "not on this machine; write it again"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_and_left_out(notes: Keeper[str], data: bytes | None, words: str) -> None:
    name = notes.register("one")
    path = notes.directory() / f"{name}.txt"
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(PlanError, match=words):
        notes.get(name)
    assert notes.sound() == {}


def test_what_cannot_be_opened_again_is_not_kept(notes: Keeper[str]) -> None:
    with pytest.raises(PlanError, match="it is bad"):
        notes.register("bad")
    assert not notes.directory().exists()


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a" * 63, "A" * 64])
def test_no_kind_takes_a_name_that_is_no_digest(name: str) -> None:
    for get in (loss_tables.get, measured_machines.get, calibration.get, time_tables.chosen):
        with pytest.raises(PlanError, match="64 hexadecimal digits"):
            get(name)
