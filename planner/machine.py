"""The devices of a system, read once from its figures.

Every read is recorded, so that a Result can list exactly the figures that it rests on.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hardware import System
from planner.devices import Cpu, Dram, Figures, Gpu, Link, Machine, Ndp


def _link(f: Figures, name: str) -> Link | None:
    peak = f.get(f"{name}.bandwidth_bytes_per_s")
    if not peak:
        return None
    return Link(peak, peak * f(f"{name}.efficiency"), f.get(f"{name}.latency_s") or 0.0)


def _host_link(f: Figures) -> Link | None:
    """The link of one GPU, no faster than the engine's copies."""
    link = _link(f, "pcie")
    limit = f.get("pcie.copy_limit_bytes_per_s")
    return replace(link, bytes_per_s=min(link.bytes_per_s, limit)) if link and limit else link


def _host_to_gpus(f: Figures, pcie: Link | None) -> float:
    if pcie is None:
        return 0.0
    together = f.get("pcie.host_bandwidth_bytes_per_s")
    alone = pcie.bytes_per_s * max(f.count("gpu.count_per_node"), 1)
    links = min(alone, together * f("pcie.efficiency")) if together else alone
    return min(links, f.get("pcie.host_copy_limit_bytes_per_s") or math.inf)


def _gpu(f: Figures, system: System, nodes: int) -> Gpu | None:
    per_node = f.count("gpu.count_per_node")
    if per_node < 1 or f.system.get("gpu.memory_bandwidth_bytes_per_s") is None:
        return None
    # The power limit scales compute, not memory: clocks of the SMs fall first. Linear is the conservative reading.
    tdp, limit = f.get("gpu.tdp_w"), f.system.get("gpu.power_limit_w")
    power = min(1.0, limit / tdp) if tdp and limit else 1.0
    peaks: dict[str, float | None] = {}
    for rate, path in (
        ("bf16", "gpu.bf16_flop_per_s"),
        ("fp8", "gpu.fp8_flop_per_s"),
        ("int8", "gpu.int8_op_per_s"),
        ("fp4", "gpu.fp4_flop_per_s"),
    ):
        value = f.system.get(path)
        peaks[rate] = value * power if value else None
    if peaks["bf16"] is None:  # cards before BF16 compute 16-bit products as FP16
        half = f.get("gpu.fp16_flop_per_s")
        peaks["bf16"] = half * power if half else None
    f.get("gpu.bf16_flop_per_s")
    return Gpu(
        per_node=per_node,
        nodes=nodes,
        device_class=system.gpu_class,
        peak_flop_per_s=peaks,
        compute_efficiency_max=f("gpu.compute_efficiency_max"),
        compute_half_tokens=f("gpu.compute_half_tokens"),
        peak_bandwidth_bytes_per_s=f("gpu.memory_bandwidth_bytes_per_s"),
        bandwidth_efficiency=f("gpu.bandwidth_efficiency"),
        kv_bandwidth_efficiency=f("gpu.kv_bandwidth_efficiency"),
        overlap=f("gpu.overlap"),
        capacity_bytes=f("gpu.memory_capacity_bytes"),
        reserve_bytes=f("gpu.reserve_bytes"),
        layer_launch_s=f("gpu.layer_launch_s"),
        layer_launch_tp_s=f("gpu.layer_launch_tp_s"),
        layer_launch_eager_s=f("gpu.layer_launch_eager_s"),
        layer_uncaptured_s=f("gpu.layer_uncaptured_s"),
        serving_efficiency=f("gpu.serving_efficiency"),
        step_overhead_s=f("gpu.step_overhead_s"),
        sequence_overhead_s=f("gpu.sequence_overhead_s"),
        kernel_launch_s=f("gpu.kernel_launch_s"),
        kernel_launch_eager_s=f("gpu.kernel_launch_eager_s"),
        request_overhead_s=f("gpu.request_overhead_s"),
        request_serial_s=f("gpu.request_serial_s"),
        captured_batch_max=f("gpu.captured_batch_max"),
    )


def _cpu(f: Figures, system: System) -> Cpu | None:
    sockets = f.count("cpu.sockets")
    if sockets < 1 or f.system.get("cpu.vector_flop_per_s") is None:
        return None
    # Two sockets add their units, but experts sliced over them wait for each other.
    numa = f("cpu.numa_compute_efficiency") if sockets > 1 else 1.0
    matrix = f.get("cpu.bf16_flop_per_s")
    vector = f("cpu.vector_flop_per_s")
    cores, clock = f.get("cpu.cores_per_socket"), f.get("cpu.base_clock_hz")
    achieved = vector * f("cpu.vector_efficiency")
    blocks = cores * clock * f("cpu.block_flop_per_cycle") if cores and clock else achieved
    return Cpu(
        sockets=sockets,
        device_class=system.cpu_class,
        matrix_flop_per_s=matrix * f("cpu.matrix_efficiency") * sockets * numa if matrix else None,
        vector_flop_per_s=achieved * sockets * numa,
        block_flop_per_s=blocks * sockets * numa,
        cores=round(cores or 0) * sockets,
        peak_flop_per_s=max(matrix or 0.0, vector, blocks) * sockets,
        tile_rows=f("cpu.tile_rows"),
        vector_tokens_max=f("cpu.vector_tokens_max"),
        overlap=f("cpu.overlap"),
        low_bit_extra_bits=f("cpu.low_bit_extra_bits"),
        layer_sync_s=f("cpu.layer_sync_s"),
        thread_sync_s=f("cpu.thread_sync_s"),
        reserve_bytes=f("cpu.reserve_bytes"),
    )


