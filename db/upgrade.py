"""Brings a store to the newest version; run by every start, by many processes at once without harm."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from db.engine import writing
from db.errors import LocationError, MissingTableError, NewerStoreError, ReadOnlyError
from db.location import Location
from db.models import Base

SCRIPTS = Path(__file__).with_name("migrations")
_POSTGRES_LOCK = 0x7469_6572  # "tier": one migration at a time for one database
_alembic_lock = threading.Lock()  # Alembic keeps its context in module globals


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration without an ini file; env.py takes the connection from it."""
    settings = Config()
    settings.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings


@cache
def known_revisions() -> tuple[str, ...]:
    """Identifiers of all migrations, newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(config()).walk_revisions())


def upgrade(engine: Engine, location: Location, target: str = "head") -> str:
    """Migrate to *target* in one transaction and return the revision then in place.

    Raises :class:`NewerStoreError` when a newer Tierline wrote the store, and nothing is changed then.
    Database errors pass through.
    """
    wanted = known_revisions()[0] if target == "head" else target
    with engine.connect() as connection:
        if _current(connection, location) == wanted:
            _check_tables(connection, location)
            return wanted
    if location.read_only:
        raise ReadOnlyError(
            f"{_capital(location.label)} needs an update but was opened read-only; open it writable once."
        )
    with _alembic_lock, writing(engine).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
        current = _current(connection, location)
        if current is None:
            _check_empty(connection, location)
        if current != wanted:  # another process may have been first
            command.upgrade(config(connection), target)
    return wanted


def _current(connection: Connection, location: Location) -> str | None:
    heads = MigrationContext.configure(connection).get_current_heads()
    unknown = [head for head in heads if head not in known_revisions()]
    if unknown:
        raise NewerStoreError(
            f"{_capital(location.label)} was written by a newer Tierline (version {unknown[0]}; "
            f"this one knows up to {known_revisions()[0]}); nothing was changed, update Tierline to open it."
        )
    return heads[0] if heads else None


def _check_empty(connection: Connection, location: Location) -> None:
    taken = sorted(set(Base.metadata.tables) & set(inspect(connection).get_table_names()))
    if taken:
        raise LocationError(
            f'{_capital(location.label)} holds a table "{taken[0]}" of another program; nothing was changed, give '
            "Tierline a database of its own."
        )


def _check_tables(connection: Connection, location: Location) -> None:
    missing = sorted(set(Base.metadata.tables) - set(inspect(connection).get_table_names()))
    if missing:
        raise MissingTableError(
            f'{_capital(location.label)} lacks the table "{missing[0]}"; put back a backup, '
            "or start with an empty store."
        )


def _capital(label: str) -> str:
    return label[0].upper() + label[1:]
