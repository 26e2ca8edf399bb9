"""What a system consists of and costs: its bill of materials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hardware.figure import Figure
from hardware.system import System

BYTES_PER_GB_AS_SOLD = 2**30  # a 64 GB module holds 64 GiB


class BillItem(NamedTuple):
    """One line: parts in all nodes, price of one, price of all, and the figure that the price rests on.

    Prices are None where no price is known; they are never zero for that reason.
    """

    id: str
    name: str
    count: float  # type: ignore[assignment]  # hides tuple.count, which a line of a bill does not need
    unit_price_usd: float | None
    total_usd: float | None
    figure: Figure


@dataclass(frozen=True)
class _Line:
    id: str
    name: str
    count_path: str | None
    price_path: str


_LINES = (
    _Line("gpu", "GPU", "gpu.count_per_node", "gpu.price_usd"),
    _Line("cpu", "CPU", "cpu.sockets", "cpu.price_usd"),
    _Line("dimm", "DIMM", "dram.dimms", "dram.price_usd_per_gb"),
    _Line("ndp", "NDP on the DIMM", "ndp.count", "ndp.premium_usd"),
    _Line("cxl", "CXL device", "cxl.count", "cxl.price_usd"),
    _Line("nic", "Network adapter", "nic.count", "nic.price_usd"),
    _Line("chassis", "Chassis", None, "chassis.price_usd"),
)


def bill_of_materials(system: System) -> tuple[BillItem, ...]:
    """The lines of the system's bill, all nodes together; parts that are not there are left out.

    The totals add up to the purchase price of the system, USD. A line without a known price has None.
    """
    nodes = system.value("node.count")
    items = []
    for line in _LINES:
        per_node = 1.0 if line.count_path is None else (system.get(line.count_path) or 0.0)
        if per_node == 0:
            continue
        price = system.get(line.price_path)
        if line.id == "dimm" and price is not None:
            price *= system.value("dram.capacity_bytes_per_dimm") / BYTES_PER_GB_AS_SOLD
        count = per_node * nodes
        name = {"gpu": system.gpu_name, "cpu": system.cpu_name}.get(line.id) or line.name
        total = None if price is None else count * price
        items.append(BillItem(line.id, name, count, price, total, system.figures[line.price_path]))
    return tuple(items)
