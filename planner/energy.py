"""Energy at the wall: of one pass, of a token, of a month.

Every device is counted for the whole wall time of the pass, used or not: idle power, what being busy adds,
arithmetic, and every byte by the path that it takes. All figures are at the wall (the power supply's loss
included); PUE belongs to the building and enters only kWh per month, money and carbon.
The equations, with the reasons and what they leave out, are in docs/energy_and_cost.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from planner.activity import Activity, Mix
from planner.result import Energy, Share
from planner.scenario import Economics

HOURS_PER_MONTH = 730.0
HOURS_PER_YEAR = 8760.0
J_PER_KWH = 3.6e6

DEVICES: dict[str, str] = {
    "gpu": "GPU",
    "cpu": "CPU",
    "dimms": "DIMMs",
    "ndp": "DIMM-NDP",
    "cxl": "CXL-NDP",
    "links": "Links and NICs",
    "chassis": "Chassis",
}
MOVEMENTS: dict[str, str] = {
    "static": "Static (idle power)",
    "overhead": "Being busy (clocks, caches, waiting cores)",
    "compute": "Compute",
    "hbm": "HBM",
    "dram": "DRAM over the host channels",
    "ndp_memory": "Memory inside NDP",
    "link": "Links",
}

Cells = dict[tuple[str, str], float]


class Figures(Protocol):
    """What energy and cost read of a system: SI figures by path. ``value`` raises when a figure is missing."""

    def value(self, path: str) -> float: ...

    def get(self, path: str) -> float | None: ...


@dataclass(frozen=True)
class Counts:
    """Devices of the whole system, all nodes."""

    nodes: float
    gpus: float
    sockets: float
    dimms: float
    ndp: float
    cxl: float
    nics: float

    @classmethod
    def of(cls, system: Figures) -> Counts:
        """A group that the system does not list has no devices; everything else must be stated."""
        nodes = system.value("node.count")
        per_node = (
            system.get(path) or 0.0
            for path in ("gpu.count_per_node", "cpu.sockets", "dram.dimms", "ndp.count", "cxl.count", "nic.count")
        )
        return cls(nodes, *(nodes * count for count in per_node))


@dataclass(frozen=True)
class PassEnergy:
    """Joules at the wall of one pass, by device and kind of use; the cells add up to ``total_j``."""

    cells: Mapping[tuple[str, str], float]
    seconds: float
    tokens: float
    capped_j: Mapping[str, float] = field(default_factory=dict)
    """device -> joules at the wall that it would have drawn above its power limit; they are not in the cells"""

    @property
    def total_j(self) -> float:
        return sum(self.cells.values())

    @property
    def by_device(self) -> dict[str, float]:
        """Joules by device, in the fixed order of ``DEVICES``."""
        return {key: sum(j for (device, _), j in self.cells.items() if device == key) for key in DEVICES}

    @property
    def by_movement(self) -> dict[str, float]:
        """Joules by kind of use, in the fixed order of ``MOVEMENTS``; the same total as :attr:`by_device`."""
        return {key: sum(j for (_, kind), j in self.cells.items() if kind == key) for key in MOVEMENTS}

    @property
    def j_per_token(self) -> float:
        return self.total_j / self.tokens

    @property
    def average_w(self) -> float:
        return self.total_j / self.seconds


def _up_to_limit(cells: Cells, device: str, parts: Mapping[str, float], allowed_j: float) -> float:
    """Book what a device draws above idle, held to its limit: all parts in proportion. Returns the joules cut."""
    wanted = sum(parts.values())
    granted = min(wanted, allowed_j)
    for kind, joules in parts.items():
        cells[device, kind] = joules * (granted / wanted) if wanted > 0 else 0.0
    return wanted - granted


def _gpu(system: Figures, count: float, work: Activity, cells: Cells) -> float:
    """Idle, busy overhead, FLOP and HBM bytes of all GPUs; returns the joules cut off by the power limit."""
    idle_w = system.value("gpu.idle_w")
    room_w = max(0.0, system.value("gpu.power_limit_w") - idle_w)
    cells["gpu", "static"] = idle_w * count * work.seconds
    parts = {
        "overhead": system.value("gpu.busy_overhead_w") * count * work.gpu_busy_s,
        "compute": work.gpu_flop * system.value("gpu.energy_j_per_flop"),
        "hbm": work.hbm_bytes * system.value("gpu.hbm_energy_j_per_byte"),
    }
    # Copies into HBM go on while no kernel runs, so a pass without kernels is held to the limit over its wall time.
    window_s = work.gpu_busy_s if work.gpu_busy_s > 0 else work.seconds
    return _up_to_limit(cells, "gpu", parts, room_w * count * window_s)


def _cpu(system: Figures, count: float, work: Activity, cells: Cells) -> float:
    """Idle, busy power and FLOP of all sockets; returns the joules cut off by the rated power."""
    idle_w, busy_w = system.value("cpu.idle_w"), system.value("cpu.busy_w")
    cells["cpu", "static"] = idle_w * count * work.seconds
    if work.cpu_busy_s == 0:
        return 0.0
    parts = {
        "overhead": max(0.0, busy_w - idle_w) * count * work.cpu_busy_s,
        "compute": work.cpu_flop * system.value("cpu.energy_j_per_flop"),
    }
    limit_w = max(system.value("cpu.tdp_w"), busy_w)
    return _up_to_limit(cells, "cpu", parts, max(0.0, limit_w - idle_w) * count * work.cpu_busy_s)


def _ndp(system: Figures, work: Activity, cells: Cells) -> None:
    if work.ndp_flop:
        cells["ndp", "compute"] = work.ndp_flop * system.value("ndp.energy_j_per_flop")
    if work.ndp_bytes:
        cells["ndp", "ndp_memory"] = work.ndp_bytes * system.value("ndp.energy_j_per_byte")


def _cxl(system: Figures, count: float, work: Activity, cells: Cells) -> None:
    cells["cxl", "static"] = system.value("cxl.idle_w") * count * work.seconds
    if work.cxl_flop:
        cells["cxl", "compute"] = work.cxl_flop * system.value("cxl.energy_j_per_flop")
    if work.cxl_bytes:
        cells["cxl", "ndp_memory"] = work.cxl_bytes * system.value("cxl.energy_j_per_byte")


def _links(system: Figures, nics: float, work: Activity, cells: Cells) -> None:
    crossings = (
        (work.pcie_bytes, "pcie.energy_j_per_byte"),
        # CXL runs over the PCIe physical layer; the catalog has one figure for both.
        (work.cxl_link_bytes, "pcie.energy_j_per_byte"),
        (work.scaleup_bytes, "scaleup.energy_j_per_byte"),
        (work.network_bytes, "network.energy_j_per_byte"),
        (work.dimm_link_bytes, "dimm_link.energy_j_per_byte"),
    )
    cells["links", "link"] = sum(moved * system.value(path) for moved, path in crossings if moved)
    if nics:
        cells["links", "static"] = nics * system.value("nic.power_w") * work.seconds


def pass_energy(system: Figures, work: Activity) -> PassEnergy:
    """Joules at the wall of one pass of the whole system.

    Energy per FLOP and per byte: AttAcc, CENT and the Micron tables named in the catalog; the additive form
    (static power for the whole time, dynamic energy per operation) is that of those simulators.
    Raises the catalog's error when a figure that the system needs is missing.
    """
    counts = Counts.of(system)
    cells: Cells = {}
    capped = {
        "gpu": _gpu(system, counts.gpus, work, cells) if counts.gpus else 0.0,
        "cpu": _cpu(system, counts.sockets, work, cells) if counts.sockets else 0.0,
    }
    if counts.dimms:
        cells["dimms", "static"] = system.value("dram.dimm_idle_w") * counts.dimms * work.seconds
        if work.dram_bytes:
            cells["dimms", "dram"] = work.dram_bytes * system.value("dram.energy_j_per_byte")
    if counts.ndp:
        _ndp(system, work, cells)
    if counts.cxl:
        _cxl(system, counts.cxl, work, cells)
    _links(system, counts.nics, work, cells)
    cells["chassis", "static"] = system.value("chassis.idle_w") * counts.nodes * work.seconds
    psu = system.value("chassis.psu_factor")
    at_the_wall = {key: joules * psu for key, joules in cells.items()}
    cut = {device: joules * psu for device, joules in capped.items() if joules > 0}
    return PassEnergy(at_the_wall, work.seconds, work.tokens, cut)


def idle_power_w(system: Figures) -> float:
    """Watts at the wall of one system that does nothing."""
    return pass_energy(system, Activity(seconds=1.0)).total_j


def peak_power_w(system: Figures) -> float:
    """Watts at the wall with every device at its limit at once: what the circuit must carry, before PUE.

    Bytes on links are left out: at most some tens of watts, and their limit is not a rated power.
    """
    counts = Counts.of(system)
    rated = (
        (counts.gpus, "gpu.power_limit_w"),
        (counts.sockets, "cpu.tdp_w"),
        (counts.dimms, "dram.dimm_busy_w"),
        (counts.ndp, "ndp.power_w"),
        (counts.cxl, "cxl.power_w"),
        (counts.nics, "nic.power_w"),
        (counts.nodes, "chassis.idle_w"),
    )
    return system.value("chassis.psu_factor") * sum(count * system.value(path) for count, path in rated if count)


@dataclass(frozen=True)
class Consumption:
    """What one system draws, for the bill: joules of both kinds of pass, idle and peak watts, all at the wall."""

    decode: PassEnergy
    prefill: PassEnergy
    mix: Mix
    idle_w: float
    peak_w: float

    @property
    def working_w(self) -> float:
        """Mean watts while the system works, prefill and decode in the proportion of the mix."""
        per_request = (
            self.mix.output_tokens * self.decode.j_per_token + self.mix.input_tokens * self.prefill.j_per_token
        )
        return per_request / self.mix.seconds_per_request

    def average_w(self, busy_share: float) -> float:
        """Mean watts of a system that works this share of the time and idles for the rest."""
        return busy_share * self.working_w + (1 - busy_share) * self.idle_w

    def waiting_w(self, busy_share: float) -> float:
        """Idle watts outside work, spread over the working time that must pay for them."""
        return self.idle_w * (1 - busy_share) / busy_share


def consumption(system: Figures, decode: Activity, prefill: Activity, mix: Mix) -> Consumption:
    """Energy figures of one system from one decode pass, one prefill pass and the request mix.

    Raises ValueError for a pass that takes no time or yields no token.
    """
    for name, work in (("decode", decode), ("prefill", prefill)):
        if work.tokens <= 0 or work.seconds <= 0:
            raise ValueError(
                f"the {name} pass takes {work.seconds} s and yields {work.tokens} tokens; both must be above 0"
            )
    decode_energy, prefill_energy = pass_energy(system, decode), pass_energy(system, prefill)
    # A mean above the sum of the rated powers would mean that a rated power is too low: the draw is the better bound.
    peak_w = max(peak_power_w(system), decode_energy.average_w, prefill_energy.average_w)
    return Consumption(decode_energy, prefill_energy, mix, idle_power_w(system), peak_w)


def energy(drawn: Consumption, economics: Economics) -> Energy:
    """The energy part of a result.

    ``j_per_output_token`` is the wall energy of the decode pass per output token, and nothing of the prefill,
    which ``j_per_input_token`` holds. Idle time between work enters kWh per month, money and carbon, each
    charged to tokens by machine time; it does not enter J per token.
    """
    decode, busy = drawn.decode, economics.busy_share

    def per_token(parts: Mapping[str, float], names: Mapping[str, str]) -> tuple[Share, ...]:
        return tuple(Share(id=key, name=names[key], value=j / decode.tokens) for key, j in parts.items() if j > 0)

    paid_j = decode.j_per_token + drawn.waiting_w(busy) * drawn.mix.seconds_per_output_token
    return Energy(
        by_device=per_token(decode.by_device, DEVICES),
        by_movement=per_token(decode.by_movement, MOVEMENTS),
        j_per_output_token=decode.j_per_token,
        j_per_input_token=drawn.prefill.j_per_token,
        average_w=decode.average_w,
        peak_w=drawn.peak_w,
        kwh_per_month=drawn.average_w(busy) / 1000 * HOURS_PER_MONTH * economics.pue,
        gco2e_per_million_output_tokens=paid_j * 1e6 / J_PER_KWH * economics.pue * economics.grid_gco2e_per_kwh,
        idle_w=drawn.idle_w,
    )
