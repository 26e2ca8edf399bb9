"""What is not possible, or unusual, about a bill of materials: one sentence for each finding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardware.system import System

# Formats that the tensor cores of a class do not compute (vendors' architecture papers).
WITHOUT = {
    "gpu.fp4_flop_per_s": {"turing", "ampere", "ada", "hopper", "cdna3", "rdna", "apple"},
    "gpu.fp8_flop_per_s": {"turing", "ampere", "rdna", "apple"},
}
MAX_RANKS_PER_CHANNEL = 8  # chip selects of a DDR5 channel with registered DIMMs
SLACK = 1.005  # rounding of published figures


def findings_of(system: System) -> tuple[str, ...]:
    """Sentences on this system, most serious first; empty when all is possible."""
    return tuple(
        sentence
        for check in (_memory_speed, _memory_size, _ranks, _ndp, _lanes, _links, _formats, _power)
        for sentence in check(system)
    )


def _memory_speed(system: System) -> Iterator[str]:
    rate, dimms = system.get("dram.mt_per_s"), system.get("dram.dimms_per_channel")
    if rate is None or dimms is None:
        return
    one, two = system.get("cpu.memory_mt_per_s_1dpc"), system.get("cpu.memory_mt_per_s_2dpc")
    cpu = system.cpu_name
    if dimms > 2:
        yield f"{dimms:.0f} DIMMs per channel: {cpu} takes two at most."
    elif dimms == 2 and two is None and one is not None:
        yield f"Two DIMMs per channel: {cpu} is rated for one only."
    allowed = one if dimms <= 1 or two is None else two
    if allowed is not None and rate > allowed:
        consequence = ""
        sockets, channels = system.get("cpu.sockets"), system.get("dram.channels_per_socket")
        if sockets and channels:
            consequence = f", which gives {sockets * channels * allowed * 8 / 1e3:.4g} GB/s"
        yield (
            f"{rate:.0f} MT/s with {dimms:.0f} DIMM{'s' if dimms > 1 else ''} per channel: "
            f"{cpu} runs {allowed:.0f} MT/s there{consequence}."
        )
    module = system.get("dram.module_mt_per_s")
    if module is not None and rate > module:
        yield f"The memory runs at {rate:.0f} MT/s, but the modules are sold for {module:.0f} MT/s."
    bandwidth, channels = system.get("dram.bandwidth_bytes_per_s"), system.get("dram.channels_per_socket")
    if bandwidth is not None and channels is not None:
        peak = system.value("cpu.sockets") * channels * rate * 8e6
        if bandwidth > peak * SLACK:
            yield f"{bandwidth / 1e9:.4g} GB/s of host memory is more than its channels carry ({peak / 1e9:.4g} GB/s)."


def _memory_size(system: System) -> Iterator[str]:
    used, there = system.get("dram.channels_per_socket"), system.get("cpu.memory_channels")
    if used is None or there is None:
        return
    if used > there:
        yield f"{used:.0f} memory channels per socket: {system.cpu_name} has {there:.0f}."
    elif used < there:
        yield (
            f"Only {used:.0f} of the {there:.0f} memory channels of {system.cpu_name} hold DIMMs: "
            "one empty channel of eight has been measured to halve the bandwidth."
        )
    dimms = system.get("dram.dimms")
    slots = system.value("cpu.sockets") * used * system.value("dram.dimms_per_channel")
    if dimms is not None and dimms != slots:
        yield f"{dimms:.0f} DIMMs do not fill {slots:.0f} slots (sockets x channels x DIMMs per channel)."


def _ranks(system: System) -> Iterator[str]:
    ranks, dimms = system.get("dram.ranks_per_dimm"), system.get("dram.dimms_per_channel")
    if ranks is None or dimms is None:
        return
    if ranks not in (1, 2, 4, 8, 16):
        yield f"{ranks:.0f} ranks per DIMM: modules have 1, 2, 4, 8 or 16."
    if ranks * dimms > MAX_RANKS_PER_CHANNEL:
        yield (
            f"{ranks * dimms:.0f} ranks on one channel ({dimms:.0f} DIMMs x {ranks:.0f}): "
            f"a channel selects {MAX_RANKS_PER_CHANNEL} at most."
        )


def _ndp(system: System) -> Iterator[str]:
    count, dimms = system.get("ndp.count"), system.get("dram.dimms")
    if not count:
        return
    if dimms is None or count > dimms:
        yield f"{count:.0f} NDP DIMMs, but the node has {dimms or 0:.0f} DIMMs."
    internal, ranks = system.get("ndp.internal_bandwidth_bytes_per_s"), system.get("dram.ranks_per_dimm")
    rank_rate = system.get("ndp.rank_bandwidth_bytes_per_s")
    if internal is not None and ranks is not None and rank_rate is not None and internal > ranks * rank_rate * SLACK:
        yield (
            f"NDP bandwidth of {internal / 1e9:.4g} GB/s per DIMM is more than its {ranks:.0f} ranks deliver "
            f"({ranks * rank_rate / 1e9:.4g} GB/s)."
        )


def _lanes(system: System) -> Iterator[str]:
    per_socket, sockets = system.get("cpu.pcie_lanes"), system.get("cpu.sockets")
    if per_socket is None or not sockets:
        return
    there = per_socket * sockets
    needs = [
        # Without a PCIe generation the GPU hangs on a link of its own (NVLink-C2C, one package).
        (
            "GPU links",
            system.get("pcie.host_uplinks") if system.has("pcie.generation") else None,
            system.get("pcie.lanes"),
        ),
        ("CXL devices", system.get("cxl.count"), system.get("cxl.lanes")),
        ("NICs", system.get("nic.count"), system.get("nic.lanes")),
    ]
    used = [(name, count, lanes) for name, count, lanes in needs if count and lanes]
    total = sum(count * lanes for _, count, lanes in used)
    if total > there:
        parts = ", ".join(f"{count:.0f} {name} x {lanes:.0f}" for name, count, lanes in used)
        yield f"{total:.0f} PCIe lanes are needed ({parts}), but the CPUs offer {there:.0f}."


def _links(system: System) -> Iterator[str]:
    from hardware.derive import lane_rate_bytes_per_s

    generation, lanes = system.get("pcie.generation"), system.get("pcie.lanes")
    stated = system.get("pcie.bandwidth_bytes_per_s")
    if generation is not None and lanes is not None and stated is not None:
        net = lanes * lane_rate_bytes_per_s(generation)
        if stated > net * SLACK:
            yield (
                f"Host link of {stated / 1e9:.4g} GB/s: PCIe {generation:.0f} x{lanes:.0f} carries "
                f"{net / 1e9:.4g} GB/s per direction net of line coding."
            )
    uplinks, gpus = system.get("pcie.host_uplinks"), system.get("gpu.count_per_node")
    if uplinks is not None and gpus is not None and uplinks > gpus:
        yield f"{uplinks:.0f} host uplinks for {gpus:.0f} GPUs: each GPU has one link."
    if system.value("node.count") > 1 and not system.get("nic.count"):
        yield f"{system.value('node.count'):.0f} nodes without a NIC cannot work together."


def _formats(system: System) -> Iterator[str]:
    for path, classes in WITHOUT.items():
        if system.gpu_class in classes and system.has(path):
            name = path.split(".")[1].split("_")[0].upper()
            yield f"{name} rate on {system.gpu_name}: its tensor cores have no {name} mode."
    if system.cpu_class is not None and system.cpu_class != "amx" and system.has("cpu.bf16_flop_per_s"):
        yield f"Matrix-unit rate on {system.cpu_name}: this CPU has no matrix unit."


def _power(system: System) -> Iterator[str]:
    limit, tdp, idle = (system.get(f"gpu.{name}_w") for name in ("power_limit", "tdp", "idle"))
    if limit is None or tdp is None:
        return
    if limit > tdp:
        yield f"GPU power limit of {limit:.0f} W is above the board's {tdp:.0f} W."
    elif idle is not None and limit <= idle:
        yield f"GPU power limit of {limit:.0f} W is not above the idle power of {idle:.0f} W."
