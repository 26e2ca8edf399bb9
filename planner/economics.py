"""What a token costs: the machine's hours, its electricity and everything else, paid by the tokens it makes.

Everything is charged by machine time: a token pays for the seconds of the whole system that it occupies, and
for the joules that those seconds draw. Hours without work are paid by the hours with work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from planner.energy import HOURS_PER_MONTH, HOURS_PER_YEAR, Consumption, Counts, Figures
from planner.errors import PlanError
from planner.result import Cost, Share
from planner.scenario import Economics

PARTS: dict[str, str] = {
    "gpu": "GPU",
    "cpu": "CPU",
    "dimms": "DIMMs",
    "ndp": "DIMM-NDP",
    "cxl": "CXL-NDP",
    "chassis": "Chassis and links",
    "electricity": "Electricity while working",
    "electricity_idle": "Electricity while idle",
    "rent": "Rent (electricity included)",
    "other": "Other",
}
# Line of the bill -> part of the price, and the figure that is missing when the line has no price.
_LINES: dict[str, tuple[str, str]] = {
    "gpu": ("gpu", "gpu.price_usd"),
    "cpu": ("cpu", "cpu.price_usd"),
    "dimm": ("dimms", "dram.price_usd_per_gb"),
    "ndp": ("ndp", "ndp.premium_usd"),
    "cxl": ("cxl", "cxl.price_usd"),
    "nic": ("chassis", "nic.price_usd"),
    "chassis": ("chassis", "chassis.price_usd"),
}


class BillLine(Protocol):
    """One line of :func:`hardware.bill_of_materials`, as far as money reads it."""

    @property
    def id(self) -> str: ...

    @property
    def total_usd(self) -> float | None: ...


def capex_by_part(system: Figures, bill: Iterable[BillLine]) -> dict[str, float]:
    """USD of one system by part, in the fixed order. Raises the catalog's error for a line without a price."""
    usd: dict[str, float] = {}
    for line in bill:
        part, price_path = _LINES[line.id]
        if line.total_usd is None:
            system.value(price_path)
            raise PlanError(f"the price of {line.id!r} is missing; set {price_path}")
        usd[part] = usd.get(part, 0.0) + line.total_usd
    return {part: usd[part] for part in PARTS if part in usd}


def rent_usd_per_hour(system: Figures, economics: Economics) -> float:
    """Rent of the whole system, USD/h: as given, else the catalog's rent per GPU times the GPUs."""
    if economics.rent_usd_per_hour is not None:
        return economics.rent_usd_per_hour
    gpus = Counts.of(system).gpus
    if gpus == 0:
        raise PlanError(
            "economics.rent_usd_per_hour is empty, and a system without a GPU has no catalog rent; "
            "give the rent of the whole system in USD per hour"
        )
    return system.value("gpu.rent_usd_per_hour") * gpus


def fixed_usd_per_hour(system: Figures, bill: Iterable[BillLine], economics: Economics) -> dict[str, float]:
    """USD per hour of one system that are due whether it works or not, by part; electricity is not among them."""
    hourly: dict[str, float] = {}
    if economics.mode == "owned":
        life_h = economics.life_years * HOURS_PER_YEAR
        hourly.update((part, usd / life_h) for part, usd in capex_by_part(system, bill).items())
    else:
        hourly["rent"] = rent_usd_per_hour(system, economics)
    if economics.other_usd_per_month:
        hourly["other"] = economics.other_usd_per_month / HOURS_PER_MONTH
    return hourly


def electricity_usd_per_hour(economics: Economics, watts: float) -> float:
    """USD per hour for watts at the wall, PUE included; nothing for a rented system, whose rent includes it."""
    if economics.mode == "rented":
        return 0.0
    return watts / 1000 * economics.pue * economics.electricity_usd_per_kwh


def cost(system: Figures, bill: Iterable[BillLine], economics: Economics, drawn: Consumption) -> Cost:
    """Cost of a token, an hour and a month of one system.

    With b the busy share and t the machine time of one token: USD per token = t x (fixed USD per hour + idle
    electricity per hour x (1 - b)) / b + the electricity of the token's own joules. A rented system pays no
    electricity: the rent includes it. Raises the catalog's error when a price that is needed is missing.
    """
    bill = tuple(bill)
    busy, mix = economics.busy_share, drawn.mix
    fixed = fixed_usd_per_hour(system, bill, economics)
    # USD per working hour: hours without work are paid by those with work.
    per_working_hour = {part: usd / busy for part, usd in fixed.items()}
    per_working_hour["electricity_idle"] = electricity_usd_per_hour(economics, drawn.waiting_w(busy))

    def usd_per_million(seconds_per_token: float, joules_per_token: float) -> dict[str, float]:
        parts = {part: usd / 3600 * seconds_per_token * 1e6 for part, usd in per_working_hour.items()}
        # 1 W for 1 h is 3600 J: the token's own joules at the hourly price of a watt.
        parts["electricity"] = electricity_usd_per_hour(economics, joules_per_token / 3600) * 1e6
        return {part: parts[part] for part in PARTS if parts.get(part, 0.0) > 0}

    output = usd_per_million(mix.seconds_per_output_token, drawn.decode.j_per_token)
    prompt = usd_per_million(mix.seconds_per_input_token, drawn.prefill.j_per_token)
    usd_per_hour = sum(fixed.values()) + electricity_usd_per_hour(economics, drawn.average_w(busy))
    owned = capex_by_part(system, bill) if economics.mode == "owned" else {}
    return Cost(
        mode=economics.mode,
        capex_usd=sum(owned.values()) if owned else None,
        bill_of_materials=tuple(Share(id=part, name=PARTS[part], value=usd) for part, usd in owned.items()),
        by_part=tuple(Share(id=part, name=PARTS[part], value=usd) for part, usd in output.items()),
        usd_per_hour=usd_per_hour,
        usd_per_million_input_tokens=sum(prompt.values()),
        usd_per_million_output_tokens=sum(output.values()),
        usd_per_month_one_system=usd_per_hour * HOURS_PER_MONTH,
        machine_s_per_output_token=mix.seconds_per_output_token,
        machine_s_per_input_token=mix.seconds_per_input_token,
    )
