"""Scenarios of the library: save, list, search, open, move, archive with undo."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session, load_only

from db.errors import NotFoundError
from db.models import DEFAULT_PROJECT, ProjectRow, ResultRow, ScenarioRow, VersionRow
from db.records import Saved, SavedSummary
from db.rows import (
    check_belongs,
    put_result,
    remember,
    saved_of,
    scenario_text,
    set_head,
    set_search,
    stamp,
    summary_of,
)
from db.sessions import Sessions, key_of
from db.text import clean_author, clean_name, clean_note, clean_tags, search_terms
from planner.result import Result
from planner.scenario import Scenario

Summaries = list[SavedSummary]  # inside the store, "list" is the method
_MOST_ROWS = 1000


class Scenarios(Sessions):
    """What the library lists. Every change of content is a version (:mod:`db.versions`)."""

    def save(
        self,
        scenario: Scenario,
        name: str,
        note: str = "",
        result: Result | None = None,
        *,
        author: str = "",
        tags: Iterable[str] = (),
        project_id: str | None = None,
    ) -> Saved:
        """Keep a new scenario as version 1, with its result if one is given, in a project (None = the first one)."""
        row, version = new_scenario(scenario, name, note, author, tags, stamp(result))
        check_belongs(result, scenario)
        with self._write("save the scenario") as session:
            row.project_id = project_key(session, project_id)
            add(session, row, version)
            if result is not None:
                put_result(session, result)
        return saved_of(row, version)

    def list(
        self,
        search: str = "",
        limit: int = 200,
        offset: int = 0,
        *,
        project_id: str | None = None,
        archived: bool = False,
    ) -> Summaries:
        """Saved scenarios, last changed first, of one project or of all; no body is read.

        Each word of *search* must occur in the name, the note, the tags, the authors or the ids. ``archived`` lists
        those that were archived instead.
        """
        statement = (
            select(ScenarioRow)
            .where(*_matching(search, project_id, archived))
            .order_by(ScenarioRow.updated_at.desc(), ScenarioRow.id)
            .limit(max(0, min(limit, _MOST_ROWS)))
            .offset(max(0, offset))
        )
        with self._read("list the scenarios") as session:
            rows = list(session.scalars(statement))
            newest = newest_results(session, {row.scenario_hash for row in rows})
            return [summary_of(row, newest.get(row.scenario_hash)) for row in rows]

    def count(self, search: str = "", *, project_id: str | None = None, archived: bool = False) -> int:
        """How many rows :meth:`list` has in all."""
        statement = select(func.count()).select_from(ScenarioRow).where(*_matching(search, project_id, archived))
        with self._read("count the scenarios") as session:
            return session.scalar(statement) or 0

    def get(self, id: str) -> Saved | None:
        """The newest version of that scenario; None if there is none or it is archived. Raises UnreadableError."""
        with self._read("open the scenario") as session:
            found = head(session, id)
            return None if found is None else saved_of(*found)

    def move(self, id: str, project_id: str) -> SavedSummary:
        """Put a scenario into another project; no version is made."""
        with self._write("move the scenario") as session:
            row = scenario_row(session, id, lock=True)
            if row is None:
                raise NotFoundError("The scenario to move is not in the store any more.")
            row.project_id = project_key(session, project_id)
            return summary_of(row)

    def archive(self, id: str) -> SavedSummary:
        """Take a scenario out of the library and close its links; :meth:`unarchive` brings all back."""
        return self._mark(id, datetime.now(UTC), "archive the scenario")

    def unarchive(self, id: str) -> SavedSummary:
        """Undo :meth:`archive`: the same id, links, place in the list, versions and comments."""
        return self._mark(id, None, "bring the scenario back")

    def archive_all(self, ids: Iterable[str]) -> int:
        """:meth:`archive` of many at once; how many were in the library until now."""
        keys = [key for key in map(key_of, ids) if key is not None]
        now, done = datetime.now(UTC), 0
        with self._write("archive the scenarios") as session:
            for at in range(0, len(keys), _MOST_ROWS):
                some = ScenarioRow.id.in_(keys[at : at + _MOST_ROWS])
                found = session.scalars(
                    update(ScenarioRow)
                    .where(some, ScenarioRow.archived_at.is_(None))
                    .values(archived_at=now)
                    .returning(ScenarioRow.id)
                )
                done += len(found.all())
        return done

    def add_once(self, key: str, scenario: Scenario, name: str, note: str = "") -> bool:
        """Save a scenario unless this was done before under *key*, even if it was archived since. True if saved."""
        row, version = new_scenario(scenario, name, note, "", (), stamp(None))
        with self._write("add the example") as session:
            if not remember(session, key):
                return False
            row.project_id = DEFAULT_PROJECT
            add(session, row, version)
            return True

    def _mark(self, id: str, archived_at: datetime | None, doing: str) -> SavedSummary:
        with self._write(doing) as session:
            row = scenario_row(session, id, lock=True)
            if row is None:
                raise NotFoundError(f"Could not {doing}: it is not in the store any more.")
            if (row.archived_at is None) != (archived_at is None):
                row.archived_at = archived_at
            return summary_of(row)


def new_scenario(
    scenario: Scenario, name: str, note: str, author: str, tags: Iterable[str], stamped: tuple[str, str]
) -> tuple[ScenarioRow, VersionRow]:
    """The two rows of a new scenario, without a project. Raises :class:`InputError`."""
    now = datetime.now(UTC)
    version = VersionRow(
        id=uuid.uuid4(), scenario_id=uuid.uuid4(), number=1, author=clean_author(author), created_at=now,
        engine_version=stamped[0], catalog_digest=stamped[1], name=clean_name(name), note=clean_note(note),
        tags=json.dumps(clean_tags(tags)), changed="[]", scenario=scenario_text(scenario),
        scenario_hash=scenario.content_hash(),
    )  # fmt: skip
    row = ScenarioRow(id=version.scenario_id, author=version.author, created_at=now, archived_at=None)
    row.changed_by = version.author
    set_head(row, version, scenario)
    set_search(row)
    return row, version


def add(session: Session, row: ScenarioRow, *versions: VersionRow) -> None:
    """Insert a scenario before its versions, which refer to it."""
    session.add(row)
    session.flush()
    for version in versions:
        session.add(version)
        session.flush()


def scenario_row(session: Session, id: object, lock: bool = False) -> ScenarioRow | None:
    """The scenario of that id, archived or not."""
    key = key_of(id)
    return None if key is None else session.get(ScenarioRow, key, with_for_update=lock)


def head(session: Session, id: object) -> tuple[ScenarioRow, VersionRow] | None:
    """A scenario that is in the library, with its newest version."""
    row = listed_row(session, id)
    return None if row is None else (row, session.get_one(VersionRow, row.version_id))


def listed_row(session: Session, id: object) -> ScenarioRow | None:
    """The scenario of that id; None where it, or the project that it is in, is not there or archived."""
    row = scenario_row(session, id)
    return None if row is None or archived(session, row) is not None else row


def archived(session: Session, row: ScenarioRow) -> str | None:
    """What of a scenario was archived, itself or its project, as the start of a sentence; None where nothing was."""
    if row.archived_at is not None:
        return f'"{row.name}" was archived'
    project = session.get_one(ProjectRow, row.project_id)
    return None if project.archived_at is None else f'The project "{project.name}" of "{row.name}" was archived'


def project_key(session: Session, project_id: str | None) -> uuid.UUID:
    """The project to save into. Raises NotFoundError when it is not there or archived."""
    if project_id is None:
        return DEFAULT_PROJECT
    key = key_of(project_id)
    row = None if key is None else session.get(ProjectRow, key)
    if row is None or row.archived_at is not None:
        raise NotFoundError("That project is not in the store, or was archived; choose another one.")
    return row.id


def newest_results(session: Session, hashes: set[str]) -> dict[str, ResultRow]:
    """The newest result of each hash, without its body."""
    columns = load_only(ResultRow.headline, ResultRow.created_at)
    statement = select(ResultRow).options(columns).where(ResultRow.scenario_hash.in_(hashes))
    return {row.scenario_hash: row for row in session.scalars(statement.order_by(ResultRow.created_at))}


def _matching(search: str, project_id: str | None, archived: bool) -> tuple[ColumnElement[bool], ...]:
    conditions = [ScenarioRow.search_text.contains(term, autoescape=True) for term in search_terms(search)]
    conditions.append(ScenarioRow.archived_at.is_not(None) if archived else ScenarioRow.archived_at.is_(None))
    if project_id is not None:
        conditions.append(ScenarioRow.project_id == (key_of(project_id) or uuid.UUID(int=0)))
    else:
        in_sight = select(ProjectRow.id).where(ProjectRow.archived_at.is_(None))
        conditions.append(ScenarioRow.project_id.in_(in_sight))
    return tuple(conditions)
