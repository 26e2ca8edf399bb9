"""Projects, versions, comments, links and studies.

Every scenario becomes version 1 of itself in the project "My scenarios", every share token one link to the newest
version.

Revision: 0002
Revises: 0001
"""

from __future__ import annotations

import json
import secrets
import uuid
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: None = None
depends_on: None = None

_PROJECT = uuid.UUID(int=1)
_OLD = sa.table(
    "carried",
    *(sa.column(name, sa.Uuid()) for name in ("id",)),
    *(
        sa.column(name, sa.Text())
        for name in (
            "token", "name", "note", "scenario", "scenario_hash", "model_id", "system_id", "policy_id", "search_text",
        )
    ),
    *(sa.column(name, sa.DateTime(timezone=True)) for name in ("created_at", "updated_at", "deleted_at")),
)  # fmt: skip


def upgrade() -> None:
    connection = op.get_bind()
    # Not ALTER TABLE: SQLite would rebuild the table anyway, and cannot drop a unique column.
    op.execute("CREATE TABLE carried AS SELECT * FROM scenarios")
    op.drop_table("scenarios")
    tables = _create()
    now = datetime.now(UTC)
    connection.execute(
        tables["projects"].insert(),
        {"id": _PROJECT, "name": "My scenarios", "note": "", "author": "", "created_at": _moment(now)},
    )
    for id in connection.execute(sa.select(_OLD.c.id)).scalars().all():
        _carry(connection, tables, dict(connection.execute(sa.select(_OLD).where(_OLD.c.id == id)).mappings().one()))
    op.drop_table("carried")


def _carry(connection: sa.Connection, tables: dict[str, sa.Table], old: dict[str, Any]) -> None:
    version = uuid.uuid4()
    shared = {name: old[name] for name in ("name", "note", "scenario_hash")}
    shared |= {"tags": "[]", "changed": "[]", "author": ""}
    ids = {name: old[name] for name in ("model_id", "system_id", "policy_id", "search_text", "created_at")}
    connection.execute(
        tables["scenarios"].insert(),
        {
            **shared, **ids, **_workload(old["scenario"]), "id": old["id"], "project_id": _PROJECT, "version": 1,
            "version_id": version, "changed_by": "", "updated_at": old["updated_at"], "archived_at": old["deleted_at"],
        },
    )  # fmt: skip
    connection.execute(
        tables["versions"].insert(),
        {
            **shared, "id": version, "scenario_id": old["id"], "number": 1, "created_at": old["updated_at"],
            "engine_version": "", "catalog_digest": "", "scenario": old["scenario"],
        },
    )  # fmt: skip
    connection.execute(
        tables["links"].insert(),
        {
            "id": uuid.uuid4(), "token": old["token"], "scenario_id": old["id"], "author": "",
            "created_at": old["created_at"],
        },
    )  # fmt: skip


def _workload(text: str) -> dict[str, int | None]:
    """What a line of the library says of the workload; a scenario that cannot be read is carried over all the same."""
    try:
        given = json.loads(text).get("workload", {})
        found = {"batch": 32, "prompt_tokens": 1024, "output_tokens": 256, **given}  # defaults of schema 1
        return {name: int(found[name]) % 2**31 for name in ("batch", "prompt_tokens", "output_tokens")}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return dict.fromkeys(("batch", "prompt_tokens", "output_tokens"))


def _moment(at: datetime) -> datetime:
    return at.replace(tzinfo=None) if op.get_bind().dialect.name == "sqlite" else at


