"""What scenarios refer to by digest, inside an exported file: loss tables, time tables, calibrations, machines.

Each lies in the file under the digest of its content and is held against it before anything is kept; what is kept goes
into the data directory under that digest, so that nothing in a file can name a place. Traces are shipped with Tierline
and are named with their checksum.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from planner import calibration, loss_tables, measured_machines, time_tables
from planner.errors import PlanError
from planner.keeper import DIGEST
from planner.loss_table import BITS, MAX_EXPERTS, MAX_LAYERS, LossTable, Provenance
from planner.measured_machine import parse as parse_machine
from planner.routing.trace import traces
from planner.scenario import Scenario
from planner.time_table_io import digest as time_digest
from planner.time_table_io import parse_table, table_bytes

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_SHORT = 12


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LossPart(_Record):
    """A loss table: ``values`` is base64 of little-endian float64 [layers, experts, 4]."""

    layers: tuple[int, ...] = Field(min_length=1, max_length=MAX_LAYERS)
    experts: int = Field(ge=1, le=MAX_EXPERTS)
    values: str
    surrogate: bool = False
    provenance: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, table: LossTable) -> LossPart:
        """The part that holds a table."""
        raw = base64.b64encode(table.values.astype("<f8").tobytes()).decode()
        about = table.provenance.as_dict()
        return cls(layers=table.layers, experts=table.experts, values=raw, surrogate=table.surrogate, provenance=about)

    def table(self) -> LossTable:
        """The table. Raises PlanError (a LossTableError) or ValueError."""
        raw = base64.b64decode(self.values, validate=True)
        values = np.frombuffer(raw, "<f8").reshape(len(self.layers), self.experts, len(BITS))
        about = Provenance.from_dict(self.provenance, otherwise="not stated")
        return LossTable(self.layers, values, self.surrogate, about)


class Attachments(_Record):
    """Everything of a file by its digest; ``traces`` maps the id of a shipped trace to its checksum."""

    loss_tables: dict[Digest, LossPart] = Field(default_factory=dict)
    time_tables: dict[Digest, str] = Field(default_factory=dict)
    calibrations: dict[Digest, str] = Field(default_factory=dict)
    machines: dict[Digest, str] = Field(default_factory=dict)
    traces: dict[str, str] = Field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(part) for part in (self.loss_tables, self.time_tables, self.calibrations, self.machines))

    def check(self) -> None:
        """Hold everything against its digest. Raises PlanError, and keeps nothing."""
        for what, digest, open_part in self._parts():
            try:
                found = open_part()[0]
            except PlanError as error:
                raise PlanError(f"The {what} {digest[:_SHORT]}... of the file cannot be used: {error}") from None
            except (ValueError, TypeError, KeyError, binascii.Error, OverflowError):
                raise PlanError(f"The {what} {digest[:_SHORT]}... of the file is damaged.") from None
            if found != digest:
                raise PlanError(
                    f"The {what} {digest[:_SHORT]}... of the file is not what its digest says; nothing was imported."
                )
        here = {entry.id: entry.sha256 for entry in traces()}
        for name, checksum in self.traces.items():
            if here.get(name) != checksum:
                other = "has another content" if name in here else "is not shipped"
                raise PlanError(
                    f"The file rests on the trace {name[:100]!r}, which {other} in this version of Tierline; nothing "
                    "was imported."
                )

    def keep(self) -> None:
        """Keep everything on this machine; what is here already is left alone. Raises PlanError."""
        for _, _, open_part in self._parts():
            open_part()[1]()

    def _parts(self) -> Iterable[tuple[str, str, Callable[[], tuple[str, Callable[[], object]]]]]:
        for digest, part in self.loss_tables.items():
            yield "loss table", digest, lambda part=part: _loss(part)  # type: ignore[misc]
        for digest, text in self.time_tables.items():
            yield "time table", digest, lambda text=text: _time(text)  # type: ignore[misc]
        for digest, text in self.calibrations.items():
            yield "calibration", digest, lambda text=text: _calibration(text)  # type: ignore[misc]
        for digest, text in self.machines.items():
            yield "machine", digest, lambda text=text: _machine(text)  # type: ignore[misc]


def _loss(part: LossPart) -> tuple[str, Callable[[], object]]:
    table = part.table().require_falling()
    return table.digest, lambda: loss_tables.register(table)


def _time(text: str) -> tuple[str, Callable[[], object]]:
    table = parse_table(text.encode(), "time table")
    return time_digest(table), lambda: time_tables.register(table)


def _calibration(text: str) -> tuple[str, Callable[[], object]]:
    found = calibration.parse(text, "it")
    return found.digest, lambda: calibration.register(found)


def _machine(text: str) -> tuple[str, Callable[[], object]]:
    found = parse_machine(text.encode(), "it")
    return found.digest, lambda: measured_machines.register(found)


def collect(scenarios: Iterable[Scenario]) -> tuple[Attachments, tuple[str, ...]]:
    """Everything that these scenarios refer to, and a sentence for each that is not on this machine."""
    found: dict[str, dict[str, Any]] = {name: {} for name in Attachments.model_fields}
    missing: dict[str, None] = {}
    shipped = {entry.id: entry.sha256 for entry in traces()}
    for kind, name in dict.fromkeys(reference for each in scenarios for reference in references(each)):
        try:
            if kind == "loss_tables":
                found[kind][name] = LossPart.of(loss_tables.get(name))
            elif kind == "time_tables":
                table = time_tables.chosen(name)
                found[kind][name] = "" if table is None else table_bytes(table).decode()
            elif kind == "calibrations":
                found[kind][name] = calibration.get(name).text()
            elif kind == "machines":
                found[kind][name] = measured_machines.get(name).text()
            elif name in shipped:
                found[kind][name] = shipped[name]
        except PlanError as error:
            missing[str(error)] = None
    return Attachments.model_validate(found), tuple(missing)


def references(scenario: Scenario) -> Iterable[tuple[str, str]]:
    """Kind (a field of :class:`Attachments`) and digest of everything that a scenario refers to."""
    options = scenario.policy.options
    named = (
        ("loss_tables", options.get("loss_table")),
        ("time_tables", options.get("time_table")),
        ("calibrations", scenario.system.calibration),
        ("machines", scenario.system.measured),
    )
    for kind, name in named:
        if isinstance(name, str) and DIGEST.fullmatch(name):
            yield kind, name
    if scenario.routing.trace is not None:
        yield "traces", scenario.routing.trace
