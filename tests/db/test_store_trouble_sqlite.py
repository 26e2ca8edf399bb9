"""A disk that is read-only or full, a file that is locked, damaged, moved or no database: one sentence each."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event

from db import (
    CorruptError,
    FullError,
    LocationError,
    LockedError,
    ReadOnlyError,
    Store,
    StoreError,
    open_store,
)
from db.location import FILE_NAME
from planner.scenario import ModelChoice, Scenario
from tests.db.builders import result_of

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


def sentence(error: pytest.ExceptionInfo[StoreError]) -> str:
    """The text of the error, which must be one sentence without the words of a program."""
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text
    for word in ("Traceback", "sqlite3.", "sqlalchemy", "Error", "Errno", "SELECT", "INSERT", "sqlalche.me"):
        assert word not in text
    return text


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user without rights; root is above file permissions."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that another user can reach (pytest's own are private)."""
    path = Path(tempfile.mkdtemp(prefix="tierline-trouble-"))
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


def a_file(path: Path) -> None:
    path.write_text("a file")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(("make", "below"), [(a_file, ""), (a_file, "sub/dir"), (a_link_to_itself, "")])
def test_a_data_directory_that_is_none(tmp_path: Path, make: Callable[[Path], None], below: str) -> None:
    place = tmp_path / "place"
    make(place)
    with pytest.raises(LocationError) as error:
        open_store(data_dir=place / below)
    assert str(place) in sentence(error)
    assert "TIERLINE_DATA" in sentence(error)


def test_a_directory_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(LocationError) as error:
        open_store(data_dir=tmp_path)
    assert "is a directory" in sentence(error)


def test_a_directory_without_the_right_to_write(open_directory: Path) -> None:
    open_directory.chmod(0o555)
    with as_nobody():
        for place in (open_directory, open_directory / "new"):
            with pytest.raises(ReadOnlyError) as error:
                open_store(data_dir=place)
            assert str(open_directory) in sentence(error)


def test_a_file_without_the_right_to_write_can_still_be_read(open_directory: Path) -> None:
    store = open_store(data_dir=open_directory)
    saved = store.save(Scenario(), "mine")
    store.close()
    (open_directory / FILE_NAME).chmod(0o444)
    open_directory.chmod(0o777)
    with as_nobody():
        store = open_store(data_dir=open_directory)
        assert store.list() == [saved.summary]
        with pytest.raises(ReadOnlyError) as error:
            store.save(Scenario(), "another")
        assert "Could not save the scenario" in sentence(error)
        assert store.list() == [saved.summary]
        store.close()


def test_a_store_opened_read_only(tmp_path: Path) -> None:
    store = open_store(data_dir=tmp_path)
    saved = store.save(Scenario(), "mine", result=result_of(Scenario()))
    read_only = open_store(f"sqlite:///{tmp_path / FILE_NAME}?mode=ro")
    assert read_only.list()[0].id == saved.id
    link = store.create_link(saved.id)
    assert read_only.open_link(link.token) == (saved, link)
    for write in (
        lambda: read_only.save(Scenario(), "x"),
        lambda: read_only.update(saved.id, name="x", expected_version=1),
        lambda: read_only.archive(saved.id),
        lambda: read_only.create_link(saved.id),
        lambda: read_only.comment(saved.id, "x"),
        lambda: read_only.save_study(None, "sweep", "x", "", {}, b""),
        lambda: read_only.put_result(result_of(Scenario())),
        lambda: read_only.add_once("k", Scenario(), "x"),
    ):
        with pytest.raises(ReadOnlyError) as error:
            write()
        assert "is read-only here" in sentence(error)
    assert store.get(saved.id) == saved
    read_only.close()
    store.close()


def test_read_only_and_not_there(tmp_path: Path) -> None:
    with pytest.raises(LocationError) as error:
        open_store(f"sqlite:///{tmp_path / 'none.sqlite3'}?mode=ro")
    assert "is not there" in sentence(error)
    assert list(tmp_path.iterdir()) == []


def test_read_only_and_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite3").touch()
    with pytest.raises(ReadOnlyError) as error:
        open_store(f"sqlite:///{tmp_path / 'empty.sqlite3'}?mode=ro")
    assert "open it writable once" in sentence(error)


def test_a_full_disk_keeps_what_was_saved(sqlite_store: Store) -> None:
    saved = sqlite_store.save(Scenario(), "before")
    sqlite_store.close()

    @event.listens_for(sqlite_store.engine, "connect")
    def _no_room(dbapi: sqlite3.Connection, _: object) -> None:
        pages = dbapi.execute("PRAGMA page_count").fetchone()[0]
        dbapi.execute(f"PRAGMA max_page_count = {pages + 2}")

    large = Scenario(model=ModelChoice(id="m", config={"text": "x" * 200_000}))
    with pytest.raises(FullError) as error:
        sqlite_store.save(large, "too much")
    assert "is full" in sentence(error)
    assert sqlite_store.list() == [saved.summary]
    event.remove(sqlite_store.engine, "connect", _no_room)
    sqlite_store.close()
    assert sqlite_store.save(large, "with room again").version == 1


