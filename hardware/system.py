"""A whole system: a flat mapping from figure path to figure, assembled from its bill of materials.

Where a figure comes from, first match wins: what the user set, what the bill states by name (the papers' figures
of a paper system), what the bill counts, the device, the formula (:mod:`hardware.derive`), the default with its
range. What is left stays missing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from hardware import catalog, derive
from hardware.catalog import Bill, Default, Device, PathSpec
from hardware.figure import Figure, HardwareError, Kind, MissingFigureError
from hardware.frozen import FrozenDict
from hardware.parts import exchanged

NO_OVERRIDES: Mapping[str, float] = FrozenDict({})
NO_PARTS: Mapping[str, str] = FrozenDict({})
NO_FIGURES: Mapping[str, Figure] = FrozenDict({})


@dataclass(frozen=True)
class SystemEntry:
    """One line of the list of systems."""

    id: str
    name: str
    group: str
    sentence: str


@dataclass(frozen=True)
class System:
    """A system with every figure of :func:`hardware.path_schema`, present or missing (value None).

    ``findings`` are sentences on what is not possible or unusual about this bill of materials; ``edited`` the
    paths that the user changed, ``measured`` those of a measured machine. Classes are as in the
    device catalog.
    """

    id: str
    name: str
    group: str
    sentence: str
    as_published: bool
    figures: Mapping[str, Figure]
    findings: tuple[str, ...]
    edited: tuple[str, ...]
    gpu_class: str | None
    cpu_class: str | None
    gpu_name: str | None
    cpu_name: str | None
    unified_memory: bool
    measured: tuple[str, ...] = ()

    def value(self, path: str) -> float:
        """The figure's value, in the path's unit. Raises MissingFigureError where there is none."""
        found = self.get(path)
        if found is None:
            spec = catalog.path_by_name()[path]
            raise MissingFigureError(
                f"{path} ({spec.label}) is missing for {self.name}: {self.figures[path].source}; "
                f"set it to between {spec.lower:g} and {spec.upper:g} {spec.unit}"
            )
        return found

    def get(self, path: str) -> float | None:
        """The figure's value or None. Raises HardwareError for a path that is not in the schema."""
        figure = self.figures.get(path)
        if figure is None:
            raise HardwareError(catalog.unknown("hardware figure", path, list(self.figures)))
        return figure.value

    def has(self, path: str) -> bool:
        """Whether the figure has a value."""
        return self.get(path) is not None

    @property
    def has_gpu(self) -> bool:
        return bool(self.get("gpu.count_per_node"))

    @property
    def has_host(self) -> bool:
        """Whether there is a CPU with memory of its own that can hold and compute experts."""
        return bool(self.get("cpu.sockets")) and self.has("dram.bandwidth_bytes_per_s")

    @property
    def has_dimm_ndp(self) -> bool:
        return bool(self.get("ndp.count")) and self.has("ndp.flop_per_s")

    @property
    def has_cxl_ndp(self) -> bool:
        return bool(self.get("cxl.count")) and self.has("cxl.flop_per_s")


def systems() -> tuple[SystemEntry, ...]:
    """The catalog's systems, in the order in which people read them."""
    return tuple(SystemEntry(bill.id, bill.name, bill.group, bill.sentence) for bill in catalog.bills().values())


def load_system(
    system_id: str,
    overrides: Mapping[str, float] = NO_OVERRIDES,
    parts: Mapping[str, str] = NO_PARTS,
    calibrated: Mapping[str, Figure] = NO_FIGURES,
    measured: Mapping[str, Figure] = NO_FIGURES,
) -> System:
    """The catalog system of that id with the user's devices and figures in place.

    ``parts`` maps a kind of part (:data:`hardware.parts.KINDS`) to the device that takes its place; ``overrides`` maps
    figure paths to values in the path's own unit. What follows from a changed figure changes with it, unless it is set
    as well. ``calibrated`` figures take the place of devices' and defaults, not of what a paper system states by name;
    ``measured`` ones also of those, and of what else would follow from other figures.
    Raises HardwareError, one sentence, for an unknown id, part or path (naming the nearest) and for a value out of the
    path's bounds.
    """
    return _load(
        system_id,
        tuple(sorted(check_overrides(overrides).items())),
        tuple(sorted(parts.items())),
        tuple(sorted(calibrated.items(), key=lambda item: item[0])),
        tuple(sorted(measured.items(), key=lambda item: item[0])),
    )


