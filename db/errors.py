"""What can go wrong with a store, each as one sentence for a person.

:func:`explain` turns what a database driver raised into one of these; it reads the driver's error codes
(SQLite's extended result codes, PostgreSQL's SQLSTATE), and the message only where there is no code.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from typing import TYPE_CHECKING

from sqlalchemy import exc

if TYPE_CHECKING:
    from pathlib import Path

    from db.location import Location

LINK_TO_NOTHING = (
    "This link leads to nothing here: it was closed, it belongs to another store, or the address is incomplete."
)


class StoreError(Exception):
    """Base of all errors of the store; ``str(error)`` is one sentence to show."""


class InputError(StoreError):
    """A name, a note, a scenario or a result that cannot be stored as given."""


class NotFoundError(StoreError):
    """No scenario of that id is here (any more)."""


class UnreadableError(StoreError):
    """A stored scenario that this version cannot read."""


class LocationError(StoreError):
    """The place named for the store cannot hold one."""


class ReadOnlyError(StoreError):
    """The store can be read at most."""


class FullError(StoreError):
    """No room is left on the disk."""


class LockedError(StoreError):
    """Another program kept the store busy for too long."""


class CorruptError(StoreError):
    """The file is damaged or is no database."""


class NewerStoreError(StoreError):
    """A newer Tierline wrote this store."""


class UnreachableError(StoreError):
    """The PostgreSQL server does not let us in."""


class MissingTableError(StoreError):
    """A table that belongs to the store is not there."""


#: Everything that :func:`explain` understands; other exceptions are faults of the program.
DATABASE_ERRORS: tuple[type[Exception], ...] = (exc.DBAPIError, exc.TimeoutError, sqlite3.Error, OSError)


def explain(error: Exception, where: Location, doing: str) -> StoreError:
    """The sentence for *error*, raised while *doing* (for example "save the scenario") at *where*."""
    if isinstance(error, exc.TimeoutError):
        return LockedError(
            f"Could not {doing}: all connections to {where.label} stayed in use; nothing was lost, "
            "try again in a moment."
        )
    origin = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    if isinstance(origin, sqlite3.Error):
        return _sqlite(origin, where, doing)
    if isinstance(origin, OSError):
        return _directory(origin, where, doing)
    return _postgres(origin, where, doing)


def _directory(error: OSError, where: Location, doing: str) -> StoreError:
    """Making the data directory failed, before any database was asked."""
    place = error.filename or (where.path.parent if where.path else where.label)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ReadOnlyError(f"Could not {doing}: {place} cannot be written to; {where.advice}.")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FullError(f"Could not {doing}: the disk that holds {place} is full; free some space and try again.")
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return LocationError(f"Could not {doing}: {place} is a file, the store needs a directory; {where.advice}.")
    reason = (error.strerror or type(error).__name__).lower()
    return LocationError(f"Could not {doing}: {place} cannot be used ({reason}); {where.advice}.")


def _sqlite(error: sqlite3.Error, where: Location, doing: str) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else sqlite3.SQLITE_ERROR
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LockedError(
            f"Could not {doing}: another program keeps {where.label} locked; nothing was lost, try again in a moment."
        )
    if primary == sqlite3.SQLITE_FULL:
        return FullError(
            f"Could not {doing}: the disk that holds {where.label} is full; nothing saved before was lost, "
            "free some space and try again."
        )
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return ReadOnlyError(f"Could not {doing}: {where.label} is read-only here; {where.advice}.")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CorruptError(
            f"Could not {doing}: {where.label} is damaged or is not a SQLite database; nothing was changed in it, "
            "put back a copy of it, or move it away to start with an empty store."
        )
    if primary == sqlite3.SQLITE_CANTOPEN:
        return _cannot_open(where, doing)
    if primary == sqlite3.SQLITE_IOERR:
        return LocationError(
            f"Could not {doing}: the disk that holds {where.label} reports an error "
            f"({getattr(error, 'sqlite_errorname', 'SQLITE_IOERR')}); nothing saved before was lost."
        )
    table = re.search(r"no such table: (?:main\.)?(\w+)", str(error))
    if table:
        return _missing(table.group(1), where, doing)
    return StoreError(f'Could not {doing}: {where.label} answered "{_one_line(str(error))}".')


def _cannot_open(where: Location, doing: str) -> StoreError:
    path = where.path
    if path is not None and path.is_dir():
        return LocationError(f"Could not {doing}: {path} is a directory, the store needs a file there.")
    if path is not None and not path.exists():
        if path.parent.is_dir() and not _writable(path.parent):
            return ReadOnlyError(f"Could not {doing}: the directory {path.parent} is read-only here; {where.advice}.")
        return LocationError(
            f"Could not {doing}: the file {path} is not there; if it was moved, put it back, else restart Tierline."
        )
    if path is not None and not (_writable(path) and _writable(path.parent)):
        return ReadOnlyError(f"Could not {doing}: {where.label} is read-only here; {where.advice}.")
    return LocationError(f"Could not {doing}: {where.label} cannot be opened; {where.advice}.")


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


_POSTGRES_STATES = {
    "53100": (FullError, "the disk of {label} is full; nothing saved before was lost"),
    "53200": (FullError, "{label} is out of memory; nothing was lost, try again in a moment"),
    "53300": (UnreachableError, "{label} has no free connection left; try again in a moment"),
    "25006": (ReadOnlyError, "{label} is read-only (a standby or a read-only database); nothing was lost"),
    "42501": (ReadOnlyError, "the user of {label} may not do that; grant it the rights on its schema"),
    "55P03": (LockedError, "another program keeps {label} locked; nothing was lost, try again in a moment"),
    "57014": (LockedError, "{label} took too long; nothing was lost, try again in a moment"),
    "40001": (LockedError, "another program changed {label} at the same moment; nothing was lost, try again"),
    "40P01": (LockedError, "another program changed {label} at the same moment; nothing was lost, try again"),
    "XX001": (CorruptError, "{label} reports damaged data; restore a backup"),
    "XX002": (CorruptError, "{label} reports a damaged index; restore a backup or rebuild the index"),
}

# libpq gives no SQLSTATE for a connection that never came to be; these words are its own or the server's.
_CONNECTION_WORDS = (
    ("password", "refuses the user or the password; check TIERLINE_DATABASE_URL"),
    ("authentication", "refuses the user or the password; check TIERLINE_DATABASE_URL"),
    ("pg_hba.conf", "refuses this machine or user; check TIERLINE_DATABASE_URL and the server's pg_hba.conf"),
    ("role ", "does not know the user; check TIERLINE_DATABASE_URL"),
    ("database ", "has no database of that name; create it or check TIERLINE_DATABASE_URL"),
    ("could not translate host", "has a host name that is not known; check TIERLINE_DATABASE_URL"),
    ("failed to resolve host", "has a host name that is not known; check TIERLINE_DATABASE_URL"),
    ("too many", "has no free connection left; try again in a moment"),
    ("starting up", "is still starting; try again in a moment"),
)


def _postgres(error: BaseException, where: Location, doing: str) -> StoreError:
    state = getattr(error, "sqlstate", None)
    message = _one_line(str(error))
    if state in _POSTGRES_STATES:
        kind, sentence = _POSTGRES_STATES[state]
        return kind(f"Could not {doing}: {sentence.format(label=where.label)}.")
    if state == "42P01":
        table = re.search(r'relation "([^"]+)" does not exist', message)
        return _missing(table.group(1) if table else "?", where, doing)
    if state is None or state.startswith(("08", "28", "3D", "57P")):
        for words, sentence in _CONNECTION_WORDS:
            if words in message:
                return UnreachableError(f"Could not {doing}: {where.label} {sentence}.")
        return UnreachableError(
            f"Could not {doing}: {where.label} does not answer; start the server or check TIERLINE_DATABASE_URL."
        )
    return StoreError(f'Could not {doing}: {where.label} answered "{message}".')


def _missing(table: str, where: Location, doing: str) -> StoreError:
    return MissingTableError(
        f'Could not {doing}: {where.label} lacks the table "{table}"; put back a backup, or start with an empty store.'
    )


def _one_line(message: str) -> str:
    return " ".join(message.split())[:200]
