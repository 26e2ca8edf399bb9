"""The published claims as data: what was published, where, and the expressions that predict it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from validation.published.records import Value, Verdict

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Prediction:
    """A setting in words and the expression that is evaluated for it."""

    setting: str
    expression: Any  # None: nothing is predicted
    published: Value | None


@dataclass(frozen=True)
class Claim:
    id: str
    paper: str
    quantity: str
    text: str
    model: str
    baseline: str
    unit: str
    published: Value | None
    certainty: str
    source: str
    note: str
    main: Prediction
    alternatives: tuple[Prediction, ...]
    verdict: Verdict | None  # where it does not follow from the error
    short: str  # what decides, in one short sentence
    arithmetic: str


@dataclass(frozen=True)
class Contradiction:
    """Something that sources say against each other, or that arithmetic says against them."""

    text: str
    claims: tuple[str, ...]


def _value(given: Any) -> Value | None:
    if given is None:
        return None
    return (float(given[0]), float(given[1])) if isinstance(given, list) else float(given)


def _claim(row: dict[str, Any]) -> Claim:
    published = _value(row["published"])
    return Claim(
        id=row["id"],
        paper=row["paper"],
        quantity=row["quantity"],
        text=row["text"],
        model=row["model"],
        baseline=row["baseline"],
        unit=row["unit"],
        published=published,
        certainty=row["certainty"],
        source=row["source"],
        note=row["note"],
        main=Prediction(row["setting"], row.get("predict"), published),
        alternatives=tuple(
            Prediction(a["setting"], a["predict"], _value(a["published"]) if "published" in a else published)
            for a in row["alternatives"]
        ),
        verdict=row.get("verdict"),
        short=row["short"],
        arithmetic=row["arithmetic"],
    )


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in their published order."""
    rows = json.loads((FOLDER / "claims.json").read_text(encoding="utf-8"))
    return tuple(_claim(row) for row in rows)


def claim(name: str) -> Claim:
    """The claim of that id. Raises KeyError for an unknown one."""
    return {c.id: c for c in claims()}[name]


@cache
def contradictions() -> tuple[Contradiction, ...]:
    rows = json.loads((FOLDER / "contradictions.json").read_text(encoding="utf-8"))
    return tuple(Contradiction(row["text"], tuple(row["claims"])) for row in rows)