def test_a_disk_that_refuses_to_write(tmp_path: Path) -> None:
    """A real refusal by the system: no file of this process may grow beyond a limit."""
    store = open_store(data_dir=tmp_path)
    saved = store.save(Scenario(), "before")
    store.close()
    size = (tmp_path / FILE_NAME).stat().st_size
    limit, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        with pytest.raises((LocationError, FullError)) as error:
            store.save(Scenario(model=ModelChoice(id="m", config={"text": "x" * 400_000})), "too much")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "the disk that holds" in sentence(error)
    assert store.list() == [saved.summary]
    store.close()


def test_a_locked_store_is_waited_for_and_then_named(sqlite_store: Store, tmp_path: Path) -> None:
    saved = sqlite_store.save(Scenario(), "before")
    hold = (
        "import sqlite3, sys\n"
        f"c = sqlite3.connect({str(tmp_path / FILE_NAME)!r}, isolation_level=None)\n"
        "c.execute('BEGIN IMMEDIATE'); c.execute(\"UPDATE scenarios SET name = 'theirs'\")\n"
        "print('locked', flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    with pytest.raises(LockedError) as error:
        sqlite_store.save(Scenario(), "meanwhile")
    assert "keeps the store" in sentence(error)
    assert open_store(data_dir=tmp_path, busy_timeout_s=0.3).list() == [saved.summary]  # reading goes on
    process.communicate("")
    assert sqlite_store.save(Scenario(), "afterwards").name == "afterwards"
    assert sqlite_store.get(saved.id) == saved  # their transaction ended without a commit


def test_a_new_store_that_is_locked_while_it_is_made(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LockedError) as error:
            open_store(data_dir=tmp_path, busy_timeout_s=0.2)
        assert "Could not open the store" in sentence(error)
        other.execute("ROLLBACK")
    assert open_store(data_dir=tmp_path, busy_timeout_s=0.2).list() == []


@pytest.mark.parametrize("content", [b"this is a letter, not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    with pytest.raises(CorruptError) as error:
        open_store(data_dir=tmp_path)
    assert str(path) in sentence(error)
    assert path.read_bytes() == content


def test_a_damaged_file(sqlite_store: Store, tmp_path: Path) -> None:
    for number in range(40):
        sqlite_store.save(Scenario(), f"n{number}", "x" * 2000)
    sqlite_store.close()
    path = tmp_path / FILE_NAME
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 3)
        file.write(b"\xa5" * (size // 3))
    with pytest.raises(CorruptError) as error:
        open_store(data_dir=tmp_path, busy_timeout_s=0.3).list()
    assert "is damaged" in sentence(error)


def test_a_file_that_was_moved_away_is_not_replaced_by_an_empty_one(sqlite_store: Store, tmp_path: Path) -> None:
    saved = sqlite_store.save(Scenario(), "before")
    away = tmp_path / "away"
    away.mkdir()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as backup:
        backup.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (tmp_path / FILE_NAME).rename(away / FILE_NAME)
    for use in (sqlite_store.list, sqlite_store.health, lambda: sqlite_store.save(Scenario(), "lost?")):
        with pytest.raises(LocationError) as error:
            use()
        assert "is not there" in sentence(error)
    assert not (tmp_path / FILE_NAME).exists()
    (away / FILE_NAME).rename(tmp_path / FILE_NAME)
    assert sqlite_store.list() == [saved.summary]


def test_a_backup_put_back_while_running_is_what_is_used(sqlite_store: Store, tmp_path: Path) -> None:
    old = sqlite_store.save(Scenario(), "in the backup")
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as source, closing(sqlite3.connect(tmp_path / "b")) as copy:
        source.backup(copy)
    sqlite_store.save(Scenario(), "after the backup")
    (tmp_path / "b").replace(tmp_path / FILE_NAME)
    for rest in ("-wal", "-shm"):
        (tmp_path / (FILE_NAME + rest)).unlink(missing_ok=True)
    assert sqlite_store.list() == [old.summary]
    new = sqlite_store.save(Scenario(), "new")
    sqlite_store.close()
    assert {row.id for row in open_store(data_dir=tmp_path).list()} == {old.id, new.id}


def test_wal_and_integrity(sqlite_store: Store, tmp_path: Path) -> None:
    sqlite_store.save(Scenario(), "x")
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
