"""What the store hands out. Frozen, plain, and free of the database."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from planner.result import Headline
from planner.scenario import Scenario


@dataclass(frozen=True)
class Project:
    """A group of scenarios and studies; ``scenarios`` counts those that are not archived."""

    id: str
    name: str
    note: str
    author: str
    created_at: datetime
    archived_at: datetime | None
    scenarios: int = 0


@dataclass(frozen=True)
class SavedSummary:
    """One line of the library: the newest version, without its body.

    ``author`` saved the first version, ``changed_by`` this one; ``version`` is its number and how many there are.
    ``changed`` are the paths of the fields that this version changed. ``headline`` is the newest result's, by
    whichever engine and catalog computed it; None where there is none.
    """

    id: str
    project_id: str
    name: str
    note: str
    tags: tuple[str, ...]
    author: str
    changed_by: str
    changed: tuple[str, ...]
    model_id: str
    system_id: str
    policy_id: str
    batch: int | None
    prompt_tokens: int | None
    output_tokens: int | None
    scenario_hash: str
    version: int
    version_id: str
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None
    headline: Headline | None = field(default=None, kw_only=True)
    headline_engine_version: str | None = field(default=None, kw_only=True)
    headline_catalog_digest: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Version:
    """One line of a scenario's history; never changes.

    The parent is the version that this one was saved from. It is not ``number - 1`` where two people saved at once
    (their versions are siblings), and it is of another scenario (``parent_scenario_id``) at the start of a fork.
    ``restored`` is the number of the older version that this one brought back. Empty ``engine_version`` and
    ``catalog_digest``: saved before versions were kept.
    """

    id: str
    scenario_id: str
    number: int
    parent_id: str | None
    parent_scenario_id: str | None
    parent_number: int | None
    restored: int | None
    author: str
    created_at: datetime
    engine_version: str
    catalog_digest: str
    name: str
    note: str
    tags: tuple[str, ...]
    changed: tuple[str, ...]
    scenario_hash: str
    headline: Headline | None = None


@dataclass(frozen=True)
class Saved(SavedSummary):
    """A saved scenario that can be opened, at one version: ``version``, of ``newest`` in all.

    ``scenario_hash`` is the hash that it was saved under, which results of that time are keyed by. ``beside``, after
    a save, are the versions that other people saved since the one that it started from: nothing of them is lost.
    """

    scenario: Scenario
    newest: int
    beside: tuple[Version, ...] = field(default=(), compare=False)

    @property
    def summary(self) -> SavedSummary:
        """This version as a line of the library."""
        return SavedSummary(**{each.name: getattr(self, each.name) for each in fields(SavedSummary)})


@dataclass(frozen=True)
class Comment:
    """What a person wrote about a scenario, or about version ``number`` of it."""

    id: str
    scenario_id: str
    number: int | None
    author: str
    text: str
    created_at: datetime


@dataclass(frozen=True)
class Link:
    """A share link: to one version of a scenario, to its newest (``number`` is None), or to a study."""

    id: str
    token: str
    scenario_id: str | None
    number: int | None
    study_id: str | None
    author: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True)
class StudySummary:
    """A saved sweep or comparison without its body."""

    id: str
    project_id: str
    kind: str
    name: str
    author: str
    spec: dict[str, Any]
    engine_version: str
    catalog_digest: str
    created_at: datetime
    archived_at: datetime | None
    body_bytes: int


@dataclass(frozen=True)
class Study(StudySummary):
    """A saved sweep or comparison with what was kept of its results."""

    body: bytes
