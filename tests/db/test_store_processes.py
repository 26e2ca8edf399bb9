"""Several threads, several processes, and a process that is killed in the middle of a save."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from db import Store, install_examples, open_store
from db.models import ScenarioRow, VersionRow
from db.rows import set_head
from planner.scenario import Scenario, Workload
from tests.db.builders import result_of

ROOT = Path(__file__).resolve().parents[2]


def start(url: str, count: int, prefix: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(Path(__file__).with_name("saver.py")), url, str(count), prefix]
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate(timeout=60)


def test_four_processes_of_fifty_saves_lose_none(store_url: str) -> None:
    """They also start on an empty database at once, so that the first migration is a race too."""
    processes = [start(store_url, 50, f"p{number}") for number in range(4)]
    for process in processes:
        ready(process)
    for process in processes:
        go(process)
    acknowledged: set[str] = set()
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err[-2000:]
        acknowledged |= set(out.split())
    store = open_store(store_url)
    rows = store.list(limit=1000)
    assert len(acknowledged) == 200
    assert {row.id for row in rows} == acknowledged
    assert {row.name for row in rows} == {f"p{p} {n}" for p in range(4) for n in range(1, 51)}
    assert all(row.headline is not None for row in rows)
    store.close()


def test_a_kill_in_the_middle_of_a_save_leaves_whole_rows(store_url: str, tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    for round_number, pause_s in enumerate((0.03, 0.11)):
        process = start(store_url, 0, f"k{round_number}")
        ready(process)
        go(process)
        assert process.stdout is not None
        acknowledged.add(process.stdout.readline().strip())
        time.sleep(pause_s)
        process.kill()
        out, _ = process.communicate(timeout=60)
        acknowledged |= {line for line in out.split("\n")[:-1] if line}  # the last line may be cut
    if store_url.startswith("sqlite"):
        with closing(sqlite3.connect(tmp_path / "tierline.sqlite3")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store = open_store(store_url)
    rows = store.list(limit=1000)
    assert acknowledged <= {row.id for row in rows}
    assert len(rows) <= len(acknowledged) + 2  # at most the one in flight of each round was not acknowledged
    for row in rows:
        whole = store.get(row.id)
        assert whole is not None
        numbers = [version.number for version in store.history(row.id)]
        assert numbers == ([2, 1] if row.id in acknowledged else list(range(row.version, 0, -1)))
        assert (whole.version, whole.note) == (row.version, "again" if row.version == 2 else "")
        assert store.result_for(whole.scenario, "1.0", "digest-a") == result_of(whole.scenario, layers=4, experts=32)
    saved = store.save(Scenario(), "goes on")
    assert store.get(saved.id) == saved
    store.close()


def test_threads_share_one_store(store: Store) -> None:
    def work(thread: int) -> list[str]:
        tokens = []
        for number in range(10):
            scenario = Scenario(workload=Workload(batch=1 + thread * 10 + number))
            tokens.append(store.save(scenario, f"t{thread} {number}", result=result_of(scenario)).id)
            store.list(limit=5)
        return tokens

    with ThreadPoolExecutor(8) as pool:
        tokens = [token for some in pool.map(work, range(8)) for token in some]
    assert {row.id for row in store.list()} == set(tokens)
    assert len(set(tokens)) == 80


def test_of_several_who_save_the_same_version_all_keep_theirs_and_are_told(store: Store) -> None:
    saved = store.save(Scenario(), "shared")
    barrier = threading.Barrier(6)

    def work(number: int) -> tuple[int, int, int]:
        barrier.wait()
        mine = Scenario(workload=Workload(batch=100 + number))
        kept = store.update(saved.id, scenario=mine, author=f"p{number}", expected_version=1)
        return kept.version, kept.scenario.workload.batch, len(kept.beside)

    with ThreadPoolExecutor(6) as pool:
        told = sorted(pool.map(work, range(6)))
    assert [number for number, _, _ in told] == [2, 3, 4, 5, 6, 7]
    assert [beside for _, _, beside in told] == [0, 1, 2, 3, 4, 5]  # each is told of all that were there before
    for number, batch, _ in told:
        kept = store.get_version(saved.id, number)
        assert kept is not None
        assert kept.scenario.workload.batch == batch
    assert {version.parent_number for version in store.history(saved.id)} == {None, 1}  # siblings
    assert len(store.newer_than(saved.id, 2)) == 5  # and the first one's page is told of the others


def test_examples_are_installed_once_by_many(store: Store) -> None:
    barrier = threading.Barrier(4)

    def work(_: int) -> int:
        barrier.wait()
        return install_examples(store)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 2
    assert store.count() == 2


def test_all_stores_of_a_process_share_one_engine(store_url: str) -> None:
    first, second = open_store(store_url), open_store(store_url)
    assert first.engine is second.engine
    first.close()
    assert second.list() == []  # closing one does not break the other
    second.close()


def test_a_save_that_waited_for_another_sees_it(store: Store) -> None:
    """The other transaction has written and not yet committed when ours begins."""
    saved = store.save(Scenario(), "shared")
    with ThreadPoolExecutor(1) as pool:
        with store._write("save") as other:
            row, start = other.get_one(ScenarioRow, UUID(saved.id)), other.get_one(VersionRow, UUID(saved.version_id))
            columns = {column.key: getattr(start, column.key) for column in VersionRow.__table__.columns}
            version = VersionRow(**{**columns, "id": uuid4(), "number": 2, "parent_id": start.id, "name": "theirs"})
            other.add(version)
            set_head(row, version, saved.scenario)
            other.flush()
            ours = pool.submit(store.update, saved.id, name="ours", expected_version=1)
            with pytest.raises(TimeoutError):
                ours.result(timeout=0.3)
        kept = ours.result(timeout=10)
    assert (kept.version, kept.name, [each.name for each in kept.beside]) == (3, "ours", ["theirs"])
    assert [version.name for version in store.history(saved.id)] == ["ours", "theirs", "shared"]
