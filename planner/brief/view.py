"""A brief in the words and cells that its page shows: numbers as people read them, nothing computed."""

from __future__ import annotations

from dataclasses import dataclass

from planner.brief.records import Brief, Option, Sensitivity
from planner.brief.tables import turns_told
from planner.compare import differing
from planner.result import Assumption
from planner.words import names
from planner.words.comparison import metric_name, span_text, value_text
from planner.words.findings import moves_text
from planner.words.formats import (
    DASH,
    EN_DASH,
    NBSP,
    PREFIXES,
    bits,
    capital,
    count,
    dollars,
    fixed,
    plain_range,
    prefixed,
    significant,
    trimmed,
)

CARDS = (
    "tokens_per_s_end_to_end",
    "tpot_s",
    "ttft_s",
    "usd_per_million_output_tokens",
    "usd_per_month",
    "energy_j_per_output_token",
)
SOURCE_CHARACTERS = 400
PLAIN = ("share", "factor", "count")  # units that are no more than a number
SENSITIVITY_HEAD = ("Input", "Value and range", "Moves TPOT by, low / high", "Moves cost by, low / high")
NO_TARGETS = "None is set: what a user waits for is not judged here."


@dataclass(frozen=True)
class Fact:
    """A name, what stands large, and what stands under it."""

    name: str
    value: str
    note: str = ""


def cards(brief: Brief) -> list[Fact]:
    """The headline figures, each with its range."""
    head = brief.headline
    found = []
    for key in CARDS:
        value = getattr(head, key)
        span = _with_unit(key, value, span_text(key, value, (head.intervals or {}).get(key)))
        per = {
            "tokens_per_s_end_to_end": "per system",
            "usd_per_million_output_tokens": "per million tokens",
            "usd_per_month": _systems(brief),
            "energy_j_per_output_token": "at the wall",
        }.get(key, "")
        found.append(Fact(metric_name(key), value_text(key, value), "; ".join(filter(None, [span, per]))))
    return found


def _with_unit(key: str, value: float | None, span: str) -> str:
    """A range with the unit of its value, so that it reads alone."""
    if not span:
        return ""
    return f"${span}" if key.startswith("usd") else f"{span}{NBSP}{value_text(key, value).partition(NBSP)[2]}"


def _systems(brief: Brief) -> str:
    n, spare = brief.headline.systems_needed or 1, brief.capacity.spare_systems if brief.capacity else 0
    text = "one system" if n == 1 else f"{count(n)} systems"
    return f"{text} and {count(spare)} spare" if spare else text


def power(brief: Brief) -> list[Fact]:
    """Power and carbon."""
    energy, capacity = brief.energy, brief.capacity
    if energy is None or capacity is None:
        return []
    carbon = energy.gco2e_per_million_output_tokens
    grams = f"{significant(carbon / 1000)}\u00a0kg" if carbon >= 1000 else f"{significant(carbon)}\u00a0g"
    grid = f"at {trimmed(brief.scenario.economics.grid_gco2e_per_kwh)} g/kWh"
    return [
        Fact("Power while decoding", str(prefixed(energy.average_w, "W", from_=1e3)), "one system, at the wall"),
        Fact("Peak power", str(prefixed(energy.peak_w, "W", from_=1e3)), "one system"),
        Fact("Mean power", str(prefixed(1e3 * capacity.average_kw, "W", from_=1e3)), "all systems, PUE included"),
        Fact("Carbon", f"{grams}\u00a0CO\u2082e", f"per million output tokens, {grid}"),
    ]


def option_cells(one: Option) -> list[str]:
    """The cells of an option: its figures and whether it meets the targets."""
    figures = one.figures
    keys = ("tokens_per_s_end_to_end", "tpot_s", "usd_per_million_output_tokens", "usd_per_month")
    cells = [value_text(key, figures.get(key)) for key in keys]
    met = {True: "met", False: "missed", None: "none set" if one.fits else DASH}[one.meets_targets]
    return [*cells, met, DASH if one.expert_bits is None else bits(one.expert_bits)]


OPTION_HEAD = (
    "Option", "Per system, end to end", "TPOT", "Per million output tokens", "Per month, all systems", "Targets",
    "Bits per expert weight",
)  # fmt: skip