def _create() -> dict[str, sa.Table]:
    projects = op.create_table(
        "projects",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("author", sa.String(200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
    )
    scenarios = op.create_table(
        "scenarios",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("version_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("author", sa.String(200), nullable=False),
        sa.Column("changed_by", sa.String(200), nullable=False),
        sa.Column("changed", sa.Text(), nullable=False),
        sa.Column("scenario_hash", sa.String(64), nullable=False),
        sa.Column("model_id", sa.String(200), nullable=False),
        sa.Column("system_id", sa.String(200), nullable=False),
        sa.Column("policy_id", sa.String(200), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("search_text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_scenarios"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_scenarios_project_id"),
    )
    op.create_index("ix_scenarios_scenario_hash", "scenarios", ["scenario_hash"])
    op.create_index("ix_scenarios_archived_at_updated_at", "scenarios", ["archived_at", "updated_at"])
    op.create_index(
        "ix_scenarios_project_id_archived_at_updated_at", "scenarios", ["project_id", "archived_at", "updated_at"]
    )
    versions = op.create_table(
        "versions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("scenario_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.Uuid(), nullable=True),
        sa.Column("restored", sa.Integer(), nullable=True),
        sa.Column("author", sa.String(200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("engine_version", sa.String(100), nullable=False),
        sa.Column("catalog_digest", sa.String(100), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("changed", sa.Text(), nullable=False),
        sa.Column("scenario", sa.Text(), nullable=False),
        sa.Column("scenario_hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_versions"),
        sa.ForeignKeyConstraint(["scenario_id"], ["scenarios.id"], name="fk_versions_scenario_id"),
        sa.ForeignKeyConstraint(["parent_id"], ["versions.id"], name="fk_versions_parent_id"),
        sa.UniqueConstraint("scenario_id", "number", name="uq_versions_scenario_id_number"),
    )
    op.create_table(
        "comments",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("scenario_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("author", sa.String(200), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_comments"),
        sa.ForeignKeyConstraint(["scenario_id"], ["scenarios.id"], name="fk_comments_scenario_id"),
    )
    op.create_index("ix_comments_scenario_id_created_at", "comments", ["scenario_id", "created_at"])
    op.create_table(
        "studies",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("author", sa.String(200), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("engine_version", sa.String(100), nullable=False),
        sa.Column("catalog_digest", sa.String(100), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_studies_project_id"),
    )
    op.create_index(
        "ix_studies_project_id_archived_at_created_at", "studies", ["project_id", "archived_at", "created_at"]
    )
    links = op.create_table(
        "links",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("token", sa.String(64), nullable=False),
        sa.Column("scenario_id", sa.Uuid(), nullable=True),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("study_id", sa.Uuid(), nullable=True),
        sa.Column("author", sa.String(200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_links"),
        sa.UniqueConstraint("token", name="uq_links_token"),
        sa.ForeignKeyConstraint(["scenario_id"], ["scenarios.id"], name="fk_links_scenario_id"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name="fk_links_study_id"),
    )
    op.create_index("ix_links_scenario_id", "links", ["scenario_id"])
    op.create_index("ix_links_study_id", "links", ["study_id"])
    return {table.name: table for table in (projects, scenarios, versions, links)}


def downgrade() -> None:
    """Only the newest version of each scenario, and one link, have a place in the older schema."""
    connection = op.get_bind()
    op.execute(
        "CREATE TABLE carried AS SELECT s.id, s.version, s.name, s.note, v.scenario, s.scenario_hash, s.model_id, "
        "s.system_id, s.policy_id, s.search_text, s.created_at, s.updated_at, s.archived_at AS deleted_at, "
        "(SELECT min(l.token) FROM links l WHERE l.scenario_id = s.id AND l.revoked_at IS NULL AND l.number IS NULL) "
        "AS token FROM scenarios s JOIN versions v ON v.id = s.version_id"
    )
    for table in ("links", "studies", "comments", "versions", "scenarios", "projects"):
        op.drop_table(table)
    op.create_table(
        "scenarios",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("token", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("scenario", sa.Text(), nullable=False),
        sa.Column("scenario_hash", sa.String(64), nullable=False),
        sa.Column("model_id", sa.String(200), nullable=False),
        sa.Column("system_id", sa.String(200), nullable=False),
        sa.Column("policy_id", sa.String(200), nullable=False),
        sa.Column("search_text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_scenarios"),
        sa.UniqueConstraint("token", name="uq_scenarios_token"),
    )
    op.create_index("ix_scenarios_scenario_hash", "scenarios", ["scenario_hash"])
    op.create_index("ix_scenarios_deleted_at_updated_at", "scenarios", ["deleted_at", "updated_at"])
    for id in connection.execute(sa.select(_OLD.c.id).where(_OLD.c.token.is_(None))).scalars().all():
        fresh = secrets.token_urlsafe(24)
        connection.execute(_OLD.update().where(_OLD.c.id == id).values(token=fresh))
    names = (
        "id, token, version, name, note, scenario, scenario_hash, model_id, system_id, policy_id, search_text, "
        "created_at, updated_at, deleted_at"
    )
    op.execute(f"INSERT INTO scenarios ({names}) SELECT {names} FROM carried")
    op.drop_table("carried")
