"""Scenarios, results and settings.

Revision: 0001
Revises: nothing
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
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
    op.create_table(
        "results",
        sa.Column("scenario_hash", sa.String(64), nullable=False),
        sa.Column("engine_version", sa.String(100), nullable=False),
        sa.Column("catalog_digest", sa.String(100), nullable=False),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("scenario_hash", "engine_version", "catalog_digest", name="pk_results"),
    )
    op.create_table(
        "settings",
        sa.Column("key", sa.String(100), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_settings"),
    )


def downgrade() -> None:
    op.drop_table("settings")
    op.drop_table("results")
    op.drop_table("scenarios")
