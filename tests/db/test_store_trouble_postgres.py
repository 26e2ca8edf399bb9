"""A PostgreSQL server that is away, refuses, is read-only, full or locked: one sentence, never the password."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from db import (
    CorruptError,
    FullError,
    LockedError,
    ReadOnlyError,
    Store,
    StoreError,
    UnreachableError,
    open_store,
)
from planner.scenario import Scenario
from tests.db.postgres import PostgresServer, dsn

SECRET = "s3cret-passw0rd"


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    opened = open_store(postgres_url, busy_timeout_s=0.3)
    yield opened
    opened.close()


def sentence(error: pytest.ExceptionInfo[StoreError]) -> str:
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text
    for word in (SECRET, "tierline-test", "psycopg", "sqlalchemy", "Traceback", "SELECT", "INSERT"):
        assert word not in text
    return text


def test_a_wrong_password(postgres_url: str) -> None:
    wrong = make_url(postgres_url).set(password=SECRET).render_as_string(hide_password=False)
    with pytest.raises(UnreachableError) as error:
        open_store(wrong)
    assert "refuses the user or the password" in sentence(error)


def test_an_unknown_user(postgres_url: str) -> None:
    with pytest.raises(UnreachableError) as error:
        open_store(make_url(postgres_url).set(username="nobody-here").render_as_string(hide_password=False))
    assert "refuses the user" in sentence(error)


def test_an_unknown_database(postgres_url: str) -> None:
    with pytest.raises(UnreachableError) as error:
        open_store(make_url(postgres_url).set(database="not_there").render_as_string(hide_password=False))
    assert 'store "not_there"' in sentence(error)
    assert "has no database of that name" in sentence(error)


def test_no_server() -> None:
    with closing(socket.socket()) as bound:  # bound and not listening: nothing else can take the port
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError) as error:
            open_store(f"postgresql://user:{SECRET}@127.0.0.1:{bound.getsockname()[1]}/tierline")
    assert "does not answer" in sentence(error)
    assert "user@127.0.0.1" in sentence(error)


def test_an_unknown_host() -> None:
    with pytest.raises(UnreachableError) as error:
        open_store(f"postgresql://user:{SECRET}@no-such-host.invalid/tierline")
    assert "host name that is not known" in sentence(error)


def test_a_read_only_database(store: Store, postgres_url: str) -> None:
    saved = store.save(Scenario(), "before")
    store.close()
    database = make_url(postgres_url).database or ""
    with psycopg.connect(dsn(postgres_url), autocommit=True) as admin:
        change = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on")
        admin.execute(change.format(sql.Identifier(database)))
    read_only = open_store(postgres_url, busy_timeout_s=0.3)
    assert read_only.list() == [saved.summary]
    with pytest.raises(ReadOnlyError) as error:
        read_only.save(Scenario(), "x")
    assert "is read-only" in sentence(error)


def test_a_user_without_rights(store: Store, postgres_server: PostgresServer, postgres_url: str) -> None:
    saved = store.save(Scenario(), "before")
    role = f"reader_{uuid.uuid4().hex[:8]}"
    name, password = sql.Identifier(role), sql.Literal(SECRET)
    with psycopg.connect(dsn(postgres_url), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, password))
        admin.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(name))
        try:
            url = make_url(postgres_url).set(username=role, password=SECRET)
            reader = open_store(url.render_as_string(hide_password=False))
            assert reader.list() == [saved.summary]
            with pytest.raises(ReadOnlyError) as error:
                reader.save(Scenario(), "x")
            assert "may not do that" in sentence(error)
            reader.close()
        finally:
            admin.execute(sql.SQL("DROP OWNED BY {}").format(name))
            admin.execute(sql.SQL("DROP ROLE {}").format(name))


def test_a_locked_table(store: Store, postgres_url: str) -> None:
    saved = store.save(Scenario(), "before")
    with psycopg.connect(dsn(postgres_url)) as other:
        other.execute("LOCK TABLE scenarios IN EXCLUSIVE MODE")
        with pytest.raises(LockedError) as error:
            store.save(Scenario(), "meanwhile")
        assert "keeps the PostgreSQL store" in sentence(error)
        assert store.list() == [saved.summary]
        other.rollback()
    assert store.save(Scenario(), "afterwards").version == 1


@pytest.mark.parametrize(
    ("state", "kind", "says"),
    [
        ("53100", FullError, "is full"),
        ("53200", FullError, "out of memory"),
        ("40001", LockedError, "at the same moment"),
        ("57014", LockedError, "took too long"),
        ("XX001", CorruptError, "damaged"),
        ("22000", StoreError, 'answered "made by the test'),
    ],
)
def test_what_the_server_reports(
    store: Store, postgres_url: str, state: str, kind: type[StoreError], says: str
) -> None:
    """Raised by the server itself, in a trigger: a disk cannot be filled in a test."""
    saved = store.save(Scenario(), "before")
    with psycopg.connect(dsn(postgres_url), autocommit=True) as admin:
        admin.execute(
            sql.SQL(
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'made by the test' USING ERRCODE = {}; END $$"
            ).format(sql.Literal(state))
        )
        admin.execute("CREATE TRIGGER fail BEFORE INSERT ON scenarios FOR EACH ROW EXECUTE FUNCTION fail()")
    with pytest.raises(kind) as error:
        store.save(Scenario(), "x")
    assert says in sentence(error)
    assert store.list() == [saved.summary]


def test_a_server_that_went_away_and_came_back(store: Store, postgres_url: str) -> None:
    saved = store.save(Scenario(), "before")
    with psycopg.connect(dsn(postgres_url), autocommit=True) as admin:
        ended = admin.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert ended is not None
    assert ended[0] >= 1
    assert store.list() == [saved.summary]
    assert store.save(Scenario(), "after").version == 1
