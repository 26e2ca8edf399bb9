"""A real PostgreSQL for tests of any room: ``from tests.db.postgres import postgres_server, postgres_url``.

``TIERLINE_TEST_POSTGRES_URL`` names a server whose user may create databases; else the installed server programs
run a throw-away one on a free loopback port, which ends with the test process, however that ends.
"""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import URL, make_url

_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
)
_INSTALL = (
    "The tests need a PostgreSQL server: install the package postgresql (Debian, Ubuntu), postgresql-server (Fedora) "
    "or postgresql (Homebrew), or give TIERLINE_TEST_POSTGRES_URL."
)
# The server lives as long as the pipe to this shell's standard input.
_WATCH = '"$@" & server=$!; cat >/dev/null; kill -QUIT $server; wait $server'


class PostgresServer:
    """A server on which tests make databases of their own."""

    def __init__(self, url: URL) -> None:
        self.admin = url

    def new_database(self) -> str:
        """The address of a new, empty database."""
        name = f"tierline_{uuid.uuid4().hex[:12]}"
        self.run(sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(sql.Identifier(name)))
        return self.admin.set(database=name).render_as_string(hide_password=False)

    def drop_database(self, url: str) -> None:
        name = make_url(url).database or ""
        self.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def run(self, statement: sql.Composed | sql.SQL) -> None:
        with psycopg.connect(dsn(self.admin), autocommit=True) as connection:
            connection.execute(statement)


def dsn(url: str | URL) -> str:
    """The address as psycopg itself takes it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    given = os.environ.get("TIERLINE_TEST_POSTGRES_URL", "").strip()
    if given:
        yield PostgresServer(make_url(given))
        return
    with _throw_away_server() as url:
        yield PostgresServer(url)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database for one test."""
    url = postgres_server.new_database()
    yield url
    postgres_server.drop_database(url)


def _binaries() -> Path:
    on_path = shutil.which("initdb")
    found = [Path(place) for pattern in _PLACES for place in glob.glob(pattern) if (Path(place) / "initdb").exists()]
    if on_path:
        found.append(Path(on_path).resolve().parent)
    if not found:
        pytest.fail(_INSTALL, pytrace=False)
    return max(found)


@contextmanager
def _throw_away_server() -> Iterator[URL]:
    binaries = _binaries()
    directory = Path(tempfile.mkdtemp(prefix="tierline-postgres-", dir=_memory()))
    data, password = directory / "data", directory / "password"
    password.write_text("tierline-test")
    as_user: dict[str, object] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        account = _account()
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        for path in (directory, password):
            os.chown(path, account.pw_uid, account.pw_gid)
    init = [
        binaries / "initdb",
        "-D",
        data,
        "-A",
        "scram-sha-256",
        f"--pwfile={password}",
        "-U",
        "tierline",
        "--no-sync",
    ]
    locale = ["-E", "UTF8", "--no-locale"]
    done = subprocess.run([*init, *locale], cwd=directory, capture_output=True, text=True, **as_user)  # type: ignore[call-overload]
    if done.returncode:
        pytest.fail(f"initdb failed: {done.stderr.strip()[-500:]}", pytrace=False)
    port = _free_port()
    server = [binaries / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", directory, "-c", "fsync=off"]
    log = directory / "server.log"
    with log.open("w") as output:
        watch = subprocess.Popen(  # type: ignore[call-overload]
            ["sh", "-c", _WATCH, "sh", *server, "-c", "max_connections=60"],
            cwd=directory, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True, **as_user,
        )  # fmt: skip
    url = URL.create("postgresql", "tierline", "tierline-test", "127.0.0.1", port, "postgres")
    try:
        _wait(url, log)
        yield url
    finally:
        watch.stdin.close()
        watch.wait(20)
        shutil.rmtree(directory, ignore_errors=True)


def _memory() -> str | None:
    """A directory in memory where there is ample room: a new database then takes 25 ms instead of 300."""
    place = Path("/dev/shm")
    ample = place.is_dir() and os.access(place, os.W_OK) and shutil.disk_usage(place).free > 2_000_000_000
    return str(place) if ample else None


def _account() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.fail(_INSTALL, pytrace=False)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(url: URL, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(dsn(url), connect_timeout=2).close()
            return
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                pytest.fail(f"PostgreSQL did not start: {error}\n{log.read_text()[-1000:]}", pytrace=False)
            time.sleep(0.05)
