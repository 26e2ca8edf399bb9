"""Calibrations: coefficients fitted on measured runs, by family of the serving engine.

A calibration is data: for each engine family, and for the generic one that stands for unknown engines, figures of the
hardware catalog (efficiencies, fixed times, copy limits) with what they were fitted on. It takes the place of the
catalog's defaults; what a paper system states and what a person sets win over it. The shipped one is a file of the
engine; a person's own lies in ``calibrations/`` of the data directory and is named by the digest of its content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hardware import Figure, path_schema
from planner.errors import PlanError, unknown
from planner.figure_bounds import check_figure
from planner.keeper import Keeper

SHIPPED = Path(__file__).parent / "data" / "calibration.json"
GENERIC = "generic"
LARGEST_BYTES = 4_000_000

Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Coefficient(_Record):
    """One fitted figure with the range that its groups of runs span."""

    value: Finite
    low: Finite
    high: Finite
    rows: int = Field(ge=0, description="measured runs that it was fitted on")
    groups: int = Field(ge=0, description="machines or experiments that these came from")


class Calibration(_Record):
    """Coefficients by engine family: family -> figure path -> coefficient."""

    schema_version: Literal[1] = 1
    name: str = Field(max_length=120)
    engine_version: str = Field(max_length=40, description="version of the code that it was fitted with")
    fitted_on: str = Field(max_length=2000)
    date: str = Field(max_length=40)
    families: dict[str, dict[str, Coefficient]]
    residuals: list[dict[str, float | int | str | None]] = Field(
        default_factory=list, description="by cell: rows, median, p75, p90 of the absolute error, held out"
    )

    def figures(self, engine: str | None) -> dict[str, Figure]:
        """Figures of one engine family, the generic ones where it has none of its own."""
        chosen = {**self.families.get(GENERIC, {}), **self.families.get(engine or GENERIC, {})}
        units = {spec.path: spec.unit for spec in path_schema()}
        found = {}
        for path, c in sorted(chosen.items()):
            family = engine if engine and path in self.families.get(engine, {}) else GENERIC
            source = f"calibration {self.name!r}, {family}: fitted on {c.rows} runs of {c.groups} groups"
            found[path] = Figure(c.value, units[path], c.low, c.high, source, self.date, "fitted")
        return found

    def text(self) -> str:
        return self.model_dump_json(indent=1) + "\n"

    @property
    def digest(self) -> str:
        """SHA-256 of the content, hexadecimal."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def parse(text: str | bytes, where: str) -> Calibration:
    """A calibration from JSON. Raises PlanError, one sentence."""
    if len(text) > LARGEST_BYTES:
        raise PlanError(f"{where} has {len(text):,} bytes; a calibration may have up to {LARGEST_BYTES:,}.")
    try:
        found = Calibration.model_validate_json(text)
    except (ValidationError, ValueError, RecursionError) as error:
        detail = error.errors(include_url=False)[0] if isinstance(error, ValidationError) else None
        at = ".".join(str(part) for part in detail["loc"]) if detail else ""
        why = str(detail["msg"]) if detail else "not JSON"
        raise PlanError(f"{where} is not a calibration: {at + ': ' if at else ''}{why[:200]}.") from None
    for family, figures in found.families.items():
        for path, c in figures.items():
            check_figure(f"{where}, {family}", path, c.value, c.low, c.high)
    return found


@lru_cache(maxsize=1)
def shipped() -> Calibration:
    """The calibration that comes with this version."""
    return parse(SHIPPED.read_bytes(), SHIPPED.name)


_CALIBRATIONS = Keeper[Calibration](
    folder="calibrations",
    suffix=".json",
    plural="calibrations",
    subject="system.calibration",
    option="system.calibration",
    accepted="the 64 hexadecimal digits of a kept calibration's digest, which calibrate prints, or nothing for the "
    "shipped one",
    again="make it again from its runs (calibrate)",
    largest_bytes=LARGEST_BYTES,
    read=lambda data: parse(data, "the kept file"),
    write=lambda calibration: calibration.text().encode(),
    digest=lambda calibration: calibration.digest,
)
directory, register, known = _CALIBRATIONS.directory, _CALIBRATIONS.register, _CALIBRATIONS.sound


def get(name: str | None) -> Calibration:
    """The shipped calibration for None, else the kept one with this digest. Raises PlanError."""
    return shipped() if name is None else _CALIBRATIONS.get(name)


def engines() -> tuple[str, ...]:
    """Engine families that the shipped calibration knows, the generic one left out."""
    return tuple(sorted(f for f in shipped().families if f != GENERIC))


def families(name: str | None) -> tuple[str, ...]:
    """Engine families that a scenario with this calibration can name; those of the shipped one where it is not here."""
    try:
        own = get(name).families
    except PlanError:
        own = {}
    return tuple(sorted({*engines(), *own} - {GENERIC}))


def calibrated_figures(name: str | None, engine: str | None) -> Mapping[str, Figure]:
    """Figures of a scenario's calibration and engine family. Raises PlanError for an unknown one."""
    chosen = get(name)
    families = sorted({*shipped().families, *chosen.families})
    if engine is not None and engine not in families:
        raise PlanError(unknown("policy.engine", engine, families))
    return figures_of(chosen.digest if name else "", name, engine)


@lru_cache(maxsize=256)
def figures_of(_digest: str, name: str | None, engine: str | None) -> Mapping[str, Figure]:
    """Figures of a calibration, read once per content."""
    chosen = get(name)
    if name is None:
        return chosen.figures(engine)
    return {**shipped().figures(engine), **chosen.figures(engine)}
