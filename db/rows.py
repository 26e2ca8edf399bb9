"""How scenarios and results become rows, and rows become what the store hands out."""

from __future__ import annotations

import json
import uuid
import zlib
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.errors import InputError, UnreadableError
from db.models import Base, ResultRow, ScenarioRow, SettingRow, VersionRow
from db.records import Saved, SavedSummary, Version
from db.text import fold, visible
from planner.fields import ScenarioError, faults
from planner.fields.tree import check_tree
from planner.result import Headline, Result
from planner.scenario import Scenario

SCENARIO_BYTES = 4_000_000
RESULT_BYTES = 256_000_000


def set_head(row: ScenarioRow, version: VersionRow, scenario: Scenario | None) -> None:
    """Make *version* what a line of the library shows; *scenario* is None for one that cannot be read."""
    row.version, row.version_id, row.changed_by = version.number, version.id, version.author
    row.name, row.note, row.tags, row.changed = version.name, version.note, version.tags, version.changed
    row.scenario_hash, row.updated_at = version.scenario_hash, version.created_at
    if scenario is not None:
        row.model_id = visible(scenario.model.id)
        row.system_id = visible(scenario.system.id)
        row.policy_id = visible(scenario.policy.id)
        work = scenario.workload
        row.batch, row.prompt_tokens, row.output_tokens = work.batch, work.prompt_tokens, work.output_tokens
    set_search(row)


def set_search(row: ScenarioRow) -> None:
    """What a search compares: everything that a line shows in words."""
    words = (row.name, row.note, *json.loads(row.tags), row.author, row.changed_by)
    row.search_text = fold("\n".join((*words, row.model_id, row.system_id, row.policy_id)))


def summary_fields(row: ScenarioRow, newest: ResultRow | None = None) -> dict[str, Any]:
    """The fields of :class:`SavedSummary`."""
    names = (
        "name", "note", "author", "changed_by", "model_id", "system_id", "policy_id", "batch", "prompt_tokens",
        "output_tokens", "scenario_hash", "version", "created_at", "updated_at", "archived_at",
    )  # fmt: skip
    found: dict[str, Any] = {name: getattr(row, name) for name in names}
    found |= {"id": str(row.id), "project_id": str(row.project_id), "version_id": str(row.version_id)}
    found |= {"tags": tuple(json.loads(row.tags)), "changed": tuple(json.loads(row.changed))}
    headline = headline_of(newest)
    if headline is not None and newest is not None:
        found |= {
            "headline": headline,
            "headline_engine_version": newest.engine_version,
            "headline_catalog_digest": newest.catalog_digest,
        }
    return found


def summary_of(row: ScenarioRow, newest: ResultRow | None = None) -> SavedSummary:
    """The row as a line of the library."""
    return SavedSummary(**summary_fields(row, newest))


def saved_of(row: ScenarioRow, version: VersionRow, beside: tuple[Version, ...] = ()) -> Saved:
    """A version of a scenario, ready to be opened; raises :class:`UnreadableError` with the reason."""
    scenario, problem = read_scenario(version.scenario)
    if scenario is None:
        raise UnreadableError(f'The saved scenario "{version.name}" cannot be opened: {problem}')
    work = scenario.workload
    return Saved(
        **{
            **summary_fields(row),
            "name": version.name, "note": version.note, "tags": tuple(json.loads(version.tags)),
            "changed": tuple(json.loads(version.changed)), "changed_by": version.author,
            "scenario_hash": version.scenario_hash, "version": version.number, "version_id": str(version.id),
            "updated_at": version.created_at, "model_id": visible(scenario.model.id),
            "system_id": visible(scenario.system.id), "policy_id": visible(scenario.policy.id),
            "batch": work.batch, "prompt_tokens": work.prompt_tokens, "output_tokens": work.output_tokens,
        },
        scenario=scenario,
        newest=row.version,
        beside=beside,
    )  # fmt: skip


