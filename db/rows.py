"""How scenarios and results become rows; the other way is db/records.py."""

from __future__ import annotations

import secrets
import uuid
from datetime import UTC, datetime

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.errors import InputError
from db.models import Base, ResultRow, ScenarioRow, SettingRow
from db.records import pack_result, scenario_text
from db.text import clean_name, clean_note, fold, visible
from planner.result import Result
from planner.scenario import Scenario

TOKEN_BYTES = 24  # 192 random bits, as 32 characters


def new_scenario(scenario: Scenario, name: str, note: str) -> ScenarioRow:
    """A row with a fresh id and share token. Raises :class:`InputError`."""
    now = datetime.now(UTC)
    row = ScenarioRow(id=uuid.uuid4(), token=secrets.token_urlsafe(TOKEN_BYTES), version=1)
    row.name, row.note, row.created_at, row.updated_at = clean_name(name), clean_note(note), now, now
    set_scenario(row, scenario)
    set_search(row)
    return row


def set_scenario(row: ScenarioRow, scenario: Scenario) -> None:
    row.scenario = scenario_text(scenario)
    row.scenario_hash = scenario.content_hash()
    row.model_id = visible(scenario.model.id)
    row.system_id = visible(scenario.system.id)
    row.policy_id = visible(scenario.policy.id)


def set_search(row: ScenarioRow) -> None:
    row.search_text = fold("\n".join((row.name, row.note, row.model_id, row.system_id, row.policy_id)))


def check_belongs(result: Result | None, scenario: Scenario) -> None:
    """A result may only be kept under the scenario that it answers."""
    if result is not None and result.scenario_hash != scenario.content_hash():
        raise InputError("This result belongs to another scenario; compute the plan again, then save.")


def put_result(session: Session, result: Result) -> None:
    """Insert or replace: computed twice by one engine it is the same, and the newer one is the better known."""
    values = {
        "scenario_hash": result.scenario_hash,
        "engine_version": result.engine_version,
        "catalog_digest": result.catalog_digest,
        "headline": result.headline.model_dump_json(),
        "body": pack_result(result),
        "created_at": datetime.now(UTC),
    }
    key = ("scenario_hash", "engine_version", "catalog_digest")
    insert = _insert(session, ResultRow).values(values)
    changed = {name: insert.excluded[name] for name in values if name not in key}
    session.execute(insert.on_conflict_do_update(index_elements=key, set_=changed))


def remember(session: Session, key: str) -> bool:
    """Write a setting; False when it was there, also when another process writes it at this moment."""
    insert = _insert(session, SettingRow).values(key=key, value=datetime.now(UTC).isoformat())
    return session.execute(insert.on_conflict_do_nothing().returning(SettingRow.key)).first() is not None


def _insert(session: Session, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    # ON CONFLICT is spelled alike in both, but SQLAlchemy has it in the dialects only.
    make = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    return make(table)
