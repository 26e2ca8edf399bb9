"""What every part of the store rests on: one transaction for each method, and errors as sentences."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from db.engine import BUSY_TIMEOUT_S, engine_for, writing
from db.errors import DATABASE_ERRORS, explain
from db.location import Location


class Sessions:
    """Transactions on one database: reading ones, and writing ones that take the write lock when they begin."""

    def __init__(self, location: Location, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.location = location
        self.engine = engine_for(location, busy_timeout_s)
        self._writer = writing(self.engine)

    @contextmanager
    def _write(self, doing: str) -> Iterator[Session]:
        try:
            with Session(self._writer, expire_on_commit=False) as session, session.begin():
                yield session
        except DATABASE_ERRORS as error:
            raise explain(error, self.location, doing) from error

    @contextmanager
    def _read(self, doing: str) -> Iterator[Session]:
        try:
            with Session(self.engine, expire_on_commit=False) as session:
                yield session
        except DATABASE_ERRORS as error:
            raise explain(error, self.location, doing) from error


def key_of(id: object) -> uuid.UUID | None:
    """The primary key that a text names, None where it names none."""
    try:
        return uuid.UUID(id)  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        return None
