"""CXL-NDP beside DIMM-NDP: cold experts of TriMoE over units of both kinds, each with its own rates, memory and link.

What TriMoE (arXiv 2603.01058) names as future work; the physics is that of the DIMM units and of the CXL device as they
are alone. Every expert keeps its copy in the host DIMMs, from which CPU and GPU read it, so a CXL device adds compute
and bandwidth for cold experts, not room for a larger model. Activations of experts that run there cross the CXL link
before and after. Units of DIMMs have the numbers 0 to N - 1, CXL devices those after.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.devices import Ndp
from planner.errors import PlanError
from planner.physics import collective, transfers
from planner.physics.experts import spread
from planner.physics.memory import Tier, cxl_tier
from planner.physics.operation import Array
from planner.policies.base import Option
from planner.policies.hybrid import counts_rows
from planner.policies.near_data import check_widths
from planner.step import Pass

COLD = Option(
    "cold_units",
    "choice",
    "dimm",
    "near-data units that hold cold experts: dimm, or dimm+cxl where the system has CXL-NDP too",
    choices=("dimm", "dimm+cxl"),
)


def wanted(ctx: Context) -> bool:
    return str(ctx.option(COLD.name, "dimm")) != "dimm"


def check(ctx: Context) -> None:
    """Refuse CXL units that are not there or cannot compute the format: PlanError, one sentence."""
    if not wanted(ctx):
        return
    if ctx.machine.cxl_ndp is None or ctx.machine.cxl_link is None:
        raise PlanError(
            "policy.options.cold_units is 'dimm+cxl', but this system has no CXL-NDP device; add one with "
            "system.overrides cxl.count, or take dimm."
        )
    check_widths(ctx, "cxl_ndp", (w for w, _ in ctx.other_widths()))


def device(ctx: Context) -> Ndp:
    assert ctx.machine.cxl_ndp is not None
    return ctx.machine.cxl_ndp


def room_per_layer(ctx: Context, resident: int, expert_bytes: float) -> int:
    """Cold experts of a layer that CXL devices take at most: their share of the rates of all units (the larger of
    compute and bandwidth), as far as their memory goes."""
    cxl, dimm = device(ctx), ctx.machine.dimm_ndp
    assert dimm is not None
    share = max(
        cxl.units * a / (cxl.units * a + dimm.units * b)
        for a, b in (
            (cxl.flop_per_s, dimm.flop_per_s),
            (cxl.bandwidth_bytes_per_s, dimm.bandwidth_bytes_per_s),
        )
    )
    held = int(cxl.capacity_bytes // (expert_bytes * max(ctx.moe_layers, 1))) * cxl.units
    return min(held, ceil(share * (ctx.experts - resident)))


def tier(ctx: Context, resident: int, expert_bytes: float, copies: int) -> Tier:
    """Ledger of the CXL devices."""
    found = cxl_tier(ctx.machine)
    count = room_per_layer(ctx, resident, expert_bytes)
    units = device(ctx).units
    fullest = ceil(count / units) * expert_bytes * ctx.moe_layers * copies / ctx.machine.nodes
    found.add("cold experts", count * expert_bytes * ctx.moe_layers * copies, fullest)
    return found


def deal_both(
    dimm_s: Array, cxl_s: Array, cold: NDArray[np.bool_], dimms: int, first: int, devices: int, room: int
) -> NDArray[np.int16]:
    """Home of each cold expert over units of both kinds, int16 [layers, experts], -1 for the others.

    dimm_s, cxl_s: float64 [layers, experts], seconds of an expert on a unit of either kind. The costliest first, each
    to the unit that would be done with it soonest; ``dimms`` units numbered from 0 and ``devices`` from ``first``, the
    latter with ``room`` experts of a layer at most, all together evenly.
    """
    home = np.full(cold.shape, -1, np.int16)
    numbers = np.concatenate([np.arange(dimms), first + np.arange(devices)])
    for layer in range(cold.shape[0]):
        mine = np.flatnonzero(cold[layer])
        load = np.zeros(dimms + devices)
        left = np.full(dimms + devices, ceil(len(mine) / max(dimms, 1)))
        left[dimms:] = [room // devices + (d < room % devices) for d in range(devices)]
        for expert in mine[np.argsort(-dimm_s[layer][mine], kind="stable")]:
            after = load + np.where(np.arange(len(load)) < dimms, dimm_s[layer, expert], cxl_s[layer, expert])
            unit = int(np.where(left > 0, after, np.inf).argmin())
            home[layer, expert] = numbers[unit]
            load[unit] = after[unit]
            left[unit] -= 1
    return home


def add_activations(ctx: Context, run: Pass, counts: np.ndarray, on_cxl: NDArray[np.bool_]) -> None:
    """Tokens to the CXL devices and results back, in front of and behind the three domains, and the commands."""
    cxl, link = device(ctx), ctx.machine.cxl_link
    assert link is not None
    used = np.where(on_cxl, counts, 0).sum(axis=2)
    # A token crosses once for each device that it has experts on.
    vectors = np.minimum(used, counts_rows(counts, ctx) * collective.distinct_ranks(ctx.top_k, cxl.units))
    moved = vectors * ctx.hidden_bytes
    rate = min(link.bytes_per_s * cxl.units, ctx.machine.host_to_gpus_bytes_per_s)
    run.phase("hand-over to CXL").add("cxl_link", "link", "link", spread(ctx, 2.0 * moved / rate))
    run.flows.cxl_link_bytes += float(moved.mean(axis=0).sum())
    transfers.add_latency(run, spread(ctx, 2.0 * cxl.command_s * (used > 0)))
