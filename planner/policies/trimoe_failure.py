"""An NDP unit of TriMoE that fails: the step before, during and after, and the time to recover.

What TriMoE (arXiv 2603.01058) names as future work and does not describe; everything here is ours. The experts that lie
on the failed unit are read again from a source copy: the unit's own DIMM (its processor fails, its memory is still
read over the channel), a second copy on the other DIMMs, or storage (in both, the memory is lost with the processor).
They go to a spare unit that idled before, or to the other units, each expert to the least loaded of its layer.

Rebuild runs beside decoding on a share q of the narrowest part of its way, P bytes/s: it takes ``R / (q P)`` seconds,
and what it reads and writes is taken from the host channels and from the ranks of the units that it touches. The step
during rebuild is that of its beginning, when no expert is back yet: they run on CPU or GPU, read from the source copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.devices import Dram, Ndp
from planner.errors import PlanError
from planner.physics.operation import Array
from planner.policies.base import Option

FAILURE = Option(
    "ndp_failure",
    "choice",
    "none",
    "an NDP unit fails: hot-spare (one unit idles until it takes over) or re-homing (its experts go to the others)",
    choices=("none", "hot-spare", "re-homing"),
)
STATE = Option(
    "failure_state",
    "choice",
    "before",
    "what this plan shows: before the failure, during rebuild, or after it (the report always has all three)",
    choices=("before", "during", "after"),
)
UNIT = Option("failed_unit", "int", 0, "number of the NDP unit that fails, from 0", low=0, high=1023)
SOURCE = Option(
    "rebuild_from",
    "choice",
    "dimm",
    "where the failed unit's experts are read again: dimm (its processor failed, its memory is still read), copy (a "
    "second copy on the other DIMMs, memory lost) or storage (memory lost; no step runs until it is reloaded)",
    choices=("dimm", "copy", "storage"),
)
SHARE = Option(
    "rebuild_share", "float", 0.5, "share of the narrowest link on its way that rebuild takes", low=0.01, high=0.9
)
OPTIONS = (FAILURE, STATE, UNIT, SOURCE, SHARE)


@dataclass(frozen=True)
class Failure:
    """The options, read."""

    spare: bool
    state: str
    unit: int
    source: str
    share: float

    @property
    def lost(self) -> bool:
        """Whether the memory is lost with the processor."""
        return self.source != "dimm"

    @property
    def gone(self) -> bool:
        """Whether the failed DIMM is out of the machine in this state."""
        return self.lost and self.state != "before"


def failure(ctx: Context) -> Failure | None:
    """The failure that the scenario asks for; None without one."""
    kind = str(ctx.option(FAILURE.name, "none"))
    if kind == "none":
        return None
    return Failure(
        kind == "hot-spare",
        str(ctx.option(STATE.name, "before")),
        int(ctx.option(UNIT.name, 0)),
        str(ctx.option(SOURCE.name, "dimm")),
        float(ctx.option(SHARE.name, 0.5)),
    )


def check(ctx: Context) -> None:
    """Refuse a failure that this machine cannot have: PlanError, one sentence."""
    asked = failure(ctx)
    if asked is None:
        return
    units = _ndp(ctx).units
    if units < 2:
        raise PlanError(
            f"policy.options.ndp_failure is {ctx.option('ndp_failure', 'none')!r}, which needs at least 2 NDP units; "
            f"this system has {units}."
        )
    working = units - asked.spare
    if asked.unit >= working:
        raise PlanError(
            f"policy.options.failed_unit is {asked.unit}; {working} units work on this system, so it takes 0 to "
            f"{working - 1}."
        )
    if asked.source == "storage":
        if ctx.machine.figures.get("storage.read_bandwidth_bytes_per_s") is None:
            raise PlanError(
                "policy.options.rebuild_from is 'storage', but storage.read_bandwidth_bytes_per_s is missing for this "
                "system; set it in system.overrides, or take dimm or copy."
            )
        if asked.state == "during":
            raise PlanError(
                "policy.options.failure_state is 'during', but no step runs while experts reload from storage; take "
                "before or after, or rebuild_from dimm or copy."
            )


def _ndp(ctx: Context) -> Ndp:
    assert ctx.machine.dimm_ndp is not None
    return ctx.machine.dimm_ndp


def _dram(ctx: Context) -> Dram:
    assert ctx.machine.dram is not None
    return ctx.machine.dram


def dealt_units(ctx: Context) -> int:
    """Units that experts are dealt to before anything fails."""
    asked = failure(ctx)
    return _ndp(ctx).units - (1 if asked is not None and asked.spare else 0)


def reserve_bytes(ctx: Context, expert_bytes: float) -> tuple[tuple[str, float], ...]:
    """What one copy of the model must leave free, or hold twice, in the host DIMMs: (item, bytes)."""
    asked = failure(ctx)
    if asked is None:
        return ()
    units = dealt_units(ctx)
    if asked.lost:
        room = _ndp(ctx).capacity_bytes
    else:
        room = -(-ctx.experts // units) * ctx.moe_layers * expert_bytes
    items = [("room for a failed unit", room)]
    if asked.source == "copy":
        items.append(("second copies of experts", expert_bytes * ctx.experts * ctx.moe_layers))
    return tuple(items)


# --- the machine in a state ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Rebuild:
    """Rates of the rebuild, bytes/s."""

    rate: float
    host_rate: float  # what it takes from the host channels: reads and writes
    unit_rate: float  # what it takes from each working unit's ranks


def rebuild_rate(ctx: Context, asked: Failure) -> Rebuild:
    """Narrowest part of the way from the source copy to where the experts go, times the share that rebuild takes.

    Over the host: read from a channel (dimm), all channels (copy) or storage, written to a channel (spare) or all of
    them, and into the ranks of the working units. DIMM-Link is not used: its bridge is part of the unit that failed.
    """
    dram, ndp = _left(ctx, asked)
    working = _ndp(ctx).units - 1
    channel, host = dram.channel_bandwidth_bytes_per_s, dram.bandwidth_bytes_per_s
    if asked.source == "storage":
        storage = ctx.machine.figures.value("storage.read_bandwidth_bytes_per_s")
        return Rebuild(min(storage, channel if asked.spare else host), 0.0, 0.0)
    touched = (0.0 if asked.spare else 1.0) + (1.0 if asked.source == "copy" else 0.0)
    narrowest = min(host / 2.0, channel if asked.spare or asked.source == "dimm" else host)
    if touched:
        narrowest = min(narrowest, working * ndp.rank_bandwidth_bytes_per_s / touched)
    rate = asked.share * narrowest
    return Rebuild(rate, 2.0 * rate, touched * rate / working)


def _left(ctx: Context, asked: Failure) -> tuple[Dram, Ndp]:
    """Host memory and units that are left in the state asked for."""
    dram, ndp = _dram(ctx), _ndp(ctx)
    if not asked.gone:
        return dram, ndp
    channels = dram.channels
    if dram.dimms <= dram.channels and dram.channels > 1:  # one DIMM on each channel: its channel is gone too
        channels -= 1
    left = channels / max(dram.channels, 1)
    dram = replace(
        dram,
        dimms=dram.dimms - 1,
        channels=channels,
        peak_bandwidth_bytes_per_s=dram.peak_bandwidth_bytes_per_s * left,
        bandwidth_bytes_per_s=dram.bandwidth_bytes_per_s * left,
        cpu_bandwidth_bytes_per_s=dram.cpu_bandwidth_bytes_per_s * left,
        cpu_kv_bandwidth_bytes_per_s=dram.cpu_kv_bandwidth_bytes_per_s * left,
        capacity_bytes=dram.capacity_bytes - ndp.capacity_bytes,
    )
    return dram, replace(ndp, units=ndp.units - 1)


def view(ctx: Context) -> Context:
    """The machine that experts see in the state asked for; ``ctx`` itself without a failure."""
    asked = failure(ctx)
    if asked is None or asked.state == "before":
        return ctx
    dram, ndp = _left(ctx, asked)
    if asked.state == "during":
        rebuild = rebuild_rate(ctx, asked)
        left = 1.0 - rebuild.host_rate / dram.bandwidth_bytes_per_s
        dram = replace(
            dram,
            bandwidth_bytes_per_s=dram.bandwidth_bytes_per_s * left,
            cpu_bandwidth_bytes_per_s=dram.cpu_bandwidth_bytes_per_s * left,
            cpu_kv_bandwidth_bytes_per_s=dram.cpu_kv_bandwidth_bytes_per_s * left,
        )
        free = 1.0 - rebuild.unit_rate / ndp.rank_bandwidth_bytes_per_s
        ndp = replace(
            ndp,
            bandwidth_bytes_per_s=ndp.bandwidth_bytes_per_s * free,
            rank_bandwidth_bytes_per_s=ndp.rank_bandwidth_bytes_per_s * free,
        )
    return replace(ctx, machine=replace(ctx.machine, dram=dram, dimm_ndp=ndp))


# --- where the experts of the failed unit are ------------------------------------------------------------------------
def rehomed(home: NDArray[np.int16], near_s: Array, failed: int, units: int) -> NDArray[np.int16]:
    """Homes after the failed unit's experts went to the others: the costliest first, each to the least loaded unit.

    home: int16 [layers, experts]; near_s: float64 [layers, experts], expected seconds on a unit. Other experts stay.
    """
    out = home.copy()
    for layer in range(home.shape[0]):
        load = np.array([near_s[layer][home[layer] == u].sum() for u in range(units)])
        load[failed] = np.inf
        mine = np.flatnonzero(home[layer] == failed)
        for expert in mine[np.argsort(-near_s[layer][mine], kind="stable")]:
            to = int(load.argmin())
            out[layer, expert] = to
            load[to] += near_s[layer, expert]
    return out


def homes(ctx: Context, home: NDArray[np.int16], near_s: Array) -> tuple[NDArray[np.int16], int]:
    """Homes in the state asked for, from those before, and the unit whose processor is dead (-1 = none of the machine
    that :func:`view` shows). Homes from ``dealt_units`` on (other kinds of units) keep their distance to the last."""
    asked = failure(ctx)
    if asked is None or asked.state == "before":
        return home, -1
    units = _ndp(ctx).units
    there = home == asked.unit
    if asked.state == "after":
        if not asked.spare:
            home = rehomed(home, near_s, asked.unit, units)
        elif not asked.lost:
            home = np.where(there, units - 1, home).astype(np.int16)
        # A spare takes the place and the number of a lost DIMM.
    elif asked.lost:
        home = np.where(there, -1, home).astype(np.int16)
    if asked.gone:  # one number less: that of the failed unit, or of the spare that took it over
        home = np.where(home > (units - 1 if asked.spare else asked.unit), home - 1, home).astype(np.int16)
    return home, asked.unit if asked.state == "during" and not asked.lost else -1


def dead_unit_reads(ctx: Context) -> float:
    """Bytes/s that CPU or GPU read from the DIMM of the dead unit while rebuild reads it too."""
    asked = failure(ctx)
    assert asked is not None
    return _dram(ctx).channel_bandwidth_bytes_per_s - rebuild_rate(ctx, asked).rate


def rebuild_bytes(ctx: Context, home: NDArray[np.int16], stored_bytes: Array, asked: Failure) -> float:
    """Bytes to bring back: experts that lie on the failed unit; where its memory is lost, its share of striped ones."""
    own = float(stored_bytes[home == asked.unit].sum())
    if asked.lost:
        own += float(stored_bytes[home < 0].sum()) / _ndp(ctx).units
    return own
