"""Alembic's entry: uses the connection that db.upgrade passes in, else the store that the environment names."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from db.engine import engine_for, writing
from db.location import locate
from db.models import Base


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,  # SQLite changes a column only by rebuilding its table
        compare_server_default=True,
        transactional_ddl=True,  # true on SQLite too, because BEGIN is our own
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:  # "alembic -c db/alembic.ini revision --autogenerate" while developing
    with writing(engine_for(locate())).begin() as own:
        run(own)
