"""Studies: saved sweeps and comparisons, with the question as data and what was kept of the answers as bytes."""

from __future__ import annotations

import json
import uuid
import zlib
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.errors import InputError, NotFoundError, UnreadableError
from db.links import is_token
from db.models import LinkRow, ProjectRow, StudyRow
from db.records import Study, StudySummary
from db.rows import inflate, stamp
from db.scenarios import project_key
from db.sessions import Sessions, key_of
from db.text import clean_author, clean_name

KINDS = ("sweep", "compare")
SPEC_BYTES = 4_000_000
BODY_BYTES = 64_000_000
_MOST = 1000


class Studies(Sessions):
    """Save, list, open and archive studies; a share link to one is made by ``create_study_link``."""

    def save_study(
        self, project_id: str | None, kind: str, name: str, author: str, spec: dict[str, Any], body: bytes
    ) -> Study:
        """Keep a study. *spec* says what was asked (JSON), *body* what came out of it, in the caller's own format.

        Raises :class:`InputError` for an unknown kind, a spec that JSON cannot hold, and what is too large.
        """
        if kind not in KINDS:
            raise InputError(f"A study is a {' or a '.join(KINDS)}, not {kind!r}.")
        if len(body) > BODY_BYTES:
            raise InputError(
                f"The results have {len(body) / 1e6:,.0f} MB; up to {BODY_BYTES / 1e6:.0f} MB are kept with a study."
            )
        try:
            text = json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"The study cannot be stored: {' '.join(str(error).split())[:120]}.") from error
        if len(text) > SPEC_BYTES:
            raise InputError(f"The study has {len(text) / 1e6:.1f} MB; up to {SPEC_BYTES / 1e6:.0f} MB are accepted.")
        engine_version, catalog_digest = stamp(None)
        row = StudyRow(
            id=uuid.uuid4(), kind=kind, name=clean_name(name, "study"), author=clean_author(author), spec=text,
            body=zlib.compress(body, 6), engine_version=engine_version, catalog_digest=catalog_digest,
            created_at=datetime.now(UTC), archived_at=None,
        )  # fmt: skip
        with self._write("save the study") as session:
            row.project_id = project_key(session, project_id)
            session.add(row)
        return study_of(row)

    def list_studies(
        self,
        project_id: str | None = None,
        kind: str | None = None,
        *,
        limit: int = 200,
        offset: int = 0,
        archived: bool = False,
    ) -> tuple[StudySummary, ...]:
        """Saved studies, newest first, of one project or of all, without their bodies."""
        state = StudyRow.archived_at.is_not(None) if archived else StudyRow.archived_at.is_(None)
        statement = select(
            StudyRow.id, StudyRow.project_id, StudyRow.kind, StudyRow.name, StudyRow.author, StudyRow.spec,
            StudyRow.engine_version, StudyRow.catalog_digest, StudyRow.created_at, StudyRow.archived_at,
            func.length(StudyRow.body).label("body_bytes"),
        ).where(state)  # fmt: skip
        if project_id is not None:
            statement = statement.where(StudyRow.project_id == (key_of(project_id) or uuid.UUID(int=0)))
        else:
            statement = statement.join(ProjectRow).where(ProjectRow.archived_at.is_(None))
        if kind is not None:
            statement = statement.where(StudyRow.kind == kind)
        statement = statement.order_by(StudyRow.created_at.desc(), StudyRow.id)
        statement = statement.limit(max(0, min(limit, _MOST))).offset(max(0, offset))
        with self._read("list the studies") as session:
            return tuple(_summary(row._mapping) for row in session.execute(statement))

    def get_study(self, id: str) -> Study | None:
        """The study of that id; None if there is none or it is archived. Raises UnreadableError if it is damaged."""
        key = key_of(id)
        if key is None:
            return None
        with self._read("open the study") as session:
            row = session.get(StudyRow, key)
            return None if row is None or row.archived_at is not None else study_of(row)

    def get_study_by_token(self, token: str) -> Study | None:
        """The study that a share link means; None, for whatever reason, says :data:`LINK_TO_NOTHING`."""
        if not is_token(token):
            return None
        statement = (
            select(StudyRow)
            .join(LinkRow, LinkRow.study_id == StudyRow.id)
            .join(ProjectRow, ProjectRow.id == StudyRow.project_id)
            .where(
                LinkRow.token == token,
                LinkRow.revoked_at.is_(None),
                StudyRow.archived_at.is_(None),
                ProjectRow.archived_at.is_(None),
            )
        )
        with self._read("open the link") as session:
            row = session.scalar(statement)
            return None if row is None else study_of(row)

    def archive_study(self, id: str) -> None:
        """Take a study out of the lists and close its links; :meth:`unarchive_study` brings both back."""
        with self._write("archive the study") as session:
            row = _row(session, id)
            row.archived_at = row.archived_at or datetime.now(UTC)

    def unarchive_study(self, id: str) -> None:
        """Undo :meth:`archive_study`."""
        with self._write("bring the study back") as session:
            _row(session, id).archived_at = None


def _row(session: Session, id: str) -> StudyRow:
    key = key_of(id)
    row = None if key is None else session.get(StudyRow, key, with_for_update=True)
    if row is None:
        raise NotFoundError("This study is not in the store any more.")
    return row


def study_of(row: StudyRow) -> Study:
    """The row with its body; raises :class:`UnreadableError` where that is damaged."""
    body = inflate(row.body, BODY_BYTES)
    if body is None:
        raise UnreadableError(f'The saved study "{row.name}" cannot be opened: its stored results are damaged.')
    columns = {column.key: getattr(row, column.key) for column in StudyRow.__table__.columns if column.key != "body"}
    return Study(**_fields({**columns, "body_bytes": len(row.body)}), body=body)


def _summary(row: Any) -> StudySummary:
    return StudySummary(**_fields(row))


def _fields(row: Any) -> dict[str, Any]:
    return {**row, "id": str(row["id"]), "project_id": str(row["project_id"]), "spec": json.loads(row["spec"])}