def _dram(f: Figures) -> Dram | None:
    peak = f.get("dram.bandwidth_bytes_per_s")
    if not peak:
        return None
    sockets = f.count("cpu.sockets")
    numa = f("cpu.numa_efficiency") if sockets > 1 else 1.0
    dimms = f.count("dram.dimms")
    return Dram(
        peak_bandwidth_bytes_per_s=peak,
        bandwidth_bytes_per_s=peak * f("dram.read_efficiency"),
        cpu_bandwidth_bytes_per_s=peak * f("dram.read_efficiency") * numa,
        cpu_kv_bandwidth_bytes_per_s=peak * min(f("cpu.kv_bandwidth_efficiency"), f("dram.read_efficiency")) * numa,
        capacity_bytes=f("dram.capacity_bytes"),
        dimms=dimms,
        channels=max(sockets, 1) * f.count("dram.channels_per_socket"),
        ranks_per_dimm=f.count("dram.ranks_per_dimm"),
    )


def _dimm_ndp(f: Figures) -> Ndp | None:
    units = f.count("ndp.count")
    if units < 1:
        return None
    rank = f("ndp.rank_bandwidth_bytes_per_s")
    internal = f("ndp.internal_bandwidth_bytes_per_s")
    flop = f("ndp.flop_per_s")
    efficiency = f("ndp.bandwidth_efficiency")
    return Ndp(
        kind="dimm_ndp",
        units=units,
        peak_flop_per_s=flop,
        flop_per_s=flop * f("ndp.compute_efficiency"),
        peak_bandwidth_bytes_per_s=internal,
        bandwidth_bytes_per_s=internal * efficiency,
        rank_bandwidth_bytes_per_s=max(f.count("dram.ranks_per_dimm"), 1) * rank * efficiency,
        tile_rows=f("ndp.tile_rows"),
        overlap=f("ndp.overlap"),
        command_s=f("ndp.command_s"),
        capacity_bytes=f("dram.capacity_bytes_per_dimm"),
        buffer_bytes=f.get("ndp.buffer_bytes"),
    )


def _cxl_ndp(f: Figures) -> Ndp | None:
    units = f.count("cxl.count")
    flop = f.system.get("cxl.flop_per_s")
    if units < 1 or not flop:
        return None
    internal = f("cxl.internal_bandwidth_bytes_per_s")
    f("cxl.flop_per_s")
    return Ndp(
        kind="cxl_ndp",
        units=units,
        peak_flop_per_s=flop,
        flop_per_s=flop * f("cxl.compute_efficiency"),
        peak_bandwidth_bytes_per_s=internal,
        bandwidth_bytes_per_s=internal * f("cxl.bandwidth_efficiency"),
        rank_bandwidth_bytes_per_s=internal * f("cxl.bandwidth_efficiency"),
        tile_rows=f("cxl.tile_rows"),
        overlap=f("cxl.overlap"),
        command_s=f("cxl.doorbell_s") + f("cxl.completion_s"),
        capacity_bytes=f("cxl.capacity_bytes"),
    )


def _cxl_link(f: Figures, pcie: Link | None, bounce: bool, dram: Dram | None) -> Link | None:
    port = f.get("cxl.port_bandwidth_bytes_per_s")
    if not port or pcie is None:
        return None
    achieved = min(port * f("cxl.port_efficiency"), pcie.bytes_per_s)
    peak = min(port, pcie.peak_bytes_per_s)
    if bounce:  # through a host buffer: written to DRAM, then read again; the two copies follow each other
        achieved = 1.0 / (1.0 / (port * f("cxl.port_efficiency")) + 1.0 / pcie.bytes_per_s)
        if dram:
            achieved = min(achieved, dram.bandwidth_bytes_per_s / 2)
    return Link(peak, achieved, pcie.latency_s)


def machine(system: System, *, cxl_bounce: bool = False) -> Machine:
    """Read a resolved system. ``cxl_bounce`` sends GPU-CXL traffic through host DRAM instead of peer to peer."""
    f = Figures(system)
    nodes = max(f.count("node.count"), 1)
    # One memory for CPU and GPU is the GPU tier; counting it again as host memory would hold two models in it.
    pcie, dram = _host_link(f), None if system.unified_memory else _dram(f)
    return Machine(
        figures=f,
        nodes=nodes,
        gpu=_gpu(f, system, nodes),
        cpu=_cpu(f, system),
        dram=dram,
        dimm_ndp=_dimm_ndp(f),
        cxl_ndp=_cxl_ndp(f),
        pcie=pcie,
        host_crossings=f("pcie.host_crossings") if pcie else 1.0,
        host_to_gpus_bytes_per_s=_host_to_gpus(f, pcie),
        cxl_link=_cxl_link(f, pcie, cxl_bounce, dram),
        scaleup=_link(f, "scaleup"),
        network=_link(f, "network"),
        unified_memory=system.unified_memory,
    )
