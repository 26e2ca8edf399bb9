"""Where TriMoE starts: which experts are striped for the CPU, and which DIMM each of the others lies on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.deal import deal
from planner.physics.experts import Stored
from planner.physics.operation import Array
from planner.policies import trimoe_cxl
from planner.policies.trimoe_costs import expected_costs
from planner.policies.trimoe_failure import dealt_units
from planner.policies.trimoe_numa import sockets, view
from planner.routing import RoutingState


class Start(NamedTuple):
    """Where experts lie at first, all [moe_layers, experts]."""

    striped: NDArray[np.bool_]
    home: NDArray[np.int16]  # unit, -1 = striped or resident
    warm_s: Array  # expected seconds of a step on the CPU
    near_s: Array  # expected seconds of a step on a DIMM's unit


def starting_layout(
    ctx: Context, routing: RoutingState, stored: Stored, resident: np.ndarray, warm: Stored | None = None
) -> Start:
    """Striped (for the CPU) or localised (one DIMM each): the split by learnt load that balances the two.

    Experts outside HBM are sorted by expected load; the first m go to the CPU, the rest to the DIMMs, m where
    ``max(sum CPU, sum NDP / DIMMs)`` of the expected costs is least. DIMMs are dealt out by expected NDP time.
    ``warm``: form of the experts that go to the CPU, where it is one of its own. A spare unit gets none.
    """
    ndp = ctx.machine.dimm_ndp
    assert ndp is not None
    pairs = routing.tokens_per_pass * ctx.top_k
    share = routing.profile / np.maximum(routing.profile.sum(axis=1, keepdims=True), 1e-30)
    mean = np.minimum(share * pairs, routing.tokens_per_pass)
    seen = view(ctx)
    _, cpu, near = expected_costs(seen, mean, stored)
    if warm is not None:
        cpu = expected_costs(seen, mean, warm)[1]
    warm_s, near_s = cpu, near
    cpu, near = (np.where(resident, 0.0, seconds) for seconds in (cpu, near))
    order = np.argsort(np.where(resident, np.inf, -mean), axis=1, kind="stable")
    cpu_sum = np.cumsum(np.take_along_axis(cpu, order, 1), axis=1)
    units = dealt_units(ctx)
    pooled, share = near, float(units)
    if trimoe_cxl.wanted(ctx):
        cxl_s = expected_costs(seen, mean, stored, "cxl_ndp")[2]
        pooled, share = _pooled(near, cxl_s, units, trimoe_cxl.device(ctx).units), 1.0
    near_sum = np.cumsum(np.take_along_axis(pooled, order, 1), axis=1)
    zero = np.zeros((cpu.shape[0], 1))
    on_cpu = np.hstack([zero, cpu_sum]) / sockets(ctx)
    on_ndp = (near_sum[:, -1:] - np.hstack([zero, near_sum])) / share
    split = np.argmin(np.maximum(on_cpu, on_ndp), axis=1)
    rank = np.argsort(order, axis=1)
    striped = (rank < split[:, None]) & ~resident
    if trimoe_cxl.wanted(ctx):
        room = trimoe_cxl.room_per_layer(ctx, int(resident.sum(axis=1).max(initial=0)), float(stored.bytes.max()))
        devices = trimoe_cxl.device(ctx).units
        home = trimoe_cxl.deal_both(near_s, cxl_s, ~(resident | striped), units, ndp.units, devices, room)
    else:
        home = deal(np.where(resident | striped, -1.0, near), units)
    return Start(striped, home, warm_s, near_s)


def _pooled(dimm_s: Array, cxl_s: Array, dimms: int, devices: int) -> Array:
    """Seconds that all units of both kinds together need for an expert, work divided freely."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(dimm_s > 0, 1.0 / (dimms / dimm_s + devices / cxl_s), 0.0)
