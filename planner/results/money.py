"""Energy, money and the number of systems."""

from __future__ import annotations

from pydantic import Field

from planner.results.base import Record


class Share(Record):
    """One part of a total: of energy, money or power."""

    id: str
    name: str
    value: float


class Energy(Record):
    by_device: tuple[Share, ...] = Field(description="J per output token at the wall; adds up to the headline")
    by_movement: tuple[Share, ...] = Field(
        description="static, compute, HBM, DRAM, link; J per output token at the wall, same total"
    )
    j_per_output_token: float
    j_per_input_token: float
    average_w: float = Field(description="one system, at the wall, PUE excluded, while decoding")
    peak_w: float
    kwh_per_month: float = Field(description="one system at its busy share, PUE included")
    gco2e_per_million_output_tokens: float = Field(description="PUE included")
    idle_w: float | None = Field(None, description="one system that waits, at the wall, PUE excluded")


class Cost(Record):
    mode: str
    capex_usd: float | None = Field(None, description="one system; None when rented")
    bill_of_materials: tuple[Share, ...] = Field((), description="USD by part of the system; adds up to capex")
    by_part: tuple[Share, ...] = Field(description="USD per million output tokens; adds up to the headline")
    usd_per_hour: float = Field(description="one system, busy or not")
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    usd_per_month_one_system: float
    machine_s_per_output_token: float | None = Field(
        None, description="seconds of the whole system that one output token occupies, and pays for"
    )
    machine_s_per_input_token: float | None = Field(None, description="the same for one prompt token")


class Capacity(Record):
    """Capacity arithmetic: no queueing is modelled."""

    load_requests_per_s: float | None
    system_requests_per_s: float = Field(description="one system, steady mix of prefill and decode, at full use")
    systems_needed: int
    spare_systems: int
    utilisation: float | None = Field(None, description="of the systems needed, spares excluded")
    usd_per_month: float
    average_kw: float = Field(description="all systems, PUE included")
    note: str = "Capacity arithmetic without queueing."
