"""The futures that TriMoE (arXiv 2603.01058) names, as switches of its policy; with all off it is the published one.

Each has a file of its own: :mod:`trimoe_cxl`, :mod:`trimoe_mixed`, :mod:`trimoe_numa`, :mod:`trimoe_failure`. Here they
meet the policy: the machine that experts see, where they lie, what they cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.deal import deal
from planner.errors import PlanError
from planner.physics import experts
from planner.physics.experts import Work
from planner.physics.memory import Tier
from planner.policies import trimoe_cxl, trimoe_failure, trimoe_mixed, trimoe_numa
from planner.policies.base import TIER_CODE, Option, Placed
from planner.policies.trimoe_costs import expert_costs
from planner.policies.trimoe_layout import Start
from planner.policies.trimoe_times import on_gpu, time_table

OPTIONS: tuple[Option, ...] = (trimoe_cxl.COLD, trimoe_mixed.WARM, trimoe_numa.NUMA, *trimoe_failure.OPTIONS)
SWITCHES = (trimoe_cxl.COLD, trimoe_mixed.WARM, trimoe_numa.NUMA, trimoe_failure.FAILURE)


@dataclass(frozen=True)
class FuturePlaced(Placed):
    """A placement under one of the futures."""

    socket: NDArray[np.int64] = field(kw_only=True)  # [moe_layers, experts], socket whose cores compute it
    dead: int = field(kw_only=True)  # NDP unit whose processor is dead while its memory is read, -1 = none


def switched_on(ctx: Context) -> list[Option]:
    return [o for o in SWITCHES if ctx.option(o.name, o.default) != o.default]


def active(ctx: Context) -> bool:
    return bool(switched_on(ctx))


def check(ctx: Context) -> None:
    """Refuse what this machine cannot have: PlanError, one sentence."""
    for part in (trimoe_cxl, trimoe_mixed, trimoe_numa, trimoe_failure):
        part.check(ctx)
    chosen = ctx.option(trimoe_numa.NUMA.name, trimoe_numa.FITTED)
    if chosen != trimoe_numa.FITTED and time_table(ctx) is not None:
        raise PlanError(
            f"policy.options.numa is {chosen!r}, but a time table holds the times of all sockets together; take "
            "time_table physics, or numa fitted."
        )


def refuse_for_simulation(ctx: Context) -> None:
    """The simulation over steps knows the published machine only: PlanError where a future is switched on."""
    for option in switched_on(ctx):
        raise PlanError(
            f"policy.options.{option.name} is {ctx.option(option.name, option.default)!r}; the simulation over steps "
            f"knows it as {option.default!r} only."
        )


def held_bytes(ctx: Context, expert_bytes: float) -> float:
    """Bytes that host memory keeps room for in each expert: the larger of its forms, as any expert may turn warm."""
    warm = trimoe_mixed.warm_width(ctx)
    return expert_bytes if warm is None else max(expert_bytes, warm.expert_bytes)


def ledger(ctx: Context, host: Tier, expert_bytes: float, resident: int, copies: int) -> list[Tier]:
    """What the switches add to the host's ledger, and the tiers beside it."""
    for name, size in trimoe_failure.reserve_bytes(ctx, expert_bytes):
        host.add(name, size * copies)
    return [trimoe_cxl.tier(ctx, resident, expert_bytes, copies)] if trimoe_cxl.wanted(ctx) else []


def view(ctx: Context) -> Context:
    """The machine that experts see in a decode step; ``ctx`` itself with all switches off."""
    return trimoe_numa.view(trimoe_failure.view(ctx))


def unit_sockets(ctx: Context) -> np.ndarray:
    """Socket of each NDP DIMM of the machine that :func:`view` shows, int64 [units]."""
    ndp, asked = ctx.machine.dimm_ndp, trimoe_failure.failure(ctx)
    assert ndp is not None
    found = trimoe_numa.socket_of_unit(ndp.units)
    if asked is None or not asked.gone:
        return found
    if asked.spare:  # it takes the place and the number of the lost one
        found[asked.unit] = found[-1]
        return found[:-1]
    return np.delete(found, asked.unit)


