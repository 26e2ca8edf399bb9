"""Comments on a scenario or on one of its versions; they are kept as they were written."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from sqlalchemy import select

from db.errors import NotFoundError
from db.models import CommentRow
from db.records import Comment
from db.scenarios import listed_row
from db.sessions import Sessions, key_of
from db.text import clean_author, clean_comment

_MOST = 1000


class Comments(Sessions):
    """Write and read comments."""

    def comment(self, scenario_id: str, text: str, *, author: str = "", number: int | None = None) -> Comment:
        """Add a comment on a scenario, or on version *number* of it."""
        row = CommentRow(id=uuid.uuid4(), number=number, author=clean_author(author), text=clean_comment(text))
        row.created_at = datetime.now(UTC)
        with self._write("add the comment") as session:
            found = listed_row(session, scenario_id)
            if found is None:
                raise NotFoundError("The scenario is not in the store any more; the comment was not added.")
            if number is not None and not 1 <= number <= found.version:
                raise NotFoundError(f'"{found.name}" has no version {number}; it has {found.version}.')
            row.scenario_id = found.id
            session.add(row)
        return comment_of(row)

    def comments(self, scenario_id: str) -> tuple[Comment, ...]:
        """The comments of a scenario (the last 1,000), oldest first."""
        key = key_of(scenario_id)
        if key is None:
            return ()
        statement = (
            select(CommentRow)
            .where(CommentRow.scenario_id == key)
            .order_by(CommentRow.created_at.desc(), CommentRow.id)
            .limit(_MOST)
        )
        with self._read("read the comments") as session:
            return tuple(comment_of(row) for row in reversed(list(session.scalars(statement))))


def comment_of(row: CommentRow) -> Comment:
    """The row as what the store hands out."""
    return Comment(str(row.id), str(row.scenario_id), row.number, row.author, row.text, row.created_at)
