"""TriMoE's schedule where it has more domains than three: a CPU for each socket, near-data units of two kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.context import Context
from planner.physics.operation import Array
from planner.policies import trimoe_cxl, trimoe_numa
from planner.policies.near_data import host_read_rate
from planner.policies.trimoe_futures import FuturePlaced, unit_sockets, view
from planner.result import ScheduleReport
from planner.schedule import ScheduleResult
from planner.schedule_domains import DomainProblem, DomainSchedule, improve_domains, lower_bound_s, schedule_domains


@dataclass(frozen=True)
class WideResult(ScheduleResult):
    """A schedule with more domains; ``cpu_s``, ``host_s``: the later socket; ``ndp_s``: units of both kinds."""

    busiest_socket: np.ndarray
    """int64 [rows]"""


@dataclass(frozen=True)
class Axes:
    """Where each domain is among the resources: GPU, the CPUs, DIMM units, CXL units, host channels by socket."""

    sockets: int
    dimms: int
    devices: int

    @property
    def units(self) -> slice:
        return slice(1 + self.sockets, 1 + self.sockets + self.dimms + self.devices)

    @property
    def host(self) -> slice:
        return slice(self.units.stop, self.units.stop + self.sockets)


def wanted(ctx: Context) -> bool:
    """Whether the switches give the schedule domains that TriMoE's own does not have."""
    return trimoe_numa.sockets(ctx) > 1 or trimoe_cxl.wanted(ctx)


def axes(ctx: Context) -> Axes:
    dimm = view(ctx).machine.dimm_ndp
    assert dimm is not None
    return Axes(trimoe_numa.sockets(ctx), dimm.units, trimoe_cxl.device(ctx).units if trimoe_cxl.wanted(ctx) else 0)


def problem(
    ctx: Context, where: FuturePlaced, counts: np.ndarray, costs: dict[str, Any], base_gpu: Array
) -> DomainProblem:
    """The scheduling problem of every sampled step and layer."""
    shape = counts.shape
    rows, count = shape[0] * shape[1], shape[2]
    found = axes(ctx)

    def flat(values: Any) -> np.ndarray:
        return np.ascontiguousarray(np.broadcast_to(values, shape).reshape(rows, count))

    home, socket = where.home.astype(np.int64), where.socket
    on_dimm = (home >= 0) & (home < found.dimms)
    reads = where.stored.bytes
    unit = 1 + found.sockets + np.maximum(home, 0)
    base = np.zeros((rows, found.host.stop))
    base[:, 0] = np.tile(base_gpu, shape[0])
    return DomainProblem(
        own_s=np.stack([flat(costs["gpu_s"]), flat(costs["cpu"].seconds), flat(costs["ndp_s"])], axis=2),
        where=np.stack([flat(0), flat(1 + socket), flat(np.where(home >= 0, unit, 0))], axis=2),
        reads=np.stack([flat(np.where(where.resident, 0.0, reads)), flat(reads), flat(0.0)], axis=2),
        # Rows of the table: striped over the DIMMs of a socket (or all), then lying on one DIMM.
        pattern=flat(np.where(on_dimm, found.sockets + home, socket)),
        table=_table(ctx, found),
        tokens=flat(counts),
        layout=flat(np.where(where.resident, 0, np.where(home >= 0, 2, 1))),
        base_s=base,
    )


def _table(ctx: Context, found: Axes) -> np.ndarray:
    """Seconds on each resource of one byte that CPU or GPU read: [sockets + DIMMs, resources]."""
    seen = view(ctx)
    dram = seen.machine.dram
    assert dram is not None
    table = np.zeros((found.sockets + found.dimms, found.host.stop))
    socket_of = unit_sockets(ctx) if found.sockets > 1 else np.zeros(found.dimms, int)
    rank_s = 1.0 / host_read_rate(seen, "dimm_ndp")
    channels_s = found.sockets / dram.bandwidth_bytes_per_s
    first = found.units.start
    for socket in range(found.sockets):
        mine = np.flatnonzero(socket_of == socket)
        table[socket, first + mine] = rank_s / max(len(mine), 1)
        table[socket, found.host.start + socket] = channels_s
    for dimm in range(found.dimms):
        table[found.sockets + dimm, first + dimm] = rank_s
        table[found.sockets + dimm, found.host.start + socket_of[dimm]] = channels_s
    return table


def schedule(made: DomainProblem, found: Axes, start: int, chosen: str) -> WideResult:
    """``chosen``: published, improved or greedy, as the policy's option."""
    if chosen == "improved":
        return _result(improve_domains(made), found)
    return _result(schedule_domains(made, start, refine=chosen != "greedy"), found)


def _result(done: DomainSchedule, found: Axes) -> WideResult:
    cpus = done.load_s[:, 1 : 1 + found.sockets]
    return WideResult(
        domain=done.domain,
        makespan_s=done.makespan_s,
        gpu_s=done.load_s[:, 0],
        cpu_s=cpus.max(axis=1),
        ndp_s=np.ascontiguousarray(done.load_s[:, found.units]),
        host_s=done.load_s[:, found.host].max(axis=1),
        moves=done.moves,
        busiest_socket=cpus.argmax(axis=1),
    )


def report(made: DomainProblem, found: Axes, start: int, chosen: str) -> ScheduleReport:
    """One sampled step as published and improved, beside what no assignment beats."""
    runs = {name: schedule(made, found, start, name) for name in ("published", "improved", "greedy")}
    seconds = {name: float(run.makespan_s.sum()) for name, run in runs.items()}
    bound_s = float(lower_bound_s(made).sum())
    return ScheduleReport(
        mode=chosen,
        published_s=seconds["published"],
        improved_s=seconds["improved"],
        used_s=seconds[chosen],
        lower_bound_s=bound_s,
        gap=seconds[chosen] / bound_s - 1.0 if bound_s > 0 else None,
        moves_per_layer=float(runs["published"].moves.mean()),
    )
