"""What to watch once the machine runs: the figure, its target, and what the plan predicts for a decode step."""

from __future__ import annotations

from collections.abc import Iterator

from planner.evaluate import Evaluation
from planner.result import Domain, Monitor
from planner.words.formats import share

GPU_BUSY = 0.60
PCIE_BUSY = 0.80
NDP_OPS_PER_CYCLE = 0.8


def monitor(found: Evaluation) -> tuple[Monitor, ...]:
    """Figures to watch for the parts that the plan uses; empty where nothing was timed."""
    if found.decode is None:
        return ()
    domains = {domain.id: domain for domain in found.decode.step.domains}
    return tuple(_items(found, domains))


def _items(found: Evaluation, domains: dict[str, Domain]) -> Iterator[Monitor]:
    gpu, link = domains.get("gpu"), domains.get("link")
    system = found.ctx.machine.figures.system
    if gpu is not None and gpu.busy_s > 0:
        yield Monitor(
            id="gpu_busy",
            what="GPU utilisation (share of time with a kernel running)",
            target=f"above {share(GPU_BUSY)}",
            predicted=gpu.busy_share,
            met=gpu.busy_share > GPU_BUSY,
            note="" if gpu.busy_share > GPU_BUSY else "the GPU waits for another part; see where the time goes",
        )
    if link is not None and link.bytes:
        yield Monitor(
            id="pcie_busy",
            what=f"{'PCIe' if system.has('pcie.generation') else 'Link'} utilisation, host to GPU",
            target=f"below {share(PCIE_BUSY)}",
            predicted=link.busy_share,
            met=link.busy_share < PCIE_BUSY,
            note=""
            if link.busy_share < PCIE_BUSY
            else "the link is the bottleneck: more resident experts or fewer bytes",
        )
    near = domains.get("ndp")
    if near is not None and near.busy_s > 0:
        rate = None if near.flop_share is None else near.flop_share / near.busy_share
        yield Monitor(
            id="ndp_operations",
            what="Operations per cycle of a near-data unit, while it works",
            target=f"above {NDP_OPS_PER_CYCLE:g}",
            predicted=rate,
            note="predicted as the share of its peak rate while it works; below, its memory is the limit or few tokens "
            "share an expert",
        )
    cores, sockets = (found.ctx.machine.figures.system.get(f"cpu.{name}") for name in ("cores_per_socket", "sockets"))
    cpu = domains.get("cpu")
    if cores and sockets and cpu is not None and cpu.busy_s > 0:
        yield Monitor(
            id="threads",
            what="Threads that compute experts",
            target=f"{cores * sockets:.0f}, one on each physical core, pinned; no SMT siblings",
        )
