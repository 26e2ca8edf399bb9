"""The tables, one SQLAlchemy schema for SQLite and PostgreSQL.

A scenario and a result are kept as text exactly as the engine wrote them, not as JSONB: PostgreSQL's JSONB
refuses ``\\u0000``, NaN and half surrogates that a pasted config may hold, and the content hash is over text.

``scenarios`` holds what a line of the library shows of the newest version, so that a list reads one table and no
body; the bodies are in ``versions``, which are never changed.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

#: The project that every store has, and that what was saved without one is in.
DEFAULT_PROJECT = uuid.UUID(int=1)


class UtcDateTime(TypeDecorator[datetime]):
    """Time zone aware UTC in and out; SQLite has no such type and holds the same moment without a zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment without a time zone cannot be stored")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class ProjectRow(Base):
    """A group of scenarios and studies."""

    __tablename__ = "projects"

    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    note: Mapped[str] = mapped_column(Text)
    author: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    archived_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class ScenarioRow(Base):
    """A saved scenario as the library shows it: the newest version without its body."""

    __tablename__ = "scenarios"
    __table_args__ = (Index(None, "archived_at", "updated_at"), Index(None, "project_id", "archived_at", "updated_at"))

    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True)
    project_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("projects.id"))
    version: Mapped[int] = mapped_column(Integer)
    version_id: Mapped[uuid.UUID] = mapped_column(Uuid)  # no foreign key: versions refer to this table already
    name: Mapped[str] = mapped_column(String(200))
    note: Mapped[str] = mapped_column(Text)
    tags: Mapped[str] = mapped_column(Text)
    author: Mapped[str] = mapped_column(String(200))
    changed_by: Mapped[str] = mapped_column(String(200))
    changed: Mapped[str] = mapped_column(Text)
    scenario_hash: Mapped[str] = mapped_column(String(64), index=True)
    model_id: Mapped[str] = mapped_column(String(200))
    system_id: Mapped[str] = mapped_column(String(200))
    policy_id: Mapped[str] = mapped_column(String(200))
    batch: Mapped[int | None] = mapped_column(Integer)
    prompt_tokens: Mapped[int | None] = mapped_column(Integer)
    output_tokens: Mapped[int | None] = mapped_column(Integer)
    search_text: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    archived_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class VersionRow(Base):
    """What one save kept; never changed. ``parent_id`` may be of another scenario, for a fork."""

    __tablename__ = "versions"
    __table_args__ = (UniqueConstraint("scenario_id", "number"),)

    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True)
    scenario_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("scenarios.id"))
    number: Mapped[int] = mapped_column(Integer)
    parent_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("versions.id"))
    restored: Mapped[int | None] = mapped_column(Integer)
    author: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    engine_version: Mapped[str] = mapped_column(String(100))
    catalog_digest: Mapped[str] = mapped_column(String(100))
    name: Mapped[str] = mapped_column(String(200))
    note: Mapped[str] = mapped_column(Text)
    tags: Mapped[str] = mapped_column(Text)
    changed: Mapped[str] = mapped_column(Text)
    scenario: Mapped[str] = mapped_column(Text)
    scenario_hash: Mapped[str] = mapped_column(String(64))


class CommentRow(Base):
    """What a person wrote about a scenario, or about one version of it."""

    __tablename__ = "comments"
    __table_args__ = (Index(None, "scenario_id", "created_at"),)

    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True)
    scenario_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("scenarios.id"))
    number: Mapped[int | None] = mapped_column(Integer)
    author: Mapped[str] = mapped_column(String(200))
    text: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class StudyRow(Base):
    """A saved sweep or comparison; ``body`` is what the one who saved it made of the results, compressed."""

    __tablename__ = "studies"
    __table_args__ = (Index(None, "project_id", "archived_at", "created_at"),)

    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True)
    project_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("projects.id"))
    kind: Mapped[str] = mapped_column(String(20))
    name: Mapped[str] = mapped_column(String(200))
    author: Mapped[str] = mapped_column(String(200))
    spec: Mapped[str] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    engine_version: Mapped[str] = mapped_column(String(100))
    catalog_digest: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    archived_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class LinkRow(Base):
    """A share link: to one version of a scenario, to its newest (``number`` is null), or to a study."""

    __tablename__ = "links"

    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True)
    token: Mapped[str] = mapped_column(String(64), unique=True)
    scenario_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("scenarios.id"), index=True)
    number: Mapped[int | None] = mapped_column(Integer)
    study_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("studies.id"), index=True)
    author: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class ResultRow(Base):
    """What one engine with one catalog answered to one scenario; ``body`` is the whole Result, zlib JSON."""

    __tablename__ = "results"

    scenario_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    engine_version: Mapped[str] = mapped_column(String(100), primary_key=True)
    catalog_digest: Mapped[str] = mapped_column(String(100), primary_key=True)
    headline: Mapped[str] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class SettingRow(Base):
    """What the store itself remembers, for example which examples were installed."""

    __tablename__ = "settings"

    key: Mapped[str] = mapped_column(String(100), primary_key=True)
    value: Mapped[str] = mapped_column(Text)