def placed(ctx: Context, base: Placed, start: Start) -> Placed:
    """The placement in the state asked for; ``base`` itself with all switches off."""
    if not active(ctx):
        return base
    home, dead = trimoe_failure.homes(ctx, base.home, start.near_s)
    sockets = unit_sockets(ctx)
    on_dimm = (home >= 0) & (home < len(sockets))
    if trimoe_numa.sockets(ctx) > 1:
        # Residents have a copy in host memory too, on one socket like the warm ones.
        socket = deal(np.where(on_dimm, -1.0, start.warm_s), trimoe_numa.SOCKETS).astype(np.int64)
        socket = np.where(on_dimm, sockets[np.where(on_dimm, home, 0)], socket)
    else:
        socket = np.zeros(home.shape, np.int64)
    warm = trimoe_mixed.warm_width(ctx)
    dimms = len(sockets)
    tier = np.where(home >= dimms, TIER_CODE["cxl_ndp"], base.tier).astype(np.int8)
    return FuturePlaced(
        tier,
        base.resident,
        base.stored,
        base.widths if warm is None else (*base.widths, warm),
        {**base.why, TIER_CODE["cxl_ndp"]: "cold: few tokens, so the CXL device that holds a copy finishes it there"},
        home,
        one_form=base.one_form,
        socket=socket,
        dead=dead,
    )


def costs(ctx: Context, where: Placed, counts: np.ndarray) -> dict[str, Any]:
    """:func:`planner.policies.trimoe_costs.expert_costs` on the machine that the switches make of ``ctx``."""
    if not isinstance(where, FuturePlaced):
        return expert_costs(ctx, where, counts)
    seen = view(ctx)
    dram, dimm = seen.machine.dram, seen.machine.dimm_ndp
    assert dram is not None and dimm is not None
    on_cxl = where.home >= dimm.units
    size, localised, hit = where.stored.bytes, (where.home >= 0) & ~on_cxl, counts > 0
    channel = dram.channel_bandwidth_bytes_per_s
    striped = trimoe_numa.striped_rate(seen) or dram.bandwidth_bytes_per_s
    rates = (
        np.where(localised, channel, striped),
        np.where(localised, channel, dram.cpu_bandwidth_bytes_per_s),
    )
    dead = (where.home == where.dead) & (where.dead >= 0)
    if dead.any():
        left = trimoe_failure.dead_unit_reads(ctx)
        rates = (np.where(dead, left, rates[0]), np.where(dead, left, rates[1]))
    # CPU and GPU read the copy of a CXL unit's expert in the host DIMMs, which is striped.
    found = expert_costs(seen, replace(where, home=np.where(on_cxl, -1, where.home)), counts, rates)
    found["ndp_s"] = np.where(dead, np.inf, found["ndp_s"])
    if (crossing := trimoe_numa.remote_s(ctx, size, localised)) is not None:
        cpu = found["cpu"]
        found["cpu"] = Work(cpu.compute_s, np.where(hit, np.maximum(cpu.bytes_s, crossing), 0.0), cpu.overlap)
    if (warm := trimoe_mixed.warm_width(ctx)) is not None:
        found["fetched"] = _fetched_in(ctx, where, counts, warm.format, found)
    if on_cxl.any():
        mapping = str(ctx.option("ndp_compute", "gemv"))
        cxl, near = experts.on_ndp(seen, counts, where.stored, "cxl_ndp", mapping), found["ndp"]
        found["ndp"] = Work(
            np.where(on_cxl, cxl.compute_s, near.compute_s),
            np.where(on_cxl, cxl.bytes_s, near.bytes_s),
            np.where(on_cxl, cxl.overlap, near.overlap),
        )
        found["ndp_s"] = np.where(on_cxl & ~where.resident, found["ndp"].seconds, found["ndp_s"])
    found["gpu_s"] = np.where(
        where.resident, found["hot"].seconds, np.maximum(found["fetched"].seconds, found["link_s"])
    )
    return found


def _fetched_in(ctx: Context, where: Placed, counts: np.ndarray, fmt: str, found: dict[str, Any]) -> Work:
    """Experts that the GPU fetches, the warm ones computed in their own format."""
    gpu, fetched = ctx.machine.gpu, found["fetched"]
    assert gpu is not None
    warm = where.stored.format == len(where.widths) - 1
    own = on_gpu(ctx, counts, where.stored.bytes, fmt)
    rates = [gpu.flop_per_s(ctx.gpu_rate(f)) for f in (fmt, where.widths[0].format)]
    found["fetched_flop_per_s"] = np.where(warm, *rates)
    return Work(
        np.where(warm, own.compute_s, fetched.compute_s),
        np.where(warm, own.bytes_s, fetched.bytes_s),
        fetched.overlap,
    )
