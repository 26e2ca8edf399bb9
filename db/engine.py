"""One SQLAlchemy engine for each database and process, set up for many threads and many processes.

SQLite: WAL, ``busy_timeout`` before anything else, and our own BEGIN: IMMEDIATE for writing transactions, because
a deferred one that reads and then writes fails under load whatever the timeout.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import QueuePool

from db.location import Location

BUSY_TIMEOUT_S = 5.0
_engines: dict[tuple[str, bool, float, int], Engine] = {}
_lock = threading.Lock()


def engine_for(location: Location, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """The engine of *location*, made at the first call in this process (a forked child gets its own)."""
    key = (location.url.render_as_string(hide_password=False), location.read_only, busy_timeout_s, os.getpid())
    with _lock:
        if key not in _engines:
            make = _sqlite_engine if location.kind == "sqlite" else _postgres_engine
            _engines[key] = make(location, busy_timeout_s)
        return _engines[key]


def writing(engine: Engine) -> Engine:
    """The same engine and pool, whose transactions take the write lock when they begin."""
    return engine.execution_options(begin="BEGIN IMMEDIATE")


def prepare_file(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
    """Make the directory and the SQLite file where they are missing, and switch the file to WAL for good."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + busy_timeout_s
    with closing(_connect(path, "rwc", busy_timeout_s)) as connection:
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL").fetchone()
                return
            except sqlite3.OperationalError as error:
                # This one pragma does not always wait for the busy timeout by itself.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def _connect(path: Path, mode: str, busy_timeout_s: float) -> sqlite3.Connection:
    # "timeout" is the busy timeout, set before any statement; mode "rw" never makes a new, empty file
    # in the place of one that was moved away.
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=FULL")  # what was answered with "saved" survives a power cut
    return connection


def _sqlite_engine(location: Location, busy_timeout_s: float) -> Engine:
    path = location.path
    assert path is not None
    mode = "ro" if location.read_only else "rw"
    engine = create_engine(
        location.url,
        creator=lambda: _connect(path, mode, busy_timeout_s),
        poolclass=QueuePool,
        pool_size=8,
        max_overflow=56,
        pool_timeout=30,
    )

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))

    @event.listens_for(engine, "connect")
    def _remember_file(_dbapi: Any, record: Any) -> None:
        record.info["file"] = _identity(path)

    @event.listens_for(engine, "checkout")
    def _same_file(_dbapi: Any, record: Any, _proxy: Any) -> None:
        # After a backup was put back, an old connection would write into the file that is gone.
        if record.info.get("file") != _identity(path):
            raise DisconnectionError("the database file was replaced")

    return engine


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _postgres_engine(location: Location, busy_timeout_s: float) -> Engine:
    arguments = {} if "connect_timeout" in location.url.query else {"connect_timeout": 5}
    engine = create_engine(
        location.url, connect_args=arguments, pool_size=8, max_overflow=24, pool_timeout=30, pool_pre_ping=True
    )

    @event.listens_for(engine, "connect")
    def _settings(dbapi: Any, _record: Any) -> None:
        before, dbapi.autocommit = dbapi.autocommit, True
        dbapi.execute(f"SET lock_timeout = {int(busy_timeout_s * 1000)}")
        dbapi.autocommit = before

    return engine
