"""The scenario store: save, list, search, open, duplicate, delete with undo, and the results beside them.

A :class:`Store` may be used from any number of threads and processes at once. Every method is one transaction:
it happened as a whole or not at all, and what failed is a :class:`db.errors.StoreError`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session, load_only

from db.engine import BUSY_TIMEOUT_S, engine_for, prepare_file, writing
from db.errors import DATABASE_ERRORS, NotFoundError, StaleError, explain
from db.location import Location, locate
from db.models import ResultRow, ScenarioRow
from db.records import Saved, SavedSummary, saved_of, summary_of, unpack_result
from db.rows import check_belongs, new_scenario, put_result, remember, set_scenario, set_search
from db.text import NAME_CHARS, clean_name, clean_note, search_terms
from db.upgrade import upgrade
from planner.result import Result
from planner.scenario import Scenario

Summaries = list[SavedSummary]  # inside Store, "list" is the method
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22,64}")
_MOST_ROWS = 1000


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


class Store:
    """Saved scenarios and results in one database. Use :func:`open_store`, which migrates first."""

    def __init__(self, location: Location, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.location = location
        self.engine = engine_for(location, busy_timeout_s)
        self._writer = writing(self.engine)

    # -- scenarios ------------------------------------------------------------------------------------------------

    def save(self, scenario: Scenario, name: str, note: str = "", result: Result | None = None) -> Saved:
        """Keep a new scenario, with its result if one is given, under a new id and a new share token."""
        row = new_scenario(scenario, name, note)
        check_belongs(result, scenario)
        with self._write("save the scenario") as session:
            session.add(row)
            if result is not None:
                put_result(session, result)
        return saved_of(row)

    def update(
        self,
        id: str,
        *,
        scenario: Scenario | None = None,
        name: str | None = None,
        note: str | None = None,
        result: Result | None = None,
        expected_version: int | None,
    ) -> Saved:
        """Change what is given of a saved scenario.

        Raises :class:`StaleError`, and changes nothing, when the stored version is not *expected_version* (None
        does not check), :class:`NotFoundError` when it was deleted meanwhile.
        """
        new_name = None if name is None else clean_name(name)
        new_note = None if note is None else clean_note(note)
        with self._write("save the scenario") as session:
            row = self._row(session, id, lock=True)
            if row is None or row.deleted_at is not None:
                raise NotFoundError(
                    f'"{row.name}" was deleted meanwhile; undo the deletion, or save yours as a new scenario.'
                    if row is not None
                    else "This scenario is not in the store any more; save yours as a new scenario."
                )
            if expected_version is not None and row.version != expected_version:
                raise StaleError(
                    f'"{row.name}" was saved by someone else meanwhile (version {row.version}, yours started from '
                    f"version {expected_version}); nothing was overwritten, save yours as a new scenario or "
                    "open theirs.",
                    summary_of(row),
                )
            row.name = row.name if new_name is None else new_name
            row.note = row.note if new_note is None else new_note
            if scenario is not None:
                set_scenario(row, scenario)
            set_search(row)
            if result is not None:
                check_belongs(result, scenario or saved_of(row).scenario)
                put_result(session, result)
            row.version += 1
            row.updated_at = datetime.now(UTC)
            session.flush()
            return saved_of(row)

    def list(self, search: str = "", limit: int = 200, offset: int = 0, include_deleted: bool = False) -> Summaries:
        """Saved scenarios, last changed first; each word of *search* must occur in the name, the note or the ids.

        Readable rows are :class:`Saved`; others say in ``problem`` why they cannot be opened.
        """
        statement = (
            select(ScenarioRow)
            .where(*_matching(search, include_deleted))
            .order_by(ScenarioRow.updated_at.desc(), ScenarioRow.id)
            .limit(max(0, min(limit, _MOST_ROWS)))
            .offset(max(0, offset))
        )
        with self._read("list the scenarios") as session:
            rows = list(session.scalars(statement))
            newest = self._newest_results(session, {row.scenario_hash for row in rows})
            return [summary_of(row, newest.get(row.scenario_hash)) for row in rows]

    def count(self, search: str = "", include_deleted: bool = False) -> int:
        """How many rows :meth:`list` has in all."""
        statement = select(func.count()).select_from(ScenarioRow).where(*_matching(search, include_deleted))
        with self._read("count the scenarios") as session:
            return session.scalar(statement) or 0

    def get(self, id: str) -> Saved | None:
        """The scenario of that id; None if there is none or it is deleted. Raises :class:`UnreadableError`."""
        with self._read("open the scenario") as session:
            row = self._row(session, id)
            return None if row is None or row.deleted_at is not None else saved_of(row)

    def get_by_token(self, token: str) -> Saved | None:
        """The scenario that a share link means; None, for whatever reason, says :data:`LINK_TO_NOTHING`."""
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            return None
        statement = select(ScenarioRow).where(ScenarioRow.token == token, ScenarioRow.deleted_at.is_(None))
        with self._read("open the link") as session:
            row = session.scalar(statement)
            return None if row is None else saved_of(row)

    def duplicate(self, id: str, name: str | None = None) -> Saved:
        """A copy with its own id and token, named *name* or "... (copy)"."""
        saved = self.get(id)
        if saved is None:
            raise NotFoundError("The scenario to duplicate is not in the store any more.")
        ending = " (copy)"
        return self.save(saved.scenario, name or saved.name[: NAME_CHARS - len(ending)] + ending, saved.note)

    def delete(self, id: str) -> None:
        """Take a scenario out of the library and close its link; :meth:`undelete` brings both back."""
        self._mark(id, datetime.now(UTC), "delete the scenario")

    def undelete(self, id: str) -> SavedSummary:
        """Undo :meth:`delete`: the same id, link, place in the list and content."""
        return self._mark(id, None, "bring the scenario back")

    # -- results --------------------------------------------------------------------------------------------------

    def put_result(self, result: Result) -> None:
        """Keep a result under its scenario's hash, its engine version and its catalog digest."""
        check_belongs(result, result.scenario)
        with self._write("save the result") as session:
            put_result(session, result)

    def result_for(self, scenario: Scenario, engine_version: str, catalog_digest: str) -> Result | None:
        """The result of exactly this scenario, engine and catalog, or None."""
        key = (scenario.content_hash(), engine_version, catalog_digest)
        with self._read("read the result") as session:
            row = session.get(ResultRow, key)
            result = None if row is None else unpack_result(row.body)
        if result is None:
            return None
        # The hash leaves the display-only preset out, so the stored one may carry another.
        return result.model_copy(update={"scenario": scenario})

    def latest_result(self, what: Scenario | SavedSummary) -> tuple[Result, str, str] | None:
        """The newest readable result, with its engine version and catalog digest, whichever computed it.

        A saved scenario also finds results under the hash that it had when it was saved, which a later version of
        the scenario's schema may have changed.
        """
        hashes = {what.content_hash()} if isinstance(what, Scenario) else {what.scenario_hash}
        if not isinstance(what, Scenario) and what.scenario is not None:
            hashes.add(what.scenario.content_hash())
        statement = select(ResultRow).where(ResultRow.scenario_hash.in_(hashes)).order_by(ResultRow.created_at.desc())
        with self._read("read the result") as session:
            for row in session.scalars(statement):
                if (result := unpack_result(row.body)) is not None:
                    return result, row.engine_version, row.catalog_digest
        return None

    # -- the store itself -----------------------------------------------------------------------------------------

    def add_once(self, key: str, scenario: Scenario, name: str, note: str = "") -> bool:
        """Save a scenario unless this was done before under *key*, even if it was deleted since. True if saved."""
        row = new_scenario(scenario, name, note)
        with self._write("add the example") as session:
            if not remember(session, key):
                return False
            session.add(row)
            return True

    def health(self) -> str:
        """One sentence about the store. Raises a StoreError where it cannot be used."""
        with self._read("look at the store") as session:
            scenarios = session.scalar(select(func.count()).select_from(ScenarioRow).where(*_matching("", False))) or 0
            results = session.scalar(select(func.count()).select_from(ResultRow)) or 0
        label = self.location.label
        return f"{label[0].upper()}{label[1:]} holds {scenarios:,} scenarios and {results:,} results."

    def close(self) -> None:
        """Give back all connections; the store may still be used and then connects again."""
        self.engine.dispose()

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

    def _row(self, session: Session, id: str, lock: bool = False) -> ScenarioRow | None:
        try:
            key = uuid.UUID(id)
        except (ValueError, TypeError, AttributeError):
            return None
        return session.get(ScenarioRow, key, with_for_update=lock)

    def _mark(self, id: str, deleted_at: datetime | None, doing: str) -> SavedSummary:
        with self._write(doing) as session:
            row = self._row(session, id, lock=True)
            if row is None:
                raise NotFoundError(f"Could not {doing}: it is not in the store any more.")
            if (row.deleted_at is None) != (deleted_at is None):
                row.deleted_at = deleted_at
            return summary_of(row)

    def _newest_results(self, session: Session, hashes: set[str]) -> dict[str, ResultRow]:
        """The newest result of each hash, without its body."""
        columns = load_only(ResultRow.headline, ResultRow.created_at)
        statement = select(ResultRow).options(columns).where(ResultRow.scenario_hash.in_(hashes))
        return {row.scenario_hash: row for row in session.scalars(statement.order_by(ResultRow.created_at))}


def _matching(search: str, include_deleted: bool) -> tuple[ColumnElement[bool], ...]:
    conditions = [ScenarioRow.search_text.contains(term, autoescape=True) for term in search_terms(search)]
    if not include_deleted:
        conditions.append(ScenarioRow.deleted_at.is_(None))
    return tuple(conditions)
