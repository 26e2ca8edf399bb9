"""Where the store lives: the one place that reads ``TIERLINE_DATABASE_URL`` and ``TIERLINE_DATA``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from db.errors import LocationError

FILE_NAME = "tierline.sqlite3"
_ACCEPTED = "postgresql://user:password@host:5432/name or sqlite:////path/to/file"


@dataclass(frozen=True)
class Location:
    """A database: its address, and how to speak of it without giving away a password."""

    kind: Literal["sqlite", "postgresql"]
    url: URL
    path: Path | None = None
    read_only: bool = False

    @property
    def label(self) -> str:
        if self.path is not None:
            return f"the store {self.path}"
        host = self.url.host or self.url.normalized_query.get("host", ("the local socket",))[0]
        port = f":{self.url.port}" if self.url.port else ""
        user = f"{self.url.username}@" if self.url.username else ""
        return f'the PostgreSQL store "{self.url.database or ""}" of {user}{host}{port}'

    @property
    def advice(self) -> str:
        return "make it writable, or name another directory in TIERLINE_DATA"


def locate(url: str | None = None, data_dir: str | Path | None = None) -> Location:
    """The store that is meant: *url*, else *data_dir*, else the environment, else the user's data directory.

    Raises :class:`LocationError` for an address that names no database we can use.
    """
    if url is not None:
        return _from_url(url, "The database address")
    if data_dir is not None:
        return _in_directory(data_dir)
    if text := os.environ.get("TIERLINE_DATABASE_URL", "").strip():
        return _from_url(text, "TIERLINE_DATABASE_URL")
    if text := os.environ.get("TIERLINE_DATA", "").strip():
        return _in_directory(text)
    return _in_directory(platformdirs.user_data_path("tierline", appauthor=False))


def _in_directory(directory: str | Path) -> Location:
    return _at_path(Path(directory) / FILE_NAME)


def _at_path(path: Path, read_only: bool = False) -> Location:
    try:
        absolute = path.expanduser().absolute()
    except RuntimeError as error:  # "~someone" who does not exist
        raise LocationError(f"The directory {path.parent} for the store cannot be found: {error}.") from error
    if "\0" in str(absolute):
        raise LocationError("The directory for the store has a NUL character in its name.")
    return Location("sqlite", URL.create("sqlite+pysqlite", database=str(absolute)), absolute, read_only)


def _from_url(text: str, field: str) -> Location:
    # The text may hold a password, so no sentence repeats it.
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise LocationError(f"{field} is not a database address; accepted is {_ACCEPTED}.") from error
    if backend in ("postgresql", "postgres"):
        return Location("postgresql", url.set(drivername="postgresql+psycopg"))
    if backend == "sqlite":
        if not url.database or url.database == ":memory:":
            raise LocationError(f"{field} names a SQLite database in memory, which keeps nothing; give a file path.")
        return _at_path(Path(url.database), read_only=url.query.get("mode") == "ro")
    raise LocationError(f'{field} starts with "{backend}", which is not supported; accepted is {_ACCEPTED}.')
