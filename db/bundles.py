"""Export and import: a scenario or a project as the content of one file (:mod:`planner.bundle`), and back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.errors import InputError, NotFoundError
from db.models import CommentRow, ProjectRow, ScenarioRow, VersionRow
from db.records import SavedSummary
from db.rows import read_scenario, scenario_text, set_head, summary_of
from db.scenarios import listed_row, project_key
from db.sessions import Sessions, key_of
from db.text import clean_author, clean_comment, clean_name, clean_note, clean_tags
from planner.difference import changed_paths
from planner.fields.sentences import shown

if TYPE_CHECKING:  # the format knows tables and traces, and with them the engine: a save does without it
    from planner.bundle import Bundle, BundleScenario


class Bundles(Sessions):
    """Read and write whole scenarios and projects. Links are never exported, and never taken over."""

    def export_scenario(self, id: str) -> Bundle:
        """A scenario with all its versions and comments, and everything that they refer to."""
        from planner.bundle import bundle

        with self._read("export the scenario") as session:
            row = listed_row(session, id)
            if row is None:
                raise NotFoundError("The scenario to export is not in the store any more.")
            scenarios = (_scenario(session, row),)
        return bundle(scenarios)

    def export_project(self, id: str) -> Bundle:
        """A project with all scenarios that are not archived."""
        from planner.bundle import MAX_SCENARIOS, BundleProject, bundle

        with self._read("export the project") as session:
            key = key_of(id)
            project = None if key is None else session.get(ProjectRow, key)
            if project is None:
                raise NotFoundError("The project to export is not in the store any more.")
            statement = (
                select(ScenarioRow)
                .where(ScenarioRow.project_id == project.id, ScenarioRow.archived_at.is_(None))
                .order_by(ScenarioRow.created_at, ScenarioRow.id)
                .limit(MAX_SCENARIOS)
            )
            scenarios = tuple(_scenario(session, row) for row in session.scalars(statement))
            about = BundleProject(
                name=project.name, note=project.note, author=project.author, created_at=project.created_at
            )
        if not scenarios:
            raise InputError(f'The project "{about.name}" holds no scenario to export.')
        return bundle(scenarios, about)

    def import_bundle(self, content: Bundle, project_id: str | None = None) -> tuple[SavedSummary, ...]:
        """Add everything of a checked file as new scenarios: all of it, or nothing.

        Into *project_id*; without one, a file that holds a project makes it anew, and others go into the first
        project. Versions keep numbers, authors and times. Raises InputError for a text that no save would take.
        """
        about = content.project
        project = None
        if project_id is None and about is not None:
            project = ProjectRow(
                id=uuid.uuid4(), name=clean_name(about.name, "project"), note=clean_note(about.note),
                author=clean_author(about.author), created_at=datetime.now(UTC), archived_at=None,
            )  # fmt: skip
        keys = {version.key: uuid.uuid4() for each in content.scenarios for version in each.versions}
        made = [_rows(each, keys) for each in content.scenarios]
        with self._write("import the file") as session:
            if project is not None:
                session.add(project)
                session.flush()
            into = project_key(session, project_id) if project is None else project.id
            for row, versions, comments in made:
                row.project_id = into
                session.add(row)
                session.flush()
                session.add_all(versions)
                session.flush()
                session.add_all(comments)
            _set_parents(session, content, keys)
            content.attachments.keep()  # last: what is refused above leaves no table behind
            return tuple(summary_of(row) for row, _, _ in made)


def _scenario(session: Session, row: ScenarioRow) -> BundleScenario:
    from planner.bundle import BundleComment, BundleScenario, BundleVersion

    versions = []
    statement = select(VersionRow).where(VersionRow.scenario_id == row.id).order_by(VersionRow.number)
    for kept in session.scalars(statement):
        scenario, problem = read_scenario(kept.scenario)
        if scenario is None:
            raise InputError(f'Version {kept.number} of "{row.name}" cannot be exported: {problem}')
        versions.append(
            BundleVersion(
                key=str(kept.id), number=kept.number, parent=None if kept.parent_id is None else str(kept.parent_id),
                restored=kept.restored, author=kept.author, created_at=kept.created_at,
                engine_version=kept.engine_version, catalog_digest=kept.catalog_digest, name=kept.name,
                note=kept.note, tags=tuple(json.loads(kept.tags)), scenario=scenario,
            )
        )  # fmt: skip
    said = select(CommentRow).where(CommentRow.scenario_id == row.id).order_by(CommentRow.created_at)
    comments = tuple(
        BundleComment(number=each.number, author=each.author, text=each.text, created_at=each.created_at)
        for each in session.scalars(said)
    )
    return BundleScenario(author=row.author, created_at=row.created_at, versions=tuple(versions), comments=comments)


def _rows(given: BundleScenario, keys: dict[str, uuid.UUID]) -> tuple[ScenarioRow, list[VersionRow], list[CommentRow]]:
    """The rows of a scenario, without project and parents. Raises InputError that names what it is about."""
    scenario_id = uuid.uuid4()
    by_key = {version.key: version.scenario for version in given.versions}
    versions = []
    for version in given.versions:
        start = by_key.get(version.parent or "")
        with _about(f"version {version.number} of {shown(version.name)}"):
            versions.append(
                VersionRow(
                    id=keys[version.key], scenario_id=scenario_id, number=version.number, parent_id=None,
                    restored=version.restored, author=clean_author(version.author), created_at=version.created_at,
                    engine_version=clean_author(version.engine_version),
                    catalog_digest=clean_author(version.catalog_digest), name=clean_name(version.name),
                    note=clean_note(version.note), tags=json.dumps(clean_tags(version.tags)),
                    changed=json.dumps(() if start is None else changed_paths(start, version.scenario)),
                    scenario=scenario_text(version.scenario), scenario_hash=version.scenario.content_hash(),
                )
            )  # fmt: skip
    name = shown(given.versions[-1].name)
    with _about(name):
        row = ScenarioRow(
            id=scenario_id, author=clean_author(given.author), created_at=given.created_at, archived_at=None
        )
    set_head(row, versions[-1], given.versions[-1].scenario)
    row.updated_at = datetime.now(UTC)  # what was just imported leads the list
    comments = []
    for comment in given.comments:
        with _about(f"a comment on {name}"):
            comments.append(
                CommentRow(
                    id=uuid.uuid4(), scenario_id=scenario_id, number=comment.number,
                    author=clean_author(comment.author), text=clean_comment(comment.text),
                    created_at=comment.created_at,
                )
            )  # fmt: skip
    return row, versions, comments


@contextmanager
def _about(what: str) -> Iterator[None]:
    """Say what of the file a refused text belongs to."""
    try:
        yield
    except InputError as error:
        reason = str(error).replace("Your name", "The author")
        raise InputError(f"The file cannot be imported: {what}: {reason}") from None


def _set_parents(session: Session, content: Bundle, keys: dict[str, uuid.UUID]) -> None:
    """Last, because a parent may come later in the file."""
    session.flush()
    for each in content.scenarios:
        for version in each.versions:
            if version.parent in keys and version.parent != version.key:
                session.get_one(VersionRow, keys[version.key]).parent_id = keys[version.parent]