def version_of(
    row: VersionRow, parent: tuple[uuid.UUID, int] | None = None, newest: ResultRow | None = None
) -> Version:
    """The row as a line of a history; *parent* is its scenario and number."""
    names = (
        "number", "restored", "author", "created_at", "engine_version", "catalog_digest", "name", "note",
        "scenario_hash",
    )  # fmt: skip
    return Version(
        id=str(row.id),
        scenario_id=str(row.scenario_id),
        parent_id=None if row.parent_id is None else str(row.parent_id),
        parent_scenario_id=None if parent is None else str(parent[0]),
        parent_number=None if parent is None else parent[1],
        tags=tuple(json.loads(row.tags)),
        changed=tuple(json.loads(row.changed)),
        headline=headline_of(newest),
        **{name: getattr(row, name) for name in names},
    )


def read_scenario(text: str) -> tuple[Scenario | None, str | None]:
    """The stored text as a scenario, or None and a sentence."""
    try:
        return Scenario.model_validate(json.loads(text)), None
    except ValidationError as error:
        return None, _first_problem(error)
    except (ValueError, RecursionError):
        return None, "its stored text is damaged."


def scenario_text(scenario: Scenario) -> str:
    """What is stored of a scenario; raises :class:`InputError` for one that no text can hold."""
    try:
        text = scenario.canonical_json()
        check_tree(json.loads(text), "the scenario")
    except ScenarioError as error:
        raise InputError(f"{error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"The scenario cannot be stored: {' '.join(str(error).split())[:120]}.") from error
    if len(text) > SCENARIO_BYTES:
        raise InputError(
            f"The scenario has {len(text) / 1e6:.1f} MB with its pasted config; up to {SCENARIO_BYTES / 1e6:.0f} MB "
            "are accepted."
        )
    return text


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
        "body": zlib.compress(result.model_dump_json().encode(), 6),
        "created_at": datetime.now(UTC),
    }
    key = ("scenario_hash", "engine_version", "catalog_digest")
    insert = _insert(session, ResultRow).values(values)
    changed = {name: insert.excluded[name] for name in values if name not in key}
    session.execute(insert.on_conflict_do_update(index_elements=key, set_=changed))


def unpack_result(body: bytes) -> Result | None:
    """The stored result, or None where it is damaged or of another schema: it can be computed again."""
    try:
        text = inflate(body, RESULT_BYTES)
        return None if text is None else Result.model_validate_json(text)
    except ValueError:
        return None


def inflate(body: bytes, most_bytes: int) -> bytes | None:
    """What :func:`zlib.compress` made of up to *most_bytes*; None for anything else."""
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(body, most_bytes)
        return text if unpacker.eof else None
    except zlib.error:
        return None


def headline_of(row: ResultRow | None) -> Headline | None:
    """The stored headline; None where there is none, or it is of another schema."""
    try:
        return None if row is None else Headline.model_validate_json(row.headline)
    except ValueError:
        return None


def remember(session: Session, key: str) -> bool:
    """Write a setting; False when it was there, also when another process writes it at this moment."""
    insert = _insert(session, SettingRow).values(key=key, value=datetime.now(UTC).isoformat())
    return session.execute(insert.on_conflict_do_nothing().returning(SettingRow.key)).first() is not None


def stamp(result: Result | None) -> tuple[str, str]:
    """Engine version and catalog digest that a version is saved with: the result's, else today's."""
    if result is not None:
        return result.engine_version, result.catalog_digest
    from planner import ENGINE_VERSION
    from planner.stamp import catalog_digest

    return ENGINE_VERSION, catalog_digest()


def _insert(session: Session, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    # ON CONFLICT is spelled alike in both, but SQLAlchemy has it in the dialects only.
    make = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    return make(table)


def _first_problem(error: ValidationError) -> str:
    """One sentence; a newer schema explains all the other faults, so it goes before them."""
    found = faults(error)
    return next((fault.sentence for fault in found if fault.path == "schema_version"), found[0].sentence)
