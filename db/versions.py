"""Versions: every save makes one, none is ever changed, and two people who save at once both keep theirs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, aliased, load_only

from db.errors import NotFoundError
from db.models import ScenarioRow, VersionRow
from db.records import Saved, Version
from db.rows import (
    check_belongs,
    put_result,
    read_scenario,
    saved_of,
    scenario_text,
    set_head,
    stamp,
    version_of,
)
from db.scenarios import (
    Scenarios,
    add,
    archived,
    listed_row,
    new_scenario,
    newest_results,
    project_key,
    scenario_row,
)
from db.sessions import key_of
from db.text import NAME_CHARS, clean_author, clean_name, clean_note, clean_tags
from planner.difference import changed_paths
from planner.result import Result
from planner.scenario import Scenario

History = tuple[Version, ...]
_MOST = 1000
_BODILESS = load_only(
    VersionRow.scenario_id, VersionRow.number, VersionRow.parent_id, VersionRow.restored, VersionRow.author,
    VersionRow.created_at, VersionRow.engine_version, VersionRow.catalog_digest, VersionRow.name, VersionRow.note,
    VersionRow.tags, VersionRow.changed, VersionRow.scenario_hash,
)  # fmt: skip


class Versions(Scenarios):
    """History of a scenario, and the saves that make it."""

    def update(
        self,
        id: str,
        *,
        scenario: Scenario | None = None,
        name: str | None = None,
        note: str | None = None,
        tags: Iterable[str] | None = None,
        author: str = "",
        result: Result | None = None,
        expected_version: int | None,
    ) -> Saved:
        """Save a new version of a scenario: what is given is changed, the rest is as in the version it starts from.

        *expected_version* is the number of that version, which becomes the parent; None starts from the newest. When
        somebody else saved meanwhile, theirs and this one are siblings: both are kept, this one is the newest, and
        ``beside`` of the answer lists theirs. Raises :class:`NotFoundError` when the scenario was archived meanwhile.
        """
        new_name = None if name is None else clean_name(name)
        new_note = None if note is None else clean_note(note)
        new_tags = None if tags is None else json.dumps(clean_tags(tags))
        saved_by, stamped = clean_author(author), stamp(result)
        with self._write("save the scenario") as session:
            row = _open_row(session, id)
            start = _version(session, row, expected_version)
            before, _ = read_scenario(start.scenario)
            after = before if scenario is None else scenario
            if after is not None:
                check_belongs(result, after)
            changed = changed_paths(before, after) if before is not None and after is not None else ()
            version = VersionRow(
                id=uuid.uuid4(), scenario_id=row.id, number=row.version + 1, parent_id=start.id, author=saved_by,
                created_at=datetime.now(UTC), engine_version=stamped[0], catalog_digest=stamped[1],
                name=start.name if new_name is None else new_name, note=start.note if new_note is None else new_note,
                tags=start.tags if new_tags is None else new_tags, changed=json.dumps(changed),
                scenario=start.scenario if scenario is None else scenario_text(scenario),
                scenario_hash=start.scenario_hash if scenario is None else scenario.content_hash(),
            )  # fmt: skip
            beside = _after(session, row.id, start.number)
            session.add(version)
            set_head(row, version, after)
            if result is not None:
                put_result(session, result)
            session.flush()
            return saved_of(row, version, beside)

    def restore(self, id: str, number: int, *, author: str = "") -> Saved:
        """Bring an older version back as the newest one; nothing between is lost."""
        saved_by, stamped = clean_author(author), stamp(None)
        with self._write("restore the version") as session:
            row = _open_row(session, id)
            old, newest = _version(session, row, number), _version(session, row, None)
            (before, _), (after, _) = read_scenario(newest.scenario), read_scenario(old.scenario)
            changed = changed_paths(before, after) if before is not None and after is not None else ()
            version = VersionRow(
                id=uuid.uuid4(), scenario_id=row.id, number=row.version + 1, parent_id=newest.id, restored=number,
                author=saved_by, created_at=datetime.now(UTC), engine_version=stamped[0], catalog_digest=stamped[1],
                name=old.name, note=old.note, tags=old.tags, changed=json.dumps(changed), scenario=old.scenario,
                scenario_hash=old.scenario_hash,
            )  # fmt: skip
            session.add(version)
            set_head(row, version, after)
            session.flush()
            return saved_of(row, version)

    def fork(
        self,
        id: str,
        number: int | None = None,
        *,
        name: str | None = None,
        note: str | None = None,
        tags: Iterable[str] | None = None,
        author: str = "",
        project_id: str | None = None,
        scenario: Scenario | None = None,
        result: Result | None = None,
    ) -> Saved:
        """A new scenario that starts from a version of another one (None = its newest), which becomes its parent.

        It is named *name* or "... (copy)", is in *project_id* or the project of the other one, and holds *scenario*
        where one is given (edits that were made before forking).
        """
        with self._write("copy the scenario") as session:
            source = listed_row(session, id)
            if source is None:
                raise NotFoundError("The scenario to copy is not in the store any more.")
            old = _version(session, source, number)
            before = saved_of(source, old).scenario
            ending = " (copy)"
            row, version = new_scenario(
                scenario or before,
                old.name[: NAME_CHARS - len(ending)] + ending if name is None else name,
                old.note if note is None else note,
                author,
                json.loads(old.tags) if tags is None else tags,
                stamp(result),
            )
            check_belongs(result, scenario or before)
            row.project_id = source.project_id if project_id is None else project_key(session, project_id)
            version.parent_id = old.id
            version.changed = json.dumps(changed_paths(before, scenario) if scenario is not None else ())
            row.changed = version.changed
            add(session, row, version)
            if result is not None:
                put_result(session, result)
            return saved_of(row, version)

    def get_version(self, id: str, number: int) -> Saved | None:
        """One version of a scenario; None where there is none, or it is archived. Raises UnreadableError."""
        with self._read("open the version") as session:
            row = listed_row(session, id)
            if row is None:
                return None
            version = session.scalar(_one(row.id, number))
            return None if version is None else saved_of(row, version)

    def history(self, id: str) -> History:
        """All versions of a scenario (up to 1,000), newest first, with the newest result of each; no body is read."""
        key = key_of(id)
        if key is None:
            return ()
        parent = aliased(VersionRow)
        statement = (
            select(VersionRow, parent.scenario_id, parent.number)
            .outerjoin(parent, VersionRow.parent_id == parent.id)
            .options(_BODILESS)
            .where(VersionRow.scenario_id == key)
            .order_by(VersionRow.number.desc())
            .limit(_MOST)
        )
        with self._read("read the versions") as session:
            found = session.execute(statement).all()
            newest = newest_results(session, {row.scenario_hash for row, _, _ in found})
            return tuple(
                version_of(row, None if of is None else (of, number), newest.get(row.scenario_hash))
                for row, of, number in found
            )

    def newer_than(self, id: str, number: int) -> History:
        """Versions after *number*, oldest first: what an open page asks every few seconds. One indexed look-up."""
        key = key_of(id)
        if key is None:
            return ()
        with self._read("look for newer versions") as session:
            return _after(session, key, number)


def _open_row(session: Session, id: str) -> ScenarioRow:
    """The scenario to save into, locked."""
    row = scenario_row(session, id, lock=True)
    if row is None:
        raise NotFoundError("This scenario is not in the store any more; save yours as a new scenario.")
    gone = archived(session, row)
    if gone is not None:
        raise NotFoundError(f"{gone} meanwhile; bring it back, or save yours as a new scenario.")
    return row


def _version(session: Session, row: ScenarioRow, number: int | None) -> VersionRow:
    if number is None:
        return session.get_one(VersionRow, row.version_id)
    found = session.scalar(_one(row.id, number))
    if found is None:
        raise NotFoundError(f'"{row.name}" has no version {number}; it has {row.version}.')
    return found


def _one(scenario_id: uuid.UUID, number: int) -> Select[VersionRow]:
    return select(VersionRow).where(VersionRow.scenario_id == scenario_id, VersionRow.number == number)


def _after(session: Session, scenario_id: uuid.UUID, number: int) -> History:
    parent = aliased(VersionRow)
    statement = (
        select(VersionRow, parent.scenario_id, parent.number)
        .outerjoin(parent, VersionRow.parent_id == parent.id)
        .options(_BODILESS)
        .where(VersionRow.scenario_id == scenario_id, VersionRow.number > number)
        .order_by(VersionRow.number)
        .limit(_MOST)
    )
    return tuple(
        version_of(row, None if of is None else (of, parent_number))
        for row, of, parent_number in session.execute(statement)
    )
