"""The tables, one SQLAlchemy schema for SQLite and PostgreSQL.

A scenario and a result are kept as text exactly as the engine wrote them, not as JSONB: PostgreSQL's JSONB
refuses ``\\u0000``, NaN and half surrogates that a pasted config may hold, and the content hash is over text.

Later tables are additions: versions of a scenario reference ``scenarios.id`` and start as one copy of each row
here; links to one version start as one row for each token here.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Index, Integer, LargeBinary, MetaData, String, Text, TypeDecorator, Uuid
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


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


class ScenarioRow(Base):
    """A saved scenario: its name and link, and the newest content."""

    __tablename__ = "scenarios"
    __table_args__ = (Index(None, "deleted_at", "updated_at"),)

    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True)
    token: Mapped[str] = mapped_column(String(64), unique=True)
    version: Mapped[int] = mapped_column(Integer)
    name: Mapped[str] = mapped_column(String(200))
    note: Mapped[str] = mapped_column(Text)
    scenario: Mapped[str] = mapped_column(Text)
    scenario_hash: Mapped[str] = mapped_column(String(64), index=True)
    model_id: Mapped[str] = mapped_column(String(200))
    system_id: Mapped[str] = mapped_column(String(200))
    policy_id: Mapped[str] = mapped_column(String(200))
    search_text: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


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
