"""Where TriMoE starts: which experts are striped for the CPU, and which DIMM each of the others lies on."""

from __future__ import annotations

import numpy as np

from planner.context import Context
from planner.deal import deal
from planner.physics.experts import Stored
from planner.policies.trimoe_costs import expected_costs
from planner.routing import RoutingState


def starting_layout(
    ctx: Context, routing: RoutingState, stored: Stored, resident: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Striped (for the CPU) or localised (one DIMM each): the split by learnt load that balances the two.

    Experts outside HBM are sorted by expected load; the first m go to the CPU, the rest to the DIMMs, m where
    ``max(sum CPU, sum NDP / DIMMs)`` of the expected costs is least. DIMMs are dealt out by expected NDP time.
    """
    ndp = ctx.machine.dimm_ndp
    assert ndp is not None
    pairs = routing.tokens_per_pass * ctx.top_k
    share = routing.profile / np.maximum(routing.profile.sum(axis=1, keepdims=True), 1e-30)
    mean = np.minimum(share * pairs, routing.tokens_per_pass)
    _, *others = expected_costs(ctx, mean, stored)
    cpu, near = (np.where(resident, 0.0, seconds) for seconds in others)
    order = np.argsort(np.where(resident, np.inf, -mean), axis=1, kind="stable")
    cpu_sum = np.cumsum(np.take_along_axis(cpu, order, 1), axis=1)
    near_sum = np.cumsum(np.take_along_axis(near, order, 1), axis=1)
    zero = np.zeros((cpu.shape[0], 1))
    on_cpu = np.hstack([zero, cpu_sum])
    on_ndp = (near_sum[:, -1:] - np.hstack([zero, near_sum])) / ndp.units
    split = np.argmin(np.maximum(on_cpu, on_ndp), axis=1)
    rank = np.argsort(order, axis=1)
    striped = (rank < split[:, None]) & ~resident
    home = deal(np.where(resident | striped, -1.0, near), ndp.units)
    return striped, home