def role(one: Option) -> str:
    """What an option is in this brief."""
    if one.recommended and one.is_this:
        return "recommended, this plan"
    return "recommended" if one.recommended else "this plan" if one.is_this else "alternative"


def sensitivity_cells(one: Sensitivity) -> list[str]:
    """Name, range, and how TPOT and cost move over it."""
    value, span = figure(one.value, one.low, one.high, one.unit)
    return [capital(one.label), f"{value} ({span})", _percent(moves_text(one.moves_tpot)),
            _percent(moves_text(one.moves_cost))]  # fmt: skip


def _percent(text: str) -> str:
    return f"{text}\u202f%" if text else DASH


def assumption_cells(one: Assumption) -> list[str]:
    """Label, value with unit, range, kind, source with date."""
    value, span = figure(one.value, one.low, one.high, one.unit)
    source = one.source if len(one.source) <= SOURCE_CHARACTERS else one.source[: SOURCE_CHARACTERS - 1] + "\u2026"
    return [capital(one.label), value, span, one.kind, ", ".join(filter(None, [source, one.date or ""]))]


def figure(value: float | str, low: float | None, high: float | None, unit: str) -> tuple[str, str]:
    """Value with unit and range with the same prefix, three digits each: ``17.2 GB`` and ``8.59 - 68.7``."""
    if isinstance(value, str):
        return value, ""
    factor, prefix = next(((f, p) for f, p in PREFIXES if abs(value) >= f >= 1e6), (1.0, ""))
    if unit.startswith("USD"):
        return f"${trimmed(value, 3)}{unit.removeprefix('USD')}", _span(low, high)
    if unit == "s" and 0 < abs(value) < 0.1:
        factor, prefix = (1e-3, "m") if abs(value) >= 1e-4 else (1e-6, "\u00b5")
    elif unit.startswith("J/"):
        factor, prefix = 1e-12, "p"
    name = f"{prefix}{unit.replace('bytes', 'B', 1)}" if prefix else "" if unit in PLAIN else unit
    ends = [None if end is None else end / factor for end in (low, high)]
    shown = significant(value / factor) if prefix else trimmed(value, 3)
    return f"{shown}\u00a0{name}".strip("\u00a0"), _span(*ends)


def _span(low: float | None, high: float | None) -> str:
    if low is None or high is None or low == high:
        return plain_range(low, high)
    ends = (significant(end) if abs(end) >= 1000 else trimmed(end, 3) for end in (low, high))
    return f"{NBSP}{EN_DASH}{NBSP}".join(ends)


def input_text(value: str | float | bool | None) -> str:
    """An input as it was set."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else trimmed(value, 6)


def bill_cells(brief: Brief) -> list[list[str]]:
    """The bill of materials of one system."""
    rows = [
        [line.name, fixed(line.count, 0) if float(line.count).is_integer() else trimmed(line.count),
         dollars(line.unit_price_usd), dollars(line.total_usd),
         ("edited; " if line.edited else "") + ", ".join(filter(None, [line.kind, line.source, line.date or ""]))]
        for line in brief.bill
    ]  # fmt: skip
    if rows and brief.cost is not None and brief.cost.capex_usd is not None:
        rows.append(["One system", "", "", dollars(brief.cost.capex_usd), ""])
    return rows


def stamp(brief: Brief) -> str:
    """Engine, catalog and scenario that the figures belong to."""
    return f"Engine {brief.engine_version}, catalog {brief.catalog_digest[:12]}, scenario {brief.scenario_hash[:12]}"


def turns(brief: Brief) -> tuple[str, ...]:
    """What would change the decision."""
    return turns_told(brief)


def option_rows(brief: Brief) -> list[list[str]]:
    """The inputs in which the options differ, in words: name with unit, and the value of each."""
    rows = differing([one.scenario for one in brief.options]) if brief.options else ()
    return [[f"{row.label}, {row.unit}" if row.unit else row.label, *row.values] for row in rows]


def bound(brief: Brief) -> str:
    """What bounds a decode step."""
    return names.bound(brief.headline.bound_by) if brief.headline.bound_by else ""
