"""Devices, links and whole systems: figures with unit, range, source, date and kind, and the code that reads them."""

from hardware.bill import BillItem, bill_of_materials
from hardware.catalog import (
    Bill,
    Device,
    PathSpec,
    bills,
    catalog_digest,
    device,
    devices,
    find_device,
    path_schema,
)
from hardware.derive import inputs_of
from hardware.figure import KINDS, Figure, HardwareError, MissingFigureError
from hardware.system import System, SystemEntry, assemble, load_system, systems

__all__ = [
    "KINDS",
    "Bill",
    "BillItem",
    "Device",
    "Figure",
    "HardwareError",
    "MissingFigureError",
    "PathSpec",
    "System",
    "SystemEntry",
    "assemble",
    "bill_of_materials",
    "bills",
    "catalog_digest",
    "device",
    "devices",
    "find_device",
    "inputs_of",
    "load_system",
    "path_schema",
    "systems",
]