@lru_cache(maxsize=2048)
def _load(
    system_id: str,
    overrides: tuple[tuple[str, float], ...],
    parts: tuple[tuple[str, str], ...],
    calibrated: tuple[tuple[str, Figure], ...],
    measured: tuple[tuple[str, Figure], ...],
) -> System:
    bill = catalog.bills().get(system_id)
    if bill is None:
        raise HardwareError(catalog.unknown("system", system_id, list(catalog.bills())))
    return assemble(exchanged(bill, dict(parts)) if parts else bill, dict(overrides), dict(calibrated), dict(measured))


def check_overrides(overrides: Mapping[str, float]) -> dict[str, float]:
    """The overrides as floats, after checking path, type and bounds. Raises HardwareError, one sentence."""
    checked: dict[str, float] = {}
    known = catalog.path_by_name()
    for path, value in overrides.items():
        spec = known.get(path)
        if spec is None:
            raise HardwareError(catalog.unknown("hardware figure", path, list(known)))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise HardwareError(f"{path} ({spec.label}) must be a finite number in {spec.unit}, not {value!r}")
        if not spec.lower <= value <= spec.upper:
            nearest = spec.lower if value < spec.lower else spec.upper
            raise HardwareError(
                f"{path} ({spec.label}) is {value:g} {spec.unit}; it must be between {spec.lower:g} and "
                f"{spec.upper:g}, the nearest is {nearest:g}"
            )
        if spec.integer and value != int(value):
            raise HardwareError(
                f"{path} ({spec.label}) is {value:g}; it must be a whole number, the nearest is {round(value)}"
            )
        checked[path] = float(value)
    return checked


def assemble(
    bill: Bill,
    overrides: Mapping[str, float] = NO_OVERRIDES,
    calibrated: Mapping[str, Figure] = NO_FIGURES,
    measured: Mapping[str, Figure] = NO_FIGURES,
) -> System:
    """The system of a bill of materials, whether in the catalog or made by the caller. Errors as load_system."""
    from hardware.check import findings_of  # check reads systems

    overrides = check_overrides(overrides)
    gpu = catalog.device(bill.gpu) if bill.gpu else None
    cpu = catalog.device(bill.cpu) if bill.cpu else None
    figures = _figures(bill, gpu, cpu, overrides, calibrated, measured)
    system = System(
        id=bill.id,
        name=bill.name,
        group=bill.group,
        sentence=bill.sentence,
        as_published=bill.as_published,
        figures=FrozenDict(figures),
        findings=bill.findings,
        edited=tuple(sorted(overrides)),
        measured=tuple(sorted(path for path in measured if path not in overrides)),
        gpu_class=gpu.device_class if gpu else None,
        cpu_class=cpu.device_class if cpu else None,
        gpu_name=gpu.name if gpu else None,
        cpu_name=cpu.name if cpu else None,
        unified_memory=bill.unified_memory,
    )
    return dataclasses.replace(system, findings=bill.findings + findings_of(system))


