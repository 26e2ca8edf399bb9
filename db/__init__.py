"""The store: saved scenarios and their results, in SQLite or PostgreSQL.

``open_store()`` is the door; everything that can go wrong comes out as a :class:`StoreError` whose text
is one sentence for the person at the page.
"""

from db.errors import (
    LINK_TO_NOTHING,
    CorruptError,
    FullError,
    InputError,
    LocationError,
    LockedError,
    MissingTableError,
    NewerStoreError,
    NotFoundError,
    ReadOnlyError,
    StaleError,
    StoreError,
    UnreachableError,
    UnreadableError,
)
from db.examples import install_examples
from db.records import Saved, SavedSummary
from db.store import Store, migrate, open_store

__all__ = [
    "LINK_TO_NOTHING",
    "CorruptError",
    "FullError",
    "InputError",
    "LocationError",
    "LockedError",
    "MissingTableError",
    "NewerStoreError",
    "NotFoundError",
    "ReadOnlyError",
    "Saved",
    "SavedSummary",
    "StaleError",
    "Store",
    "StoreError",
    "UnreachableError",
    "UnreadableError",
    "install_examples",
    "migrate",
    "open_store",
]
