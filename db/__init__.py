"""The store: projects, scenarios with versions, comments and links, studies and results, in SQLite or PostgreSQL.

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
    StoreError,
    UnreachableError,
    UnreadableError,
)
from db.examples import install_examples
from db.models import DEFAULT_PROJECT
from db.records import Comment, Link, Project, Saved, SavedSummary, Study, StudySummary, Version
from db.store import Store, migrate, open_store

DEFAULT_PROJECT_ID = str(DEFAULT_PROJECT)

__all__ = [
    "DEFAULT_PROJECT_ID",
    "LINK_TO_NOTHING",
    "Comment",
    "CorruptError",
    "FullError",
    "InputError",
    "Link",
    "LocationError",
    "LockedError",
    "MissingTableError",
    "NewerStoreError",
    "NotFoundError",
    "Project",
    "ReadOnlyError",
    "Saved",
    "SavedSummary",
    "Store",
    "StoreError",
    "Study",
    "StudySummary",
    "UnreachableError",
    "UnreadableError",
    "Version",
    "install_examples",
    "migrate",
    "open_store",
]
