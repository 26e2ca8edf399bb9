"""Energy and money: two bars with the same parts in the same order, and the table that is their legend."""

from __future__ import annotations

from html import escape

import streamlit as st

from planner.result import Cost, Energy, Result
from planner.words import findings
from planner.words.formats import NBSP, count, dollars, fixed, prefixed, range_text, share, significant
from ui import tables
from ui.charts import split
from ui.sections.common import Data, draw, pen, say, section
from ui.tables import Row, Swatch, Table
from ui.theme import HATCHED, device_colour


def show(result: Result) -> None:
    """The section; absent where there is no energy or cost."""
    energy, cost = result.energy, result.cost
    if energy is None or cost is None:
        return
    rows = split.rows(energy.by_device, cost.by_part)
    with section("Energy and money", "money", _data(result, energy, cost)):
        text = findings.money_finding(result)
        say(text)
        span = _span(result, "energy_j_per_output_token", energy.j_per_output_token)
        st.html(
            _bar_title("Energy", "at the wall:", significant(energy.j_per_output_token), "J per output token", span)
        )
        joules = [(row.id, row.name, row.energy) for row in rows if row.energy]
        draw(split.figure(joules, pen()), "energy-chart", f"Energy per output token by device. {text}")
        span = _span(result, "usd_per_million_output_tokens", cost.usd_per_million_output_tokens)
        st.html(_bar_title("Cost:", "", dollars(cost.usd_per_million_output_tokens), "per million output tokens", span))
        money = [(row.id, row.name, row.cost) for row in rows if row.cost]
        draw(split.figure(money, pen()), "cost-chart", f"Cost per million output tokens by part. {text}")
        st.html(_table(rows, energy, cost).html())
        st.html(f'<p class="tl-quiet">{escape(_small_print(result, energy, cost))}</p>')


def _span(result: Result, key: str, value: float) -> str:
    ends = (result.headline.intervals or {}).get(key)
    like = max(value, 1.0) if key.startswith("usd") and value >= 0.1 else value
    return f" ({range_text(*ends, like)})" if ends else ""


def _bar_title(what: str, where: str, value: str, unit: str, span: str) -> str:
    text = f"<b>{escape(what)}</b> {escape(where)} <b>{escape(value)}</b> {escape(unit + span)}"
    return f'<p class="tl-text">{text}</p>'


def _table(rows: list[split.Row], energy: Energy, cost: Cost) -> Table:
    joules, usd = energy.j_per_output_token, cost.usd_per_million_output_tokens
    digits = 3 if usd < 10 else 2
    body = []
    for row in rows:
        swatch = Swatch(device_colour(row.id, pen()), "hatched" if row.id in HATCHED else "")
        cells = [
            "cost only" if row.energy is None else significant(row.energy),
            "" if row.energy is None else share(row.energy / joules if joules else 0.0),
            "energy only" if row.cost is None else fixed(row.cost, digits),
            "" if row.cost is None else share(row.cost / usd if usd else 0.0),
        ]
        body.append(Row(row.name, cells, swatch=swatch))
    body.append(Row("total", [significant(joules), share(1.0), fixed(usd, digits), share(1.0)], bold=True))
    head = ["Part", "J per output token", "", "$ per M output", ""]
    return Table("Energy and cost by part", head, body, frozenset({1, 3}))


def _watts(value_w: float) -> str:
    return str(prefixed(value_w, "W", from_=1e4))


def _small_print(result: Result, energy: Energy, cost: Cost) -> str:
    parts = [
        f"{_watts(energy.average_w)} on average and {_watts(energy.peak_w)} at most",
        f"{prefixed(energy.kwh_per_month, 'kWh')} a month with PUE",
        f"{prefixed(energy.gco2e_per_million_output_tokens, 'g', from_=1e3)}CO\u2082e per million output tokens",
    ]
    text = "One system: " + ", ".join(parts) + ". "
    if cost.capex_usd is not None:
        text += f"It costs {dollars(cost.capex_usd)} to buy and {dollars(cost.usd_per_month_one_system)} a month. "
    else:
        text += f"Rented at {dollars(cost.usd_per_hour)} an hour, {dollars(cost.usd_per_month_one_system)} a month. "
    capacity = result.capacity
    if capacity is None:
        return text
    if capacity.load_requests_per_s is None:
        text += f"At full use it serves {significant(capacity.system_requests_per_s)} requests/s. "
    else:
        used = "" if capacity.utilisation is None else f" at {share(capacity.utilisation)} of their capacity"
        spare = f" and {count(capacity.spare_systems)} spare" if capacity.spare_systems else ""
        text += (
            f"{significant(capacity.load_requests_per_s)} requests/s need {count(capacity.systems_needed)} "
            f"{'system' if capacity.systems_needed == 1 else 'systems'}{used}{spare}: "
            f"{dollars(capacity.usd_per_month)} a month, {significant(capacity.average_kw)}{NBSP}kW with PUE. "
        )
    return text + capacity.note


def _data(result: Result, energy: Energy, cost: Cost) -> list[Data]:
    movement = Table(
        "Energy by movement",
        ["What it is used for", "J per output token", "%"],
        [
            Row(s.name, [significant(s.value), share(s.value / energy.j_per_output_token)])
            for s in energy.by_movement
            if energy.j_per_output_token
        ],
    )
    tables_ = [Data("Energy by movement", "tierline-energy-money.csv", movement, lambda: _csv(energy, cost))]
    if cost.bill_of_materials:
        bill = Table(
            "Bill of materials",
            ["Part", "USD per system"],
            [Row(s.name, [count(s.value)]) for s in cost.bill_of_materials],
        )
        tables_.append(Data("Bill of materials", "tierline-bill.csv", bill, bill.csv))
    return tables_


def _csv(energy: Energy, cost: Cost) -> str:
    rows: list[list[object]] = [["energy_j_per_output_token_by_device", s.name, s.value] for s in energy.by_device]
    rows += [["energy_j_per_output_token_by_movement", s.name, s.value] for s in energy.by_movement]
    rows += [["usd_per_million_output_tokens", s.name, s.value] for s in cost.by_part]
    rows += [["bill_of_materials_usd", s.name, s.value] for s in cost.bill_of_materials]
    return tables.to_csv(["quantity", "part", "value"], rows)
