"""A comparison in words and in rows of a table: the same on the page, the command line and in an export."""

from __future__ import annotations

from planner.compare.records import Comparison, Delta, Pair
from planner.result import Interval
from planner.words import names, sureness
from planner.words.formats import (
    DASH,
    capital,
    count,
    dollars,
    listing,
    range_text,
    seconds_unit,
    signed_percent,
    significant,
    trimmed,
)

TIMES = ("ttft_s", "tpot_s")
SHARE_NAMED = 0.05  # parts below this share of the largest are left to the table


ROW_NAMES = {
    "tokens_per_s_user": "Speed per user",
    "tokens_per_s_system": "Throughput per system, decoding",
    "tokens_per_s_end_to_end": "Throughput per system, end to end",
    "prefill_tokens_per_s": "Prefill per system",
    "energy_j_per_output_token": "Energy per output token",
    "usd_per_million_input_tokens": "Cost per million input tokens",
    "usd_per_million_output_tokens": "Cost per million output tokens",
    "usd_per_month": "Cost per month, all systems",
}
"""Headline figure -> its name in a table, where no card stands around it: with what it is a figure of."""


def metric_name(metric: str) -> str:
    """A headline figure by its short name, as its card is called."""
    return capital(sureness.part_name(metric))


def value_text(metric: str, value: float | None, like: float | None = None) -> str:
    """A headline figure with its unit, times in the unit that ``like`` (or itself) reads best in."""
    if value is None:
        return DASH
    if metric in TIMES:
        factor, unit = seconds_unit(value if like is None else like)
        return f"{significant(value * factor)}\u00a0{unit}"
    if metric.startswith("usd"):
        return dollars(value)
    if metric == "systems_needed":
        return count(value)
    return f"{significant(value)}\u00a0{names.HEADLINE[metric][1].split(' per ')[0]}"


def signed_text(metric: str, value: float, like: float) -> str:
    """A change with its sign: ``+12.4 ms``, ``-$0.31``; ``like`` fixes the unit of times."""
    if value == 0:
        return "0"
    text = value_text(metric, abs(value), like)
    return ("+" if value > 0 else "\u2212") + text


def span_text(metric: str, value: float | None, ends: Interval | None) -> str:
    """The 80 % range in the unit of the value; empty without one."""
    if value is None or ends is None:
        return ""
    factor = seconds_unit(value)[0] if metric in TIMES else 1.0
    like = max(value, 1.0) if metric.startswith("usd") and value >= 0.1 else value * factor
    return range_text(ends[0] * factor, ends[1] * factor, like)


def figure_rows(found: Comparison) -> list[tuple[str, ...]]:
    """One row for each headline figure: its name, and value with range for each side."""
    rows: list[tuple[str, ...]] = [
        ("Model", *(side.model for side in found.sides)),
        ("System", *(side.system for side in found.sides)),
        ("Policy", *(side.policy for side in found.sides)),
    ]
    for metric in names.HEADLINE:
        cells = []
        for side in found.sides:
            value = side.figures[metric]
            span = span_text(metric, value, side.intervals.get(metric))
            cells.append(value_text(metric, value) + (f" ({span})" if span else ""))
        rows.append((ROW_NAMES.get(metric, metric_name(metric)), *cells))
    rows.append(("Bound by", *(names.bound(side.bound_by) if side.bound_by else DASH for side in found.sides)))
    return rows


def ranges_sentence(found: Comparison) -> str:
    """What the ranges are: once where all sides have the same kind; empty without any."""
    kinds = {side.label: side.interval_kind for side in found.sides if side.interval_kind}
    if not kinds:
        return ""
    if len(set(kinds.values())) == 1:
        return f"Ranges in brackets and whiskers: {next(iter(kinds.values()))}."
    return f"Ranges in brackets and whiskers. {'; '.join(f'{label}: {kind}' for label, kind in kinds.items())}."


def delta_rows(delta: Delta) -> list[tuple[str, str, str]]:
    """Reason, its contribution, and that as a share of the base; the largest first, and the whole delta last."""
    if delta.delta is None or delta.base is None or delta.other is None:
        return []
    like = max(abs(delta.base), abs(delta.other))
    ordered = sorted(delta.parts, key=lambda part: -abs(part.value))
    pairs = [*((part.name, part.value) for part in ordered), ("All together", delta.delta)]
    return [
        (name, signed_text(delta.metric, value, like), _percent(value / delta.base) if delta.base else "")
        for name, value in pairs
    ]


def difference_rows(found: Comparison) -> list[tuple[str, ...]]:
    """One row for each input that differs: label with unit, value for each side, group."""
    return [(f"{row.label}, {row.unit}" if row.unit else row.label, *row.values, row.group) for row in found.differing]


def reasons_sentence(found: Comparison, pair: Pair, delta: Delta) -> str:
    """How a metric changes from the base to the other side, and what that comes from, in one sentence."""
    base, other = found.sides[pair.base].label, found.sides[pair.other].label
    label = metric_name(delta.metric)
    if delta.delta is None or delta.base is None or delta.other is None:
        return f"{label} is {(delta.unavailable or 'not available').rstrip('.')}."
    like = max(abs(delta.base), abs(delta.other))
    ends = f"{value_text(delta.metric, delta.base, like)} in {base}, {value_text(delta.metric, delta.other, like)} in"
    text = f"{label}: {ends} {other}"
    if delta.ratio is not None and delta.delta != 0:
        text += (
            f", {_percent(delta.ratio - 1)}"
            if 0.5 <= delta.ratio <= 2
            else f", {trimmed(delta.ratio, 3)} times as much"
        )
    largest = max((abs(part.value) for part in delta.parts), default=0.0)
    named = [
        f"{part.name[:1].lower()}{part.name[1:]} {signed_text(delta.metric, part.value, like)}"
        for part in sorted(delta.parts, key=lambda part: -abs(part.value))
        if largest and abs(part.value) >= SHARE_NAMED * largest
    ]
    if not named:
        return f"{text}; nothing that differs changes it."
    return f"{text}: {listing(named)}."


def _percent(value: float) -> str:
    return f"{signed_percent(value)}\u202f%"
