"""``models``, ``hardware``, ``systems``, ``policies``, ``traces``, ``presets``, ``fields``: what there is to choose.

With ``--json`` an array of objects, each with at least ``id`` and ``name``; as text the id, the name and a few
words. Each catalog is imported only when its list is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from planner.cli.output import as_json, columns, json_text
from planner.cli.parsing import CommandParser
from planner.fields.table import FieldSpec, fields, plain

Row = dict[str, Any]


class Listing(NamedTuple):
    """One list: what it shows, its rows, and the columns of its text after id and name."""

    title: str
    rows: Callable[[], list[Row]]
    shown: tuple[str, ...]


def run(command: str, arguments: list[str]) -> str:
    """The list that ``command`` names."""
    listing = LISTINGS[command]
    options = CommandParser(command, listing.title).read(arguments)
    rows = listing.rows()
    if options.json:
        return json_text(rows)
    header = ("id", *listing.shown)
    return columns([[_cell(row, name) for name in header] for row in rows], header)


def _records(records: Iterable[object]) -> list[Row]:
    return [as_json(record) for record in records]


def _models() -> list[Row]:
    from models import catalog

    return _records(catalog())


def _hardware() -> list[Row]:
    from hardware import devices

    return [*_records(devices()), *_measured()]


def _systems() -> list[Row]:
    from hardware import systems

    return [*_records(systems()), *_measured()]


def _measured() -> list[Row]:
    """Measured machines that are kept here; a scenario names one in ``system.measured``, beside its system."""
    from planner.measured_machines import known

    return [
        {
            "id": digest,
            "name": machine.name,
            "kind": "measured",
            "sentence": f"Measured {machine.date}, for --set system.measured=; {len(machine.figures)} figures.",
            "parts": machine.parts,
            "figures": as_json(machine.applied({})[1]),
        }
        for digest, machine in known().items()
    ]


def _policies() -> list[Row]:
    from planner.policies import catalog

    return _records(catalog())


def _traces() -> list[Row]:
    from planner.routing import traces

    # Where the file lies on this machine says nothing to anybody else.
    return [{key: value for key, value in row.items() if key != "file"} for row in _records(traces())]


def _presets() -> list[Row]:
    from planner.presets import presets

    return _records(presets())


def _fields() -> list[Row]:
    """The fields of a scenario, then every figure of a system that ``system.overrides`` can change."""
    from hardware import path_schema

    rows = [_field(spec) for spec in fields().values()]
    for figure in path_schema():
        what = "a whole number" if figure.integer else "a number"
        path = f"system.overrides.{figure.path}"
        rows.append(
            {
                "id": path,
                "name": figure.label,
                "type": f"{what.removeprefix('a ')} or null",
                "default": None,
                "accepted": f"{what} from {plain(figure.lower)} to {plain(figure.upper)}, or null",
                "description": f"{figure.description} [{figure.unit}]" if figure.unit else figure.description,
            }
        )
    return rows


def _field(spec: FieldSpec) -> Row:
    return {
        "id": spec.path,
        "name": spec.name.replace("_", " "),
        "type": spec.kind_name,
        "default": spec.default,
        "accepted": spec.accepts,
        "description": spec.description,
        "minimum": spec.minimum,
        "maximum": spec.maximum,
        "above": spec.above,
        "below": spec.below,
        "choices": list(spec.choices),
    }


def _cell(row: Row, name: str) -> str:
    value = row.get(name)
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


LISTINGS: dict[str, Listing] = {
    "models": Listing("Lists the models of the catalog.", _models, ("name",)),
    "hardware": Listing("Lists GPUs, CPUs, memory and links; --json has every figure.", _hardware, ("name", "kind")),
    "systems": Listing("Lists whole systems that can be planned on.", _systems, ("name", "sentence")),
    "policies": Listing("Lists the policies that place and schedule experts.", _policies, ("name", "sentence")),
    "traces": Listing("Lists the shipped routing traces.", _traces, ("name", "model_id", "tokens", "licence")),
    "presets": Listing("Lists the workload presets for --preset.", _presets, ("name", "sentence")),
    "fields": Listing(
        "Lists every path that --set takes, with what it accepts.", _fields, ("accepted", "default", "description")
    ),
}
