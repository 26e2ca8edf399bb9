"""What differs between scenarios, and between their results: for a history, a comparison, a report.

Pure: scenarios and results in, rows out. A row holds one value for each thing compared, in the order given, so that
two versions and four columns of a comparison are the same table. A missing value is None, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.result import Headline, Interval
from planner.scenario import Scenario
from planner.words import labels
from planner.words.names import HEADLINE

MISSING = object()
"""stands in :func:`flat` lookups for "this scenario has no such entry"; rows say None"""
_DISPLAY_ONLY = ("workload.preset", "schema_version")
# Entries of these fields are compared one by one.
_OPEN = ("system.overrides", "policy.options", "model.config")
#: Headline figures of which more is better; of the others less is.
MORE_IS_BETTER = ("tokens_per_s_user", "tokens_per_s_system", "tokens_per_s_end_to_end", "prefill_tokens_per_s")


@dataclass(frozen=True)
class FieldRow:
    """A field that is not the same in all: ``values[i]`` belongs to the i-th scenario, None where it is empty."""

    path: str
    label: str
    unit: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class FigureRow:
    """A headline figure of each result; ``ratios[i]`` is ``values[i]`` over the first value.

    A ratio is None where either value is missing or the first one is zero. ``intervals`` are the results' own ranges.
    """

    name: str
    label: str
    unit: str
    values: tuple[float | None, ...]
    ratios: tuple[float | None, ...]
    intervals: tuple[Interval | None, ...]
    more_is_better: bool

    @property
    def differs(self) -> bool:
        """Whether the values are not all the same."""
        return any(value != self.values[0] for value in self.values)


@dataclass(frozen=True)
class Difference:
    """Inputs that differ, and every headline figure side by side."""

    fields: tuple[FieldRow, ...]
    figures: tuple[FigureRow, ...]


def difference(scenarios: Sequence[Scenario], headlines: Sequence[Headline | None] = ()) -> Difference:
    """Inputs and figures of *scenarios* side by side; *headlines* (None = not computed) are in the same order."""
    if headlines and len(headlines) != len(scenarios):
        raise ValueError(f"{len(scenarios)} scenarios have {len(headlines)} headlines")
    return Difference(differing_fields(scenarios), figures(headlines) if headlines else ())


def differing_fields(scenarios: Sequence[Scenario]) -> tuple[FieldRow, ...]:
    """The fields that are not the same in all scenarios, in the order of the schema."""
    flats = [flat(scenario) for scenario in scenarios]
    found = {}
    for path in dict.fromkeys(path for each in flats for path in each):
        values = [each.get(path, MISSING) for each in flats]
        if any(not _same(value, values[0]) for value in values):
            found[path] = tuple(None if value is MISSING else value for value in values)
    return tuple(FieldRow(path, *named(path), found[path]) for path in sorted(found, key=_order))


def changed_paths(before: Scenario, after: Scenario) -> tuple[str, ...]:
    """Paths of the fields that differ, as a version keeps them."""
    return tuple(row.path for row in differing_fields((before, after)))


def figures(headlines: Sequence[Headline | None]) -> tuple[FigureRow, ...]:
    """Every headline figure that at least one of the results has, side by side."""
    rows = []
    for name, (label, unit) in HEADLINE.items():
        values = tuple(None if head is None else getattr(head, name) for head in headlines)
        if all(value is None for value in values):
            continue
        ranges = tuple(None if head is None else (head.intervals or {}).get(name) for head in headlines)
        rows.append(
            FigureRow(
                name=name,
                label=label,
                unit=unit,
                values=values,
                ratios=tuple(_ratio(value, values[0]) for value in values),
                intervals=ranges,
                more_is_better=name in MORE_IS_BETTER,
            )
        )
    return tuple(rows)


def flat(scenario: Scenario) -> dict[str, Any]:
    """Path -> value of every field that may change a result; open objects entry by entry."""
    found: dict[str, Any] = {}
    for section, part in scenario.model_dump(mode="json").items():
        if section in _DISPLAY_ONLY:
            continue
        for name, value in part.items():
            path = f"{section}.{name}"
            if path in _OPEN:
                found |= {f"{path}.{entry}": each for entry, each in (value or {}).items()}
            elif path not in _DISPLAY_ONLY:
                found[path] = value
    return found


def named(path: str) -> tuple[str, str]:
    """Label and unit of a field or of an entry of an open object."""
    for opened in _OPEN:
        entry = path.removeprefix(f"{opened}.")
        if entry == path:
            continue
        if opened == "system.overrides":
            from hardware.catalog import path_by_name

            spec = path_by_name().get(entry)
            return (spec.label, spec.unit) if spec is not None else (_plain(entry), "")
        if opened == "model.config":
            return f"Config: {entry}", ""
        return _plain(entry.replace("_", " ")), ""
    return labels.label(path), labels.unit(path)


def _plain(entry: str) -> str:
    return entry.strip() or "an entry without a name"


def _order(path: str) -> tuple[int, str]:
    for place, known in enumerate(_places()):
        if path == known or (known in _OPEN and path.startswith(f"{known}.")):
            return place, path
    return len(_places()), path


def _places() -> tuple[str, ...]:
    from planner.fields.table import fields

    return tuple(fields())


def _same(one: Any, other: Any) -> bool:
    # 1, 1.0 and True are equal for Python, and three inputs for a policy.
    return type(one) is type(other) and bool(one == other)


def _ratio(value: float | None, first: float | None) -> float | None:
    return None if value is None or not first else value / first
