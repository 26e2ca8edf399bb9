"""The machine of a run, as parts and figures of a scenario's system."""

from __future__ import annotations

import math

from hardware import Device, devices, find_device
from planner.fields.sentences import nearest
from validation.measured.runs import Run

BASE_GPU = "1x-h100-sxm"
"""The frame that parts are put into: one GPU, one socket; every figure that matters is stated by the run."""
ROOM_BYTES = 2.0**42
"""Host memory of a run that worked: its size is not stated and was enough."""
GPUS_PER_NODE = 8
SERVING = ("vllm", "sglang", "tensorrt-llm")
UNUSED_SHARE = 0.1
"""Of GPU memory that serving engines leave alone unless told otherwise (vLLM gpu_memory_utilization 0.9)."""
LEAST_RESERVE_BYTES = 0.5 * 2**30
"""Of a run that worked although more did not fit."""


class UnmappableError(Exception):
    """A run that no scenario describes, with the reason in one sentence."""


def device_of(name: str, kind: str) -> Device:
    """The catalog device that a source's name means. Raises UnmappableError, naming the nearest."""
    found = find_device(name) or _loosely(name, kind)
    if found is None or found.kind != kind:
        names = {d.name: d for d in devices() if d.kind == kind}
        names.update({alias: d for d in devices() if d.kind == kind for alias in d.aliases})
        close = nearest(name, names, cutoff=0.3)
        hint = f"; the nearest is {close[0]!r}" if close else ""
        raise UnmappableError(f"{kind} {name[:80]!r} is not in the catalog{hint}")
    return found


def _loosely(name: str, kind: str) -> Device | None:
    """The only device whose id, name or alias holds every word of the name."""
    words = [w for w in name.casefold().replace("-", " ").split() if w not in ("nvidia", "intel", "amd", "geforce")]
    found = [
        d
        for d in devices()
        if d.kind == kind
        and any(
            all(w in text.casefold().replace("-", " ").split() for w in words) for text in (d.id, d.name, *d.aliases)
        )
    ]
    return found[0] if len(found) == 1 else None


def system_fields(run: Run) -> dict[str, object]:
    """Fields of ``scenario.system`` for the run's machine. Raises UnmappableError."""
    fields: dict[str, object] = {"id": BASE_GPU}
    figures: dict[str, float] = {"dram.capacity_bytes": ROOM_BYTES}
    if run.gpu:
        gpu = device_of(run.gpu, "gpu")
        fields["gpu"] = gpu.id
        _gpus(run, gpu, figures)
    else:
        figures["gpu.count_per_node"] = 0
    if run.cpu:
        fields["cpu"] = device_of(run.cpu, "cpu").id
    elif not run.gpu:
        raise UnmappableError("neither a GPU nor a CPU is named")
    _host(run, figures)
    fields["overrides"] = figures
    return fields


def _gpus(run: Run, gpu: Device, figures: dict[str, float]) -> None:
    count = max(run.n_gpu, 1)
    if run.parallelism.startswith("pd:"):
        count = max(count // 2, 1)  # prefill and decode each on their half
    server = gpu.platform == "server" or "sxm" in gpu.id or gpu.id.startswith(("mi3", "h", "b", "gb", "a100"))
    per_node = count if count <= GPUS_PER_NODE or not server else GPUS_PER_NODE
    figures["gpu.count_per_node"] = per_node
    figures["pcie.host_uplinks"] = per_node
    if count > per_node:
        figures["node.count"] = math.ceil(count / per_node)
        figures["nic.count"] = per_node
    if run.pcie_gen:
        figures["pcie.generation"] = run.pcie_gen
    capacity = gpu.figures["gpu.memory_capacity_bytes"].value or 0.0
    serving = run.system_family in SERVING
    figures["gpu.reserve_bytes"] = UNUSED_SHARE * capacity if serving else LEAST_RESERVE_BYTES


def _host(run: Run, figures: dict[str, float]) -> None:
    sockets = run.sockets or 1
    share = 1.0
    if run.numa_mode in ("unaware", "single node only") and sockets > 1:
        share, sockets = 1.0 / sockets, 1
    figures["cpu.sockets"] = sockets
    if run.cores_per_socket:
        figures["cpu.cores_per_socket"] = run.cores_per_socket
    if run.mem_GBps_theoretical:
        figures["dram.bandwidth_bytes_per_s"] = run.mem_GBps_theoretical * 1e9 * share
    elif run.mem_channels and run.mem_MTs:
        figures["dram.bandwidth_bytes_per_s"] = run.mem_channels * run.mem_MTs * 8e6 * share
    elif run.mem_GBps_measured:
        figures["dram.bandwidth_bytes_per_s"] = run.mem_GBps_measured / 0.75 * 1e9 * share
