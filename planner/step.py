"""Composes operations into one pass (a decode step, a verify pass, a prefill chunk) and reads a Step from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from planner.devices import Machine
from planner.physics.operation import Array, Phase, phase_times
from planner.result import Bound, Domain, Lane, PartId, Step, StepPart

PART_ORDER: tuple[PartId, ...] = (
    "attention",
    "dense_shared",
    "routed_gpu",
    "routed_cpu",
    "routed_ndp",
    "link",
    "collective",
    "overhead",
)
LANE_NAMES: dict[Lane, str] = {
    "gpu": "GPU",
    "cpu": "CPU",
    "dram": "Host memory channels",
    "ndp": "Near-data processors",
    "link": "PCIe to the GPU",
    "cxl_link": "CXL link",
    "network": "GPU-to-GPU links",
    "overhead": "Launch and synchronisation",
}


@dataclass
class Flows:
    """What one pass computes and moves on the whole system (all replicas), mean over contexts and samples."""

    gpu_flop: float = 0.0
    gpu_peak_s: float = 0.0  # GPU-seconds if every FLOP ran at the peak of its number format
    hbm_bytes: float = 0.0
    hbm_achieved_s: float = 0.0  # GPU-seconds at the achieved bandwidth of each kind of read
    cpu_flop: float = 0.0
    dram_bytes: float = 0.0  # over the host channels: CPU experts, DMA and KV together
    ndp_flop: float = 0.0
    ndp_peak_s: float = 0.0  # unit-seconds of either kind of near-data unit at the peak of its number format
    ndp_bytes: float = 0.0
    ndp_host_bytes: float = 0.0  # host reads that occupy ranks of NDP DIMMs
    cxl_flop: float = 0.0
    cxl_bytes: float = 0.0
    pcie_bytes: float = 0.0  # host to GPU and back, the busier direction
    cxl_link_bytes: float = 0.0
    scaleup_bytes: float = 0.0
    network_bytes: float = 0.0

    def scaled(self, factor: float) -> Flows:
        return Flows(**{k: v * factor for k, v in vars(self).items()})


@dataclass
class Pass:
    """Phases that follow each other in each layer, what flows in them, and how often the pass runs in a step."""

    tokens: float  # rows computed in the pass, one replica
    phases: list[Phase] = field(default_factory=list)
    flows: Flows = field(default_factory=Flows)
    repeats: float = 1.0  # time of a step in units of the pass: micro-batches, slowest pipeline stage
    flow_repeats: float | None = None  # passes of a step; where it differs from the time (pipeline)
    in_flight: float = 1.0  # passes that the machine completes in the time of one (stages of a pipeline)
    copies: float = 1.0  # replicas of the pass that run at the same time on other devices

    def phase(self, name: str, overlap: float = 1.0) -> Phase:
        added = Phase(name, overlap)
        self.phases.append(added)
        return added


@dataclass(frozen=True)
class Timing:
    """A pass, timed. ``total_s`` is [contexts, samples]."""

    step: Step
    total_s: Array
    flows: Flows  # of the whole step on the whole system
    gpu_busy_s: float
    cpu_busy_s: float
    ndp_busy_s: float


def time_pass(work: Pass, machine: Machine, yields: float = 1.0) -> Timing:
    """Time a pass. ``yields``: tokens that it yields per sequence; times and flows are per yielded token.

    Exposed parts add up to the total exactly; ``bound_by`` is the resource with the largest exposed time.
    """
    factor = work.repeats / yields
    times = [phase_times(p) for p in work.phases]
    shape = np.broadcast_shapes(*(t.total.shape[:2] for t in times))
    total = sum((np.broadcast_to(t.total.sum(axis=2), shape) for t in times), np.zeros(shape)) * factor
    mean = float(total.mean())
    parts: dict[tuple[PartId, Lane], list[float]] = {}
    lanes: dict[Lane, float] = {}
    bound: dict[Bound, float] = {}
    for phase in times:
        for (piece, busy), (_, exposed) in zip(phase.busy, phase.exposed, strict=True):
            entry = parts.setdefault((piece.part, piece.lane), [0.0, 0.0])
            entry[0] += busy * factor
            entry[1] += exposed * factor
            bound[piece.resource] = bound.get(piece.resource, 0.0) + exposed * factor
            if piece.part != "overhead":
                lanes[piece.lane] = lanes.get(piece.lane, 0.0) + busy * factor
    per_sample = total.mean(axis=0)
    samples = per_sample.size
    error = float(per_sample.std(ddof=1) / np.sqrt(samples)) if samples > 1 else 0.0
    repeats = work.repeats if work.flow_repeats is None else work.flow_repeats
    flows = work.flows.scaled(repeats / yields * work.copies)
    shares = {k: v / mean for k, v in sorted(bound.items(), key=lambda kv: -kv[1]) if v > 0}
    byte_floor, flop_floor = floors_s(flows, machine)
    ordered = sorted(parts.items(), key=lambda kv: (PART_ORDER.index(kv[0][0]), kv[0][1]))
    step = Step(
        total_s=mean,
        standard_error_s=error,
        p99_s=float(np.quantile(total, 0.99)),
        samples=samples,
        yields=yields,
        tokens=round(work.tokens * work.copies),
        parts=tuple(
            StepPart(part=part, lane=lane, busy_s=busy, exposed_s=exposed)
            for (part, lane), (busy, exposed) in ordered
            if busy > 0
        ),
        domains=_domains(lanes, flows, machine, mean),
        bound_by=next(iter(shares)),
        bound_shares=shares,
        fixed_s=bound.get("overhead", 0.0),
        byte_floor_s=byte_floor,
        flop_floor_s=flop_floor,
    )
    return Timing(step, total, flows, lanes.get("gpu", 0.0), lanes.get("cpu", 0.0), lanes.get("ndp", 0.0))


def _capacities(machine: Machine) -> dict[str, tuple[float, float]]:
    """Peak and achieved bytes/s of each shared resource, the whole system together."""
    found: dict[str, tuple[float, float]] = {}
    nodes = machine.nodes
    if machine.dram:
        found["dram"] = (
            machine.dram.peak_bandwidth_bytes_per_s * nodes,
            machine.dram.bandwidth_bytes_per_s * nodes,
        )
    for name, ndp in (("ndp", machine.dimm_ndp), ("cxl", machine.cxl_ndp)):
        if ndp:
            found[name] = (
                ndp.peak_bandwidth_bytes_per_s * ndp.units * nodes,
                ndp.bandwidth_bytes_per_s * ndp.units * nodes,
            )
    for name, link in (("pcie", machine.pcie), ("scaleup", machine.scaleup), ("network", machine.network)):
        if link:
            count = max(machine.gpus, 1)
            found[name] = (link.peak_bytes_per_s * count, link.bytes_per_s * count)
    if machine.pcie:
        shared = machine.host_to_gpus_bytes_per_s * nodes
        found["pcie"] = (shared * machine.pcie.peak_bytes_per_s / machine.pcie.bytes_per_s, shared)
    if machine.cxl_link and machine.cxl_ndp:
        count = machine.cxl_ndp.units * nodes
        found["cxl_link"] = (machine.cxl_link.peak_bytes_per_s * count, machine.cxl_link.bytes_per_s * count)
    return found


def floors_s(flows: Flows, machine: Machine) -> tuple[float, float]:
    """Byte floor and FLOP floor of a step: what it must move and compute, at peak rates, of the slowest tier."""
    bytes_s, flop_s = [0.0], [0.0]
    capacities = _capacities(machine)
    if machine.gpu:
        bytes_s.append(flows.hbm_bytes / (machine.gpu.peak_bandwidth_bytes_per_s * machine.gpus))
        flop_s.append(flows.gpu_peak_s / machine.gpus)
    for name, amount in _bytes(flows).items():
        if name in capacities:
            bytes_s.append(amount / capacities[name][0])
    if machine.cpu:
        flop_s.append(flows.cpu_flop / (machine.cpu.peak_flop_per_s * machine.nodes))
    units = _near_data_units(flows, machine)
    if units:
        flop_s.append(flows.ndp_peak_s / (units * machine.nodes))
    return max(bytes_s), max(flop_s)


def _near_data_units(flows: Flows, machine: Machine) -> int:
    """Near-data units at work on a node: of the kind that computes, or of both."""
    dimm, cxl = machine.dimm_ndp, machine.cxl_ndp
    if flows.ndp_flop and flows.cxl_flop and dimm and cxl:
        return dimm.units + cxl.units
    ndp = dimm if flows.ndp_flop else cxl
    return ndp.units if ndp else 0


def _bytes(flows: Flows) -> dict[str, float]:
    return {
        "dram": flows.dram_bytes,
        "ndp": flows.ndp_bytes,
        "cxl": flows.cxl_bytes,
        "pcie": flows.pcie_bytes,
        "cxl_link": flows.cxl_link_bytes,
        "scaleup": flows.scaleup_bytes,
        "network": flows.network_bytes,
    }


def _domains(lanes: dict[Lane, float], flows: Flows, machine: Machine, step_s: float) -> tuple[Domain, ...]:
    found: list[Domain] = []
    capacities = _capacities(machine)

    def moved(name: str, amount: float) -> dict[str, float | None]:
        peak, achieved = capacities[name]
        return {
            "bytes": amount,
            "byte_share": amount / (peak * step_s),
            "achieved_share": amount / (achieved * step_s),
        }

    def add(ident: str, lane: Lane, flop_share: float | None = None, **rest: float | None) -> None:
        # A link whose time is booked on the device that waits for it is busy for as long as its bytes take.
        busy = max(lanes.get(lane, 0.0), (rest.get("achieved_share") or 0.0) * step_s)
        found.append(
            Domain(
                id=ident, name=LANE_NAMES[lane], busy_s=busy, busy_share=busy / step_s, flop_share=flop_share, **rest
            )
        )

    if machine.gpu:
        hbm_peak = machine.gpu.peak_bandwidth_bytes_per_s * machine.gpus
        add(
            "gpu",
            "gpu",
            flows.gpu_peak_s / (machine.gpus * step_s),
            bytes=flows.hbm_bytes,
            byte_share=flows.hbm_bytes / (hbm_peak * step_s),
            achieved_share=flows.hbm_achieved_s / (machine.gpus * step_s),
        )
    if machine.cpu and (flows.cpu_flop or "cpu" in lanes):
        add("cpu", "cpu", flows.cpu_flop / (machine.cpu.peak_flop_per_s * machine.nodes * step_s))
    if "dram" in capacities and flows.dram_bytes:
        add("dram", "dram", **moved("dram", flows.dram_bytes))
    units = _near_data_units(flows, machine)
    if units and (flows.ndp_flop or flows.cxl_flop):
        kind = "ndp" if flows.ndp_flop > 0 else "cxl"
        if flows.ndp_flop and flows.cxl_flop:  # units of both kinds in one domain
            kind = "both"
            capacities[kind] = tuple(a + b for a, b in zip(capacities["ndp"], capacities["cxl"], strict=True))  # type: ignore[assignment]
        share = flows.ndp_peak_s / (units * machine.nodes * step_s)
        amount = {"ndp": flows.ndp_bytes, "cxl": flows.cxl_bytes, "both": flows.ndp_bytes + flows.cxl_bytes}[kind]
        add("ndp", "ndp", share, **moved(kind, amount))
    if flows.pcie_bytes and "pcie" in capacities:
        add("link", "link", **moved("pcie", flows.pcie_bytes))
    if flows.cxl_link_bytes and "cxl_link" in capacities:
        add("cxl_link", "cxl_link", **moved("cxl_link", flows.cxl_link_bytes))
    name = "scaleup" if flows.scaleup_bytes >= flows.network_bytes else "network"
    if name in capacities and (flows.scaleup_bytes or flows.network_bytes):
        add("network", "network", **moved(name, max(flows.scaleup_bytes, flows.network_bytes)))
    return tuple(found)
