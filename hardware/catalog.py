"""Reads the data files of ``hardware/catalog``: devices, defaults, paths and systems.

The files are data written for people; nothing about a device is said in code. Reading happens once per process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hardware.figure import Figure, HardwareError
from hardware.frozen import FrozenDict

CATALOG = Path(__file__).parent / "catalog"
DEVICE_FILES = ("gpus.json", "cpus.json", "ndp.json", "cxl.json", "links.json", "dimms.json", "hosts.json")
GROUPS = (
    "GPU",
    "CPU",
    "Host memory",
    "NDP",
    "CXL",
    "Links",
    "Chassis, power and prices",
    "Efficiencies",
)


@dataclass(frozen=True)
class PathSpec:
    """One row of the schema: a figure that every system has, with label, unit, bounds and description."""

    path: str
    label: str
    unit: str
    lower: float
    upper: float
    integer: bool
    group: str
    advanced: bool
    description: str


@dataclass(frozen=True)
class Device:
    """One row of the device catalog. ``figures`` maps figure paths (``gpu.tdp_w``) to figures.

    ``kind`` is gpu, cpu, ndp, cxl, link, dimm, nic or chassis. ``device_class`` is the GPU class, the CPU's
    instruction set (amx, avx512, avx2, neon) or empty; ``platform`` tells server, workstation, desktop and
    laptop parts apart. ``aliases`` are names under which published measurements list the device.
    """

    id: str
    name: str
    kind: str
    device_class: str | None
    platform: str | None
    memory_type: str | None
    link: str | None
    aliases: tuple[str, ...]
    note: str | None
    figures: Mapping[str, Figure]


@dataclass(frozen=True)
class Bill:
    """A system as its parts: device ids, how many of what, and figures that are given by name.

    ``counts`` are figures that the bill itself decides (numbers of parts); ``named`` are figures with a source
    of their own that take the place of the devices' (the papers' figures of a paper system).
    """

    id: str
    name: str
    group: str
    sentence: str
    as_published: bool
    unified_memory: bool
    gpu: str | None
    cpu: str | None
    dimm: str | None
    ndp: str
    cxl: str
    nic: str
    chassis: str
    counts: Mapping[str, float]
    named: Mapping[str, Figure]
    findings: tuple[str, ...]


@dataclass(frozen=True)
class Default:
    """A figure that stands in where a device gives none; ``when`` restricts it (all keys must match)."""

    path: str
    when: Mapping[str, tuple[str, ...]]
    figure: Figure


def _read(name: str) -> Any:
    with (CATALOG / name).open(encoding="utf-8") as file:
        return json.load(file)


@cache
def path_schema() -> tuple[PathSpec, ...]:
    """Every figure path, in the order in which people read them."""
    return tuple(PathSpec(**row) for row in _read("paths.json"))


@cache
def path_by_name() -> Mapping[str, PathSpec]:
    return FrozenDict({spec.path: spec for spec in path_schema()})


@cache
def devices() -> tuple[Device, ...]:
    """Every device and link of the catalog, by kind."""
    found: list[Device] = []
    for name in DEVICE_FILES:
        for row in _read(name):
            figures = {
                path: Figure.from_json(raw, f"{name}: {row['id']}: {path}") for path, raw in row["figures"].items()
            }
            found.append(
                Device(
                    id=row["id"],
                    name=row["name"],
                    kind=row["kind"],
                    device_class=row.get("class"),
                    platform=row.get("platform"),
                    memory_type=row.get("memory_type"),
                    link=row.get("link"),
                    aliases=tuple(row.get("aliases", ())),
                    note=row.get("note"),
                    figures=FrozenDict(figures),
                )
            )
    return tuple(found)


@cache
def _devices_by_id() -> Mapping[str, Device]:
    return FrozenDict({device.id: device for device in devices()})


def device(device_id: str) -> Device:
    """The device of that id. Raises HardwareError, naming the nearest id, when there is none."""
    found = _devices_by_id().get(device_id)
    if found is None:
        raise HardwareError(unknown("device", device_id, list(_devices_by_id())))
    return found


def find_device(name: str) -> Device | None:
    """The device of that id, name or alias (as measurements name it), or None."""
    for candidate in devices():
        if name in (candidate.id, candidate.name) or name in candidate.aliases:
            return candidate
    return None


@cache
def defaults() -> tuple[Default, ...]:
    """Figures that stand in where a device gives none, the most special first for each path."""
    found = [
        Default(
            path=row["path"],
            when=FrozenDict({key: tuple(values) for key, values in row.get("when", {}).items()}),
            figure=Figure.from_json(row["figure"], f"efficiencies.json: {row['path']}"),
        )
        for row in _read("efficiencies.json")
    ]
    return tuple(sorted(found, key=lambda default: -len(default.when)))


@cache
def bills() -> Mapping[str, Bill]:
    """The catalog's systems by id, in the order of the file."""
    found: dict[str, Bill] = {}
    for row in _read("systems.json"):
        where = f"systems.json: {row['id']}"
        named = {path: Figure.from_json(raw, f"{where}: {path}") for path, raw in row.get("named", {}).items()}
        parts = row["parts"]
        found[row["id"]] = Bill(
            id=row["id"],
            name=row["name"],
            group=row["group"],
            sentence=row["sentence"],
            as_published=row.get("as_published", False),
            unified_memory=row.get("unified_memory", False),
            gpu=parts.get("gpu"),
            cpu=parts.get("cpu"),
            dimm=parts.get("dimm"),
            ndp=parts.get("ndp", "ndp-dimm-trimoe"),
            cxl=parts.get("cxl", "cxl-ndp-monde"),
            nic=parts.get("nic", "nic-400g"),
            chassis=parts["chassis"],
            counts=FrozenDict(dict(row["counts"])),
            named=FrozenDict(named),
            findings=tuple(row.get("findings", ())),
        )
    return FrozenDict(found)


@cache
def catalog_digest() -> str:
    """SHA-256, hexadecimal, over the names and contents of hardware's own catalog files."""
    digest = hashlib.sha256()
    for path in sorted(CATALOG.glob("*.json")):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def unknown(what: str, given: object, known: list[str]) -> str:
    """One sentence for an unknown name, with the nearest known one."""
    import difflib

    text = str(given)
    if len(text) > 80:
        text = text[:77] + "..."
    near = difflib.get_close_matches(text, known, n=1, cutoff=0.0)
    hint = f"; the nearest is {near[0]!r}" if near else ""
    return f"there is no {what} {text!r}{hint}"
