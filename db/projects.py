"""Projects: groups of scenarios and studies."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from sqlalchemy import func, select

from db.errors import InputError, NotFoundError
from db.models import DEFAULT_PROJECT, ProjectRow, ScenarioRow
from db.records import Project
from db.sessions import Sessions, key_of
from db.text import clean_author, clean_name, clean_note


class Projects(Sessions):
    """Make, list, rename and archive projects. The first one is always there."""

    def create_project(self, name: str, note: str = "", *, author: str = "") -> Project:
        """A new, empty project."""
        row = ProjectRow(id=uuid.uuid4(), name=clean_name(name, "project"), note=clean_note(note), archived_at=None)
        row.author, row.created_at = clean_author(author), datetime.now(UTC)
        with self._write("make the project") as session:
            session.add(row)
        return project_of(row, 0)

    def projects(self, *, archived: bool = False) -> tuple[Project, ...]:
        """The projects in the order in which they were made, or the archived ones instead; two look-ups in all."""
        state = ProjectRow.archived_at.is_not(None) if archived else ProjectRow.archived_at.is_(None)
        statement = select(ProjectRow).where(state).order_by(ProjectRow.created_at, ProjectRow.id)
        counted = (
            select(ScenarioRow.project_id, func.count())
            .where(ScenarioRow.archived_at.is_(None))
            .group_by(ScenarioRow.project_id)
        )
        with self._read("list the projects") as session:
            counts = {row[0]: row[1] for row in session.execute(counted)}
            return tuple(project_of(row, counts.get(row.id, 0)) for row in session.scalars(statement))

    def get_project(self, id: str) -> Project | None:
        """The project of that id, archived or not."""
        key = key_of(id)
        if key is None:
            return None
        counted = select(func.count()).where(ScenarioRow.project_id == key, ScenarioRow.archived_at.is_(None))
        with self._read("open the project") as session:
            row = session.get(ProjectRow, key)
            return None if row is None else project_of(row, session.scalar(counted) or 0)

    def update_project(self, id: str, *, name: str | None = None, note: str | None = None) -> Project:
        """Change a project's name or note."""
        new_name = None if name is None else clean_name(name, "project")
        new_note = None if note is None else clean_note(note)
        with self._write("change the project") as session:
            key = key_of(id)
            row = None if key is None else session.get(ProjectRow, key, with_for_update=True)
            if row is None:
                raise NotFoundError("This project is not in the store any more.")
            row.name = row.name if new_name is None else new_name
            row.note = row.note if new_note is None else new_note
            return project_of(row, 0)

    def archive_project(self, id: str) -> Project:
        """Take a project with its scenarios out of sight and close their links; unarchive brings all back."""
        if key_of(id) == DEFAULT_PROJECT:
            raise InputError("The first project stays: scenarios that are saved without a choice go there.")
        return self._mark_project(id, datetime.now(UTC), "archive the project")

    def unarchive_project(self, id: str) -> Project:
        """Undo :meth:`archive_project`."""
        return self._mark_project(id, None, "bring the project back")

    def _mark_project(self, id: str, archived_at: datetime | None, doing: str) -> Project:
        with self._write(doing) as session:
            key = key_of(id)
            row = None if key is None else session.get(ProjectRow, key, with_for_update=True)
            if row is None:
                raise NotFoundError(f"Could not {doing}: it is not in the store any more.")
            if (row.archived_at is None) != (archived_at is None):
                row.archived_at = archived_at
            return project_of(row, 0)


def project_of(row: ProjectRow, scenarios: int) -> Project:
    """The row as what the store hands out."""
    return Project(str(row.id), row.name, row.note, row.author, row.created_at, row.archived_at, scenarios)