def _figures(
    bill: Bill,
    gpu: Device | None,
    cpu: Device | None,
    overrides: Mapping[str, float],
    calibrated: Mapping[str, Figure],
    measured: Mapping[str, Figure],
) -> dict[str, Figure]:
    stated: dict[str, Figure] = {}
    for part, prefixes in (
        (gpu, ("gpu.", "scaleup.", "pcie.")),
        (cpu, ("cpu.",)),
        (catalog.device(bill.dimm) if bill.dimm else None, ("dram.",)),
        (catalog.device(bill.ndp), ("ndp.", "dimm_link.")),
        (catalog.device(bill.cxl), ("cxl.",)),
        (catalog.device(bill.nic), ("nic.",)),
        (catalog.device(bill.chassis), ("chassis.",)),
    ):
        if part is not None:
            stated.update({path: figure for path, figure in part.figures.items() if path.startswith(prefixes)})
    kind: Kind = "published-simulation" if bill.as_published else "datasheet"
    for path, count in bill.counts.items():
        unit = catalog.path_by_name()[path].unit
        stated[path] = Figure(count, unit, None, None, f"bill of materials of {bill.id}", None, kind)
    if not bill.as_published:  # simulated machines of papers are not served by engines that were measured
        stated.update(calibrated)
    named = {**bill.named, **measured}
    stated.update(named)

    pinned = set(named) | set(overrides)
    chosen: dict[str, Figure] = {}
    rules = {rule.path for rule in derive.RULES}
    for spec in catalog.path_schema():
        chosen[spec.path] = _choose(spec, stated, gpu, cpu)
    for path, value in overrides.items():
        if path not in rules:
            chosen[path] = _edited(catalog.path_by_name()[path], chosen[path], value)
    for path in chosen:
        if path not in overrides and not derive.is_fitted(path, chosen):
            unit = chosen[path].unit
            chosen[path] = Figure(
                None, unit, None, None, f"{_part_name(path)} not part of {bill.id}", None, "datasheet"
            )
    for rule in derive.RULES:
        unit = catalog.path_by_name()[rule.path].unit
        if rule.path not in pinned and derive.is_fitted(rule.path, chosen):
            chosen[rule.path] = derive.apply(rule, chosen, unit) or chosen[rule.path]
        if rule.path in overrides:
            before = derive.apply(rule, chosen, unit) if rule.path not in named else chosen[rule.path]
            chosen[rule.path] = _edited(
                catalog.path_by_name()[rule.path], before or chosen[rule.path], overrides[rule.path]
            )
    return chosen


def _choose(spec: PathSpec, stated: Mapping[str, Figure], gpu: Device | None, cpu: Device | None) -> Figure:
    figure = stated.get(spec.path)
    if figure is not None and figure.value is not None:
        return figure
    for default in catalog.defaults():
        if default.path == spec.path and _matches(default, gpu, cpu):
            return default.figure
    if figure is not None:
        return figure  # an explicit None says why there is no value
    return Figure(None, spec.unit, None, None, "no figure was seen", None, "datasheet")


def _matches(default: Default, gpu: Device | None, cpu: Device | None) -> bool:
    facts = {
        "gpu_class": gpu.device_class if gpu else None,
        "gpu_memory": gpu.memory_type if gpu else None,
        "gpu_link": gpu.link if gpu else None,
        "cpu_class": cpu.device_class if cpu else None,
        "platform": cpu.platform if cpu else None,
    }
    return all(facts[key] in values for key, values in default.when.items())


def _edited(spec: PathSpec, before: Figure, value: float) -> Figure:
    was = "none" if before.value is None else _said(before.value, before.unit)
    return Figure(
        value, spec.unit, None, None, f"set by the user; was {was} ({before.source})", None, "assumed", edited=True
    )


def _said(value: float, unit: str) -> str:
    """A figure in a sentence: ``3.35 TB/s``, ``32 pJ/byte``, ``30000 USD``."""
    if unit.startswith("USD") or not unit:
        return f"{value:.10g} {unit}".strip()
    small = unit.startswith(("J", "s")) and unit != "share"
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {prefix}{unit.replace('bytes', 'B', 1)}"
    for factor, prefix in ((1e-3, "m"), (1e-6, "\u00b5"), (1e-9, "n"), (1e-12, "p")):
        if small and factor <= abs(value) < 1000 * factor and abs(value) < 0.1:
            return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:.10g} {unit}"


def _part_name(path: str) -> str:
    names = {"gpu": "a GPU is", "cpu": "a host CPU is", "dram": "host memory is", "ndp": "an NDP DIMM is"}
    names |= {"cxl": "a CXL device is", "pcie": "a host link is", "dimm_link": "a DIMM link is"}
    return names.get(path.split(".", 1)[0], "this is")
