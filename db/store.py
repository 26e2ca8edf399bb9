"""The store: projects, scenarios with their versions, comments and links, studies, and the results beside them.

A :class:`Store` may be used from any number of threads and processes at once. Every method is one transaction:
it happened as a whole or not at all, and what failed is a :class:`db.errors.StoreError`. Its parts are in files of
their own, named after what they keep.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import func, select

from db.bundles import Bundles
from db.comments import Comments
from db.engine import BUSY_TIMEOUT_S, engine_for, prepare_file
from db.errors import DATABASE_ERRORS, explain
from db.links import Links
from db.location import Location, locate
from db.models import ResultRow, ScenarioRow
from db.projects import Projects
from db.results import Results
from db.studies import Studies
from db.upgrade import upgrade
from db.versions import Versions


def open_store(
    url: str | None = None, data_dir: str | Path | None = None, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> Store:
    """Open the store, made and migrated where needed.

    *url* wins over *data_dir*, which wins over ``TIERLINE_DATABASE_URL``, ``TIERLINE_DATA`` and the user's data
    directory. Another program's lock is waited for during *busy_timeout_s* at most. Raises a StoreError.
    """
    location = locate(url, data_dir)
    migrate(location, busy_timeout_s)
    return Store(location, busy_timeout_s)


def migrate(location: Location | None = None, busy_timeout_s: float = BUSY_TIMEOUT_S) -> str:
    """Bring the store to this version's schema and return the schema's revision. Raises a StoreError."""
    location = location or locate()
    try:
        if location.path is not None and not location.read_only:
            prepare_file(location.path, busy_timeout_s)
        return upgrade(engine_for(location, busy_timeout_s), location)
    except DATABASE_ERRORS as error:
        raise explain(error, location, "open the store") from error


class Store(Projects, Versions, Comments, Links, Studies, Results, Bundles):
    """Everything that is saved, in one database. Use :func:`open_store`, which migrates first."""

    def health(self) -> str:
        """One sentence about the store. Raises a StoreError where it cannot be used."""
        in_library = select(func.count()).select_from(ScenarioRow).where(ScenarioRow.archived_at.is_(None))
        with self._read("look at the store") as session:
            scenarios = session.scalar(in_library) or 0
            results = session.scalar(select(func.count()).select_from(ResultRow)) or 0
        label = self.location.label
        return f"{label[0].upper()}{label[1:]} holds {scenarios:,} scenarios and {results:,} results."

    def close(self) -> None:
        """Give back all connections; the store may still be used and then connects again."""
        self.engine.dispose()
