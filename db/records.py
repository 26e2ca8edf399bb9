"""What the store hands out, and how rows become it."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from db.errors import InputError, UnreadableError
from db.models import ResultRow, ScenarioRow
from planner.fields import faults
from planner.result import Headline, Result
from planner.scenario import Scenario

SCENARIO_BYTES = 4_000_000
RESULT_BYTES = 256_000_000


@dataclass(frozen=True)
class SavedSummary:
    """One line of the library. ``scenario`` is None where this version cannot read it; ``problem`` says why.

    ``headline`` is the newest result's, by whichever engine and catalog computed it; None where there is none.
    """

    id: str
    token: str
    name: str
    note: str
    model_id: str
    system_id: str
    policy_id: str
    scenario_hash: str
    version: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    scenario: Scenario | None
    problem: str | None = None
    headline: Headline | None = None
    headline_engine_version: str | None = None
    headline_catalog_digest: str | None = None


@dataclass(frozen=True)
class Saved(SavedSummary):
    """A saved scenario that can be opened; ``version`` goes up by one at every save.

    ``scenario_hash`` is the hash that it was saved under, which results of that time are keyed by.
    """

    scenario: Scenario


def summary_of(row: ScenarioRow, newest: ResultRow | None = None) -> SavedSummary:
    """The row as a line of the library, a :class:`Saved` where it can be read. Never raises for bad content."""
    scenario, problem = read_scenario(row.scenario)
    common: dict[str, Any] = {
        "id": str(row.id),
        "token": row.token,
        "name": row.name,
        "note": row.note,
        "model_id": row.model_id,
        "system_id": row.system_id,
        "policy_id": row.policy_id,
        "scenario_hash": row.scenario_hash,
        "version": row.version,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "deleted_at": row.deleted_at,
    }
    headline = _headline(newest)
    if headline is not None and newest is not None:
        common |= {
            "headline": headline,
            "headline_engine_version": newest.engine_version,
            "headline_catalog_digest": newest.catalog_digest,
        }
    if scenario is None:
        return SavedSummary(**common, scenario=None, problem=problem)
    return Saved(**common, scenario=scenario)


def saved_of(row: ScenarioRow) -> Saved:
    """The row as a :class:`Saved`; raises :class:`UnreadableError` with the reason."""
    summary = summary_of(row)
    if not isinstance(summary, Saved):
        raise UnreadableError(f'The saved scenario "{row.name}" cannot be opened: {summary.problem}')
    return summary


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
    except (ValueError, RecursionError) as error:
        raise InputError(f"The scenario cannot be stored: {' '.join(str(error).split())[:120]}.") from error
    if len(text) > SCENARIO_BYTES:
        raise InputError(
            f"The scenario has {len(text) / 1e6:.1f} MB with its pasted config; up to {SCENARIO_BYTES / 1e6:.0f} MB "
            "are accepted."
        )
    return text


def pack_result(result: Result) -> bytes:
    return zlib.compress(result.model_dump_json().encode(), 6)


def unpack_result(body: bytes) -> Result | None:
    """The stored result, or None where it is damaged or of another schema: it can be computed again."""
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(body, RESULT_BYTES)
        return Result.model_validate_json(text) if unpacker.eof else None
    except (zlib.error, ValueError):
        return None


def _headline(row: ResultRow | None) -> Headline | None:
    if row is None:
        return None
    try:
        return Headline.model_validate_json(row.headline)
    except ValueError:
        return None


def _first_problem(error: ValidationError) -> str:
    """One sentence; a newer schema explains all the other faults, so it goes before them."""
    found = faults(error)
    return next((fault.sentence for fault in found if fault.path == "schema_version"), found[0].sentence)
