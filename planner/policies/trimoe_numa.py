"""Two CPU sockets under TriMoE: experts interleaved over both, or each placed on one socket.

What TriMoE (arXiv 2603.01058) names as future work; the physics is ours. With B the achieved rate of all channels, F
the compute of both sockets and L the link between them (one direction), an expert of W bytes takes on the CPU

    interleaved:  max(f(n; F), W / B, W / (4 L))    every second page is remote: W/4 crosses in each direction
    placed:       max(f(n; F / 2), W / (B / 2))     its socket's cores and channels; the later socket sets the time

A localised expert is read over its one channel; interleaved, half of it crosses: ``max(W / channel, W / (2 L))``.
NDP DIMMs belong to the sockets in order, half to each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.context import Context
from planner.errors import PlanError
from planner.physics.operation import Array
from planner.policies.base import Option

FITTED, INTERLEAVED, PLACED = "fitted", "interleaved", "placed"
LINK = "cpu.socket_link_bandwidth_bytes_per_s"
NUMA = Option(
    "numa",
    "choice",
    FITTED,
    "experts over two sockets: fitted (both together reach a share fitted to published measurements), interleaved "
    "(pages over both, half of them read over the link between sockets) or placed (each expert on one socket)",
    choices=(FITTED, INTERLEAVED, PLACED),
)
SOCKETS = 2


def mode(ctx: Context) -> str:
    return str(ctx.option(NUMA.name, FITTED))


def sockets(ctx: Context) -> int:
    """CPU domains that the schedule knows."""
    return SOCKETS if mode(ctx) == PLACED else 1


def check(ctx: Context) -> None:
    """Refuse what this machine cannot answer: PlanError, one sentence."""
    chosen, cpu, dram = mode(ctx), ctx.machine.cpu, ctx.machine.dram
    if chosen == FITTED:
        return
    assert cpu is not None and dram is not None
    if cpu.sockets != SOCKETS:
        raise PlanError(
            f"policy.options.numa is {chosen!r}, which needs 2 CPU sockets; this system has {cpu.sockets}, so it takes "
            "fitted."
        )
    if chosen == PLACED and dram.channels % SOCKETS:
        raise PlanError("policy.options.numa is 'placed', which needs as many memory channels on each socket.")
    if chosen == INTERLEAVED and link_bytes_per_s(ctx) is None:
        name = ctx.machine.figures.cpu_name or "this CPU"
        raise PlanError(
            f"policy.options.numa is 'interleaved', but no measurement of the link between two sockets of {name} was "
            f"seen; set {LINK} in system.overrides, or take placed or fitted."
        )


def link_bytes_per_s(ctx: Context) -> float | None:
    """One direction of the link between the sockets, achieved; None where nobody measured it."""
    return ctx.machine.figures.get(LINK)


def view(ctx: Context) -> Context:
    """The machine with the rates of one CPU domain: of both sockets together, or of one of them."""
    if mode(ctx) == FITTED:
        return ctx
    cpu, dram = ctx.machine.cpu, ctx.machine.dram
    assert cpu is not None and dram is not None
    numa = ctx.machine.figures.value("cpu.numa_compute_efficiency")
    scale = 1.0 / numa / sockets(ctx)
    cpu = replace(
        cpu,
        matrix_flop_per_s=cpu.matrix_flop_per_s * scale if cpu.matrix_flop_per_s else None,
        vector_flop_per_s=cpu.vector_flop_per_s * scale,
        block_flop_per_s=cpu.block_flop_per_s * scale,
    )
    dram = replace(dram, cpu_bandwidth_bytes_per_s=dram.bandwidth_bytes_per_s / sockets(ctx))
    return replace(ctx, machine=replace(ctx.machine, cpu=cpu, dram=dram))


def striped_rate(ctx: Context) -> float | None:
    """Bytes/s at which CPU or GPU read a striped expert where it is not that of all channels; None elsewhere."""
    return ctx.machine.dram.bandwidth_bytes_per_s / SOCKETS if mode(ctx) == PLACED and ctx.machine.dram else None


def remote_s(ctx: Context, stored_bytes: Array, localised: np.ndarray) -> Array | None:
    """Seconds in which the link between the sockets carries an expert's remote half; None where nothing crosses."""
    link = link_bytes_per_s(ctx) if mode(ctx) == INTERLEAVED else None
    if link is None:
        return None
    return np.where(localised, stored_bytes / (2.0 * link), stored_bytes / (4.0 * link))


def socket_of_unit(units: int) -> np.ndarray:
    """Socket that each NDP DIMM hangs on, int64 [units]."""
    return np.arange(units) * SOCKETS // max(units, 1)
