"""How many systems a load needs: capacity arithmetic. Nothing queues here, and the note says so."""

from __future__ import annotations

import math
from collections.abc import Iterable

from planner.economics import BillLine, electricity_usd_per_hour, fixed_usd_per_hour
from planner.energy import HOURS_PER_MONTH, Consumption, Figures
from planner.result import Capacity
from planner.scenario import Economics, Workload

SECONDS_PER_DAY = 86_400.0


def load_requests_per_s(workload: Workload) -> float | None:
    """The offered load in requests per second; None when the workload states no load."""
    if workload.requests_per_s is not None:
        return workload.requests_per_s
    if workload.output_tokens_per_day is not None:
        return workload.output_tokens_per_day / SECONDS_PER_DAY / workload.output_tokens
    return None


def systems_for(load: float, system_requests_per_s: float, target_utilisation: float) -> int:
    """Fewest systems (at least one) that carry the load, each used at most to the target."""
    exact = load / (system_requests_per_s * target_utilisation)
    # A load that is a whole number of systems must not cost one more because of the last bit.
    return max(1, math.ceil(exact * (1 - 1e-12)))


def capacity(
    system: Figures, bill: Iterable[BillLine], workload: Workload, economics: Economics, drawn: Consumption
) -> Capacity:
    """Systems, spares, USD per month and mean kW for the load of the workload.

    Without a load: one system at the busy share of the economics. With a load: the money and the power are
    those of the systems at the utilisation that this load gives them, spares idling; a note says when that
    differs from the busy share on which USD per token rests. What a served run loses to ramp, tail and waits is what
    the target utilisation leaves room for; it is not taken off once more here.
    """
    load = load_requests_per_s(workload)
    needed = 1
    utilisation: float | None = None
    busy = economics.busy_share
    note = "Capacity arithmetic without queueing: requests are taken to arrive evenly and the batch to be always full."
    if load is not None:
        needed = systems_for(load, drawn.mix.requests_per_s, workload.target_utilisation)
        busy = utilisation = min(1.0, load / (drawn.mix.requests_per_s * needed))
        if abs(utilisation - economics.busy_share) > 0.005:
            note += (
                f" The month is at the utilisation of this load, {utilisation:.0%}; the cost per token is at the"
                f" busy share of {economics.busy_share:.0%}."
            )
    spares = workload.spare_systems
    watts = needed * drawn.average_w(busy) + spares * drawn.idle_w
    fixed = sum(fixed_usd_per_hour(system, bill, economics).values())
    usd_per_hour = (needed + spares) * fixed + electricity_usd_per_hour(economics, watts)
    return Capacity(
        load_requests_per_s=load,
        system_requests_per_s=drawn.mix.requests_per_s,
        systems_needed=needed,
        spare_systems=spares,
        utilisation=utilisation,
        usd_per_month=usd_per_hour * HOURS_PER_MONTH,
        average_kw=watts / 1000 * economics.pue,
        note=note,
    )
