"""A machine as the probe measured it: figures of kind ``measured`` with what they rest on, as one JSON file.

A scenario names one by the digest of its content (``system.measured``). Its figures take the place of the catalog's,
of a paper system's and of a calibration's; what a person sets wins over them. Parts that it recognised take the place
of the system's own; a part that the scenario names itself is not the measured one any more, nor are its figures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from hardware import Figure, find_device, path_schema
from hardware.parts import KINDS as PART_KINDS
from planner.errors import PlanError
from planner.fields.sentences import shown
from planner.figure_bounds import check_figure
from planner.files import read_limited
from planner.probe.recording import Recording

LARGEST_BYTES = 2_000_000
PART_OF_PATH = {"gpu": "gpu", "pcie": "gpu", "cpu": "cpu", "dram": "cpu"}
"""beginning of a figure's path -> part whose exchange makes the measured figure void (host memory hangs on its CPU)"""

Finite = Annotated[float, Field(allow_inf_nan=False)]


def _one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("it takes one line of printable characters")
    return value


Text = Annotated[str, Field(min_length=1, max_length=600), AfterValidator(_one_line)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MeasuredFigure(_Record):
    value: Finite
    low: Finite
    high: Finite
    source: Text = Field(description="what was timed, and how the figure follows from it")


class Finding(_Record):
    """Something that costs speed, or might."""

    id: str = Field(max_length=40)
    state: Literal["costs", "fine", "unknown"]
    sentence: Text
    worth: Finite | None = Field(None, description="speed without it over speed with it; None where not known")
    how: Text = Field(description="how it was found, and what the worth rests on")


class MeasuredMachine(_Record):
    schema_version: Literal[1] = 1
    kind: Literal["measured"] = "measured"
    name: Name
    engine_version: str = Field(max_length=40)
    date: Annotated[Name, Field(max_length=40)]
    parts: dict[str, str] = Field(default_factory=dict, max_length=8, description="kind -> catalog device recognised")
    figures: dict[str, MeasuredFigure] = Field(max_length=200)
    not_measured: dict[str, Text] = Field(default_factory=dict, max_length=200, description="path -> why it was not")
    findings: tuple[Finding, ...] = Field((), max_length=40)
    recording: Recording | None = Field(None, description="what was timed")

    @property
    def digest(self) -> str:
        """SHA-256 of the content, hexadecimal."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    def text(self) -> str:
        return self.model_dump_json(indent=1) + "\n"

    def applied(self, chosen: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Figure]]:
        """Parts and figures of a system on this machine, after the parts that a scenario chose itself."""
        parts = {**self.parts, **chosen}
        void = {part for part, device in chosen.items() if self.parts.get(part) != device}
        units = {spec.path: spec.unit for spec in path_schema()}
        figures = {
            path: Figure(f.value, units[path], f.low, f.high, f"{self.name}: {f.source}", self.date, "measured")
            for path, f in sorted(self.figures.items())
            if PART_OF_PATH.get(path.split(".", 1)[0]) not in void and not (path.startswith("dram.") and "dimm" in void)
        }
        return parts, figures


def parse(data: bytes, where: str) -> MeasuredMachine:
    """A measured machine from JSON. Raises PlanError, one sentence."""
    if len(data) > LARGEST_BYTES:
        raise PlanError(f"{where} has more than {LARGEST_BYTES:,} bytes, the most that a measured machine may have.")
    try:
        found = MeasuredMachine.model_validate_json(data)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        at = ".".join(str(part)[:60] for part in detail["loc"][:6])
        why = f"{at}: {detail['msg']}" if at else "it is not JSON of the right form"
        raise PlanError(
            f"{where} is not a measured machine as probe writes it: {' '.join(why.split())[:250]}."
        ) from None
    for path, f in found.figures.items():
        check_figure(where, path, f.value, f.low, f.high)
    for part, device_id in found.parts.items():
        device = find_device(device_id)
        if part not in PART_KINDS or device is None or device.kind != part or device.id != device_id:
            raise PlanError(f"{where}: the part {shown(part)} is {shown(device_id)}, which is no such catalog device.")
    return found


def read(path: str | Path) -> MeasuredMachine:
    """Read a file. Raises PlanError, one sentence."""
    return parse(read_limited(path, LARGEST_BYTES), f"The file {shown(Path(path).name or str(path))}")
