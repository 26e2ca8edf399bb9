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

import pytest
from sqlalchemy import text

from db import Saved, StaleError, Store, install_examples, open_store
from db.engine import writing
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
    assert {row.token for row in rows} == acknowledged
    assert {row.name for row in rows} == {f"p{p} {n}" for p in range(4) for n in range(1, 51)}
    assert all(isinstance(row, Saved) and row.headline is not None for row in rows)
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
    assert acknowledged <= {row.token for row in rows}
    assert len(rows) <= len(acknowledged) + 2  # at most the one in flight of each round was not acknowledged
    for row in rows:
        assert row.scenario is not None
        assert store.result_for(row.scenario, "1.0", "digest-a") == result_of(row.scenario, layers=4, experts=32)
    saved = store.save(Scenario(), "goes on")
    assert store.get(saved.id) == saved
    store.close()


def test_threads_share_one_store(store: Store) -> None:
    def work(thread: int) -> list[str]:
        tokens = []
        for number in range(10):
            scenario = Scenario(workload=Workload(batch=1 + thread * 10 + number))
            tokens.append(store.save(scenario, f"t{thread} {number}", result=result_of(scenario)).token)
            store.list(limit=5)
        return tokens

    with ThreadPoolExecutor(8) as pool:
        tokens = [token for some in pool.map(work, range(8)) for token in some]
    assert {row.token for row in store.list()} == set(tokens)
    assert len(set(tokens)) == 80


def test_of_several_who_save_the_same_version_one_wins_and_the_others_are_told(store: Store) -> None:
    saved = store.save(Scenario(), "shared")
    barrier, stale = threading.Barrier(6), []

    def work(number: int) -> int | None:
        barrier.wait()
        try:
            store.update(saved.id, scenario=Scenario(workload=Workload(batch=100 + number)), expected_version=1)
        except StaleError as error:
            stale.append(error.current.version)
            return None
        return number

    with ThreadPoolExecutor(6) as pool:
        winners = [number for number in pool.map(work, range(6)) if number is not None]
    assert len(winners) == 1
    assert stale == [2] * 5
    read = store.get(saved.id)
    assert read is not None
    assert (read.version, read.scenario.workload.batch) == (2, 100 + winners[0])


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
        with writing(store.engine).begin() as other:
            other.execute(text("UPDATE scenarios SET version = 2, name = 'theirs'"))
            ours = pool.submit(store.update, saved.id, name="ours", expected_version=1)
            with pytest.raises(TimeoutError):
                ours.result(timeout=0.3)
        with pytest.raises(StaleError) as error:
            ours.result(timeout=10)
    assert error.value.current.name == "theirs"
    assert [row.name for row in store.list()] == ["theirs"]
