"""The economics of a brief as a chain of formulas: what a spreadsheet computes again when a price is changed.

Each line is an input with its value, or a formula over other lines by their names in braces, with the value that it has
today. The formulas are those of :mod:`planner.economics`, :mod:`planner.energy` and :mod:`planner.capacity`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.brief.records import Brief
from planner.energy import HOURS_PER_MONTH, HOURS_PER_YEAR, J_PER_KWH

Kind = Literal["heading", "input", "formula", "result"]


@dataclass(frozen=True)
class Line:
    """One line of the sheet; ``value`` is what it shows today, ``planned`` what the plan says (results only)."""

    key: str
    label: str
    kind: Kind
    unit: str = ""
    value: float | str | None = None
    formula: str = ""
    planned: float | None = None
    note: str = ""


def lines(brief: Brief) -> list[Line]:
    """All lines, each after those that it reads. Empty where the plan has no cost."""
    cost, energy, capacity, money = brief.cost, brief.energy, brief.capacity, brief.scenario.economics
    if cost is None or energy is None or capacity is None or energy.idle_w is None:
        return []
    s_out, s_in = cost.machine_s_per_output_token, cost.machine_s_per_input_token
    if s_out is None or s_in is None:
        return []
    work, owned = brief.scenario.workload, cost.mode == "owned"
    j_out, j_in, idle = energy.j_per_output_token, energy.j_per_input_token, energy.idle_w
    load = capacity.load_requests_per_s
    found = [Line("", "Prices", "heading")]
    found += _machine(brief) if owned else [
        Line("rent", "Rent of the whole system", "input", "USD/h", cost.usd_per_hour - money.other_usd_per_month
             / HOURS_PER_MONTH, note="electricity included")
    ]  # fmt: skip
    hourly = (cost.capex_usd or 0.0) / (money.life_years * HOURS_PER_YEAR) if owned else float(found[-1].value or 0)
    fixed = hourly + money.other_usd_per_month / HOURS_PER_MONTH
    busy, price, pue = money.busy_share, money.electricity_usd_per_kwh if owned else 0.0, money.pue
    idle_hour = idle * (1 - busy) / busy / 1000 * pue * price
    request_s = work.prompt_tokens * s_in + work.output_tokens * s_out
    working = (work.prompt_tokens * j_in + work.output_tokens * j_out) / request_s
    used = busy if capacity.utilisation is None else capacity.utilisation
    n, spare = capacity.systems_needed, capacity.spare_systems
    watts = n * (used * working + (1 - used) * idle) + spare * idle
    found += [
        Line("other", "Other costs of one system", "input", "USD/month", money.other_usd_per_month),
        Line("power_price", "Electricity", "input", "USD/kWh", price,
             note="" if owned else "0: the rent includes it"),
        Line("pue", "PUE", "input", "", pue),
        Line("grid", "Carbon intensity of the grid", "input", "gCO2e/kWh", money.grid_gco2e_per_kwh),
        Line("busy", "Busy share", "input", "share", busy, note="hours without work are paid by those with work"),
        Line("", "What the plan gives", "heading"),
        Line("s_out", "Machine time of one output token", "input", "s", s_out),
        Line("s_in", "Machine time of one prompt token", "input", "s", s_in),
        Line("j_out", "Energy of one output token, at the wall", "input", "J", j_out),
        Line("j_in", "Energy of one prompt token, at the wall", "input", "J", j_in),
        Line("idle", "Idle power of one system, at the wall", "input", "W", idle),
        Line("", "Load", "heading"),
        Line("prompt", "Prompt tokens of a request", "input", "tokens", work.prompt_tokens),
        Line("output", "Output tokens of a request", "input", "tokens", work.output_tokens),
        Line("load", "Requests per second, all systems", "input", "1/s", load,
             note="empty: one system at the busy share"),
        Line("target", "Target utilisation", "input", "share", work.target_utilisation),
        Line("spare", "Spare systems", "input", "systems", spare),
        Line("", "Cost of tokens", "heading"),
        Line("fixed", "Due every hour, busy or not", "formula", "USD/h", fixed,
             ("{capex}/({life}*" + f"{HOURS_PER_YEAR:.0f})" if owned else "{rent}")
             + f"+{{other}}/{HOURS_PER_MONTH:.0f}"),
        Line("idle_hour", "Idle electricity for each working hour", "formula", "USD/h", idle_hour,
             "{idle}*(1-{busy})/{busy}/1000*{pue}*{power_price}"),
        Line("working_hour", "A working hour of the machine", "formula", "USD/h", fixed / busy + idle_hour,
             "{fixed}/{busy}+{idle_hour}"),
        Line("usd_out", "Cost of a million output tokens", "result", "USD", cost.usd_per_million_output_tokens,
             f"{{working_hour}}/3600*{{s_out}}*1000000+{{j_out}}/{J_PER_KWH:.0f}*{{pue}}*{{power_price}}*1000000",
             cost.usd_per_million_output_tokens),
        Line("usd_in", "Cost of a million prompt tokens", "result", "USD", cost.usd_per_million_input_tokens,
             f"{{working_hour}}/3600*{{s_in}}*1000000+{{j_in}}/{J_PER_KWH:.0f}*{{pue}}*{{power_price}}*1000000",
             cost.usd_per_million_input_tokens),
        Line("", "Systems and the month", "heading"),
        Line("request_s", "Machine time of a request", "formula", "s", request_s,
             "{prompt}*{s_in}+{output}*{s_out}"),
        Line("systems", "Systems needed", "result", "systems", n,
             "IF(ISNUMBER({load}),MAX(1,ROUNDUP({load}*{request_s}/{target}*(1-0.000000000001),0)),1)", n),
        Line("used", "Utilisation of these systems", "formula", "share", used,
             "IF(ISNUMBER({load}),MIN(1,{load}*{request_s}/{systems}),{busy})"),
        Line("working_w", "Power while working", "formula", "W", working,
             "({prompt}*{j_in}+{output}*{j_out})/{request_s}"),
        Line("watts", "Mean power of all systems, at the wall", "formula", "W", watts,
             "{systems}*({used}*{working_w}+(1-{used})*{idle})+{spare}*{idle}"),
        Line("kw", "Mean power of all systems, PUE included", "result", "kW", capacity.average_kw,
             "{watts}/1000*{pue}", capacity.average_kw),
        Line("usd_month", "Cost per month, all systems", "result", "USD", capacity.usd_per_month,
             f"(({{systems}}+{{spare}})*{{fixed}}+{{watts}}/1000*{{pue}}*{{power_price}})*{HOURS_PER_MONTH:.0f}",
             capacity.usd_per_month),
        Line("", "Carbon", "heading"),
        Line("carbon", "Carbon of a million output tokens", "result", "gCO2e",
             energy.gco2e_per_million_output_tokens,
             f"({{j_out}}+{{idle}}*(1-{{busy}})/{{busy}}*{{s_out}})*1000000/{J_PER_KWH:.0f}*{{pue}}*{{grid}}",
             energy.gco2e_per_million_output_tokens),
    ]  # fmt: skip
    return found


def _machine(brief: Brief) -> list[Line]:
    """The bill of materials: number times price of each part, and what it adds up to."""
    found: list[Line] = []
    for index, part in enumerate(brief.bill):
        found += [
            Line(f"n{index}", f"{part.name}, number", "input", "parts", part.count),
            Line(f"p{index}", f"{part.name}, price of one", "input", "USD", part.unit_price_usd,
                 note=", ".join(filter(None, [part.kind, part.source, part.date or ""]))),
        ]  # fmt: skip
    total = "+".join(f"{{n{index}}}*{{p{index}}}" for index in range(len(brief.bill))) or "0"
    capex = brief.cost.capex_usd if brief.cost is not None else None
    return [
        *found,
        Line("capex", "Price of one system", "result", "USD", capex, total, capex),
        Line("life", "Life", "input", "years", brief.scenario.economics.life_years),
    ]
