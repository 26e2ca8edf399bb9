"""Other devices in the place of a catalog system's own: a machine that no catalog lists, put together from parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hardware import catalog
from hardware.catalog import Bill
from hardware.figure import HardwareError
from hardware.frozen import FrozenDict

KINDS = ("gpu", "cpu", "dimm", "chassis", "nic", "ndp", "cxl")
"""Parts of a bill of materials that another device of the same kind can take the place of."""
_PREFIXES = {"gpu": ("gpu.", "scaleup.", "pcie."), "cpu": ("cpu.",), "dimm": ("dram.",), "ndp": ("ndp.", "dimm_link.")}


def exchanged(bill: Bill, parts: Mapping[str, str]) -> Bill:
    """The bill with these devices instead; what it states by name of a part that goes is dropped with the part.

    Raises HardwareError, one sentence, for an unknown kind of part, an unknown device or one of another kind.
    """
    changes: dict[str, str] = {}
    counts = dict(bill.counts)
    named = dict(bill.named)
    for part, device_id in parts.items():
        if part not in KINDS:
            raise HardwareError(catalog.unknown("part", part, list(KINDS)))
        changes[part] = _checked(part, device_id)
        count = {"gpu": "gpu.count_per_node", "cpu": "cpu.sockets"}.get(part)
        if count and not counts.get(count):
            counts[count] = 1
        for path in [p for p in named if p.startswith(_PREFIXES.get(part, (f"{part}.",)))]:
            del named[path]
    gpu, cpu = changes.get("gpu", bill.gpu), changes.get("cpu", bill.cpu)
    names = [catalog.device(d).name for d in (gpu, cpu) if d]
    return replace(
        bill,
        name=" with ".join(names) or "No processor",
        sentence=f"Put together from parts, in the frame of {bill.name}.",
        as_published=False,
        findings=(),
        counts=FrozenDict(counts),
        named=FrozenDict(named),
        **changes,  # type: ignore[arg-type]
    )


def _checked(part: str, device_id: str) -> str:
    found = catalog.find_device(device_id)
    if found is None or found.kind != part:
        known = [device.id for device in catalog.devices() if device.kind == part]
        raise HardwareError(catalog.unknown(part, device_id, known))
    return found.id
