"""Share links: unguessable, to one version or to the newest, and closed at any time.

A link is a name that cannot be guessed, not an access control. One that was closed, one whose scenario is archived,
and one that never existed are the same to whoever opens it: the same single look-up, the same answer.
"""

from __future__ import annotations

import re
import secrets
import uuid
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, func, select

from db.errors import NotFoundError
from db.models import LinkRow, ProjectRow, ScenarioRow, StudyRow, VersionRow
from db.records import Link, Saved
from db.rows import saved_of
from db.scenarios import listed_row
from db.sessions import Sessions, key_of
from db.text import clean_author

TOKEN_BYTES = 24  # 192 random bits, as 32 characters
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22,64}")


def _leads(token: str) -> tuple[ColumnElement[bool], ...]:
    """What makes a link lead somewhere, for opening it and for the page that asks whether it still does."""
    return (
        LinkRow.token == token,
        LinkRow.revoked_at.is_(None),
        ScenarioRow.archived_at.is_(None),
        ProjectRow.archived_at.is_(None),
    )


class Links(Sessions):
    """Make, open, list and close share links."""

    def create_link(self, scenario_id: str, number: int | None = None, *, author: str = "") -> Link:
        """A new link to version *number* of a scenario, or to whichever is its newest (None)."""
        row = _new_link(author)
        with self._write("make the link") as session:
            found = listed_row(session, scenario_id)
            if found is None:
                raise NotFoundError("The scenario to share is not in the store any more.")
            if number is not None and not 1 <= number <= found.version:
                raise NotFoundError(f'"{found.name}" has no version {number}; it has {found.version}.')
            row.scenario_id, row.number = found.id, number
            session.add(row)
        return link_of(row)

    def create_study_link(self, study_id: str, *, author: str = "") -> Link:
        """A new link to a saved study."""
        row = _new_link(author)
        with self._write("make the link") as session:
            key = key_of(study_id)
            study = None if key is None else session.get(StudyRow, key)
            if study is None or study.archived_at is not None:
                raise NotFoundError("The study to share is not in the store any more.")
            row.study_id = study.id
            session.add(row)
        return link_of(row)

    def links(self, scenario_id: str | None = None, *, study_id: str | None = None) -> tuple[Link, ...]:
        """The links of a scenario or of a study, newest first, closed ones too."""
        column = LinkRow.study_id if study_id is not None else LinkRow.scenario_id
        key = key_of(study_id if study_id is not None else scenario_id)
        if key is None:
            return ()
        statement = select(LinkRow).where(column == key).order_by(LinkRow.created_at.desc(), LinkRow.id)
        with self._read("list the links") as session:
            return tuple(link_of(row) for row in session.scalars(statement))

    def revoke_link(self, link_id: str) -> Link:
        """Close a link for good; closing it again does nothing."""
        with self._write("close the link") as session:
            key = key_of(link_id)
            row = None if key is None else session.get(LinkRow, key, with_for_update=True)
            if row is None:
                raise NotFoundError("This link is not in the store any more.")
            row.revoked_at = row.revoked_at or datetime.now(UTC)
            return link_of(row)

    def open_link(self, token: str) -> tuple[Saved, Link] | None:
        """What a link to a scenario means now; None, for whatever reason, says :data:`LINK_TO_NOTHING`."""
        if not is_token(token):
            return None
        statement = (
            select(LinkRow, ScenarioRow, VersionRow)
            .join(ScenarioRow, ScenarioRow.id == LinkRow.scenario_id)
            .join(ProjectRow, ProjectRow.id == ScenarioRow.project_id)
            .join(
                VersionRow,
                (VersionRow.scenario_id == ScenarioRow.id)
                & (VersionRow.number == func.coalesce(LinkRow.number, ScenarioRow.version)),
            )
            .where(*_leads(token))
        )
        with self._read("open the link") as session:
            found = session.execute(statement).first()
            return None if found is None else (saved_of(found[1], found[2]), link_of(found[0]))

    def link_is_open(self, token: str) -> bool:
        """Whether a link still leads somewhere: what a page that was opened by it asks now and then."""
        if not is_token(token):
            return False
        statement = (
            select(LinkRow.id)
            .join(ScenarioRow, ScenarioRow.id == LinkRow.scenario_id)
            .join(ProjectRow, ProjectRow.id == ScenarioRow.project_id)
            .where(*_leads(token))
        )
        with self._read("open the link") as session:
            return session.scalar(statement) is not None


def is_token(token: object) -> bool:
    """Whether a text has the shape of a link's token."""
    return isinstance(token, str) and _TOKEN.fullmatch(token) is not None


def link_of(row: LinkRow) -> Link:
    """The row as what the store hands out."""
    return Link(
        id=str(row.id),
        token=row.token,
        scenario_id=None if row.scenario_id is None else str(row.scenario_id),
        number=row.number,
        study_id=None if row.study_id is None else str(row.study_id),
        author=row.author,
        created_at=row.created_at,
        revoked_at=row.revoked_at,
    )


def _new_link(author: str) -> LinkRow:
    return LinkRow(
        id=uuid.uuid4(),
        token=secrets.token_urlsafe(TOKEN_BYTES),
        author=clean_author(author),
        created_at=datetime.now(UTC),
        revoked_at=None,
    )
