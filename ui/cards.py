"""The five headline cards: quantity, value, unit, range, and a line that says per what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from planner.result import Result
from planner.words import served, sureness
from planner.words.formats import (
    DASH,
    Quantity,
    count,
    dollars,
    prefixed,
    range_text,
    seconds,
    seconds_unit,
    significant,
)
from ui.glossary import hover

ABSENT = "needs a plan that fits"


@dataclass(frozen=True)
class Card:
    """One card; ``bar`` is (low, value, high) in one unit, or None where there is no range."""

    name: str
    help: str
    quantity: Quantity | None
    span: str
    bar: tuple[float, float, float] | None
    note: str


HELP = {
    "ttft": "Time from a prompt's arrival at this load to its first output token; no queueing. Prefill plus one step. "
    "As served: with as many clients as the batch, who wait for each other's prompts.",
    "tpot": "Mean time per output token of one user, over the growing context. Tokens/s per user = 1 / TPOT. "
    "As served: with the prompts of as many clients as the batch between the steps.",
    "rate": "Output tokens per second of the whole system while decoding: batch / TPOT.",
    "energy": "Energy at the wall of the whole system per output token, idle parts included; PUE is not.",
    "cost": "Machine time (price over life and busy share, or rent), electricity with PUE; split by time used.",
}

KEYS = ("ttft_s", "tpot_s", "tokens_per_s_system", "energy_j_per_output_token", "usd_per_million_output_tokens")


def cards(result: Result) -> list[Card]:
    """The cards of a result, in their fixed order; without values where the plan does not fit."""
    made = [_ttft(result), _tpot(result), _throughput(result), _energy(result), _cost(result)]
    return [_with_origin(card, result, key) for card, key in zip(made, KEYS, strict=True)]


def _with_origin(card: Card, result: Result, key: str) -> Card:
    """The help of a card says where its range comes from as well."""
    parts = result.accuracy.parts if result.accuracy is not None else ()
    part = next((part for part in parts if part.key == key), None)
    if part is None or not card.span:
        return card
    return replace(card, help=f"{card.help} {sureness.interval_sentence(part)}")


def _span(result: Result, key: str, value: float, factor: float = 1.0) -> tuple[str, tuple[float, float, float] | None]:
    ends = (result.headline.intervals or {}).get(key)
    if ends is None:
        return "", None
    low, high = ends[0] * factor, ends[1] * factor
    # Prices from ten cents up are written in cents, and so are their ranges.
    like = max(value, 1.0) if key.startswith("usd") and value >= 0.1 else value * factor
    return range_text(low, high, like), (low, value * factor, high)


def _target(name: str, target: float | None, value: float) -> str:
    if target is None:
        return ""
    return f"{name} {seconds(target)} {'met' if value <= target else 'missed'}"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _ttft(result: Result) -> Card:
    value = result.headline.ttft_s
    if value is None:
        return Card("First token, TTFT", HELP["ttft"], None, "", None, ABSENT)
    work = result.scenario.workload
    span, bar = _span(result, "ttft_s", value, seconds_unit(value)[0])
    note = _join(
        f"one prompt of {count(work.prompt_tokens)} tokens, at this load, no queueing",
        served.first_token(result),
        _target("target", work.slo_ttft_s, value),
    )
    return Card("First token, TTFT", HELP["ttft"], seconds(value), span, bar, note)


def _tpot(result: Result) -> Card:
    value = result.headline.tpot_s
    if value is None:
        return Card("Per token, TPOT", HELP["tpot"], None, "", None, ABSENT)
    work = result.scenario.workload
    span, bar = _span(result, "tpot_s", value, seconds_unit(value)[0])
    step = "one step of 1 sequence" if work.batch == 1 else f"one step of {count(work.batch)} sequences"
    if work.draft_tokens:
        step = f"{count(work.batch)} sequences, {work.draft_tokens} drafted"
    return Card(
        "Per token, TPOT",
        HELP["tpot"],
        seconds(value),
        span,
        bar,
        _join(step, served.per_token(result), _target("target", work.slo_tpot_s, value)),
    )


def _throughput(result: Result) -> Card:
    head = result.headline
    value = head.tokens_per_s_system
    if value is None:
        return Card("Throughput", HELP["rate"], None, "", None, ABSENT)
    span, bar = _span(result, "tokens_per_s_system", value)
    user = "" if head.tokens_per_s_user is None else f"{significant(head.tokens_per_s_user)} per user"
    mixed = (
        ""
        if head.tokens_per_s_end_to_end is None
        else f"{significant(head.tokens_per_s_end_to_end)} with prefill sharing the machine"
    )
    return Card(
        "Throughput", HELP["rate"], prefixed(value, "output tok/s"), span, bar, _join("per system", user, mixed)
    )


def _energy(result: Result) -> Card:
    value = result.headline.energy_j_per_output_token
    if value is None:
        return Card("Energy", HELP["energy"], None, "", None, ABSENT)
    span, bar = _span(result, "energy_j_per_output_token", value)
    power = "" if result.energy is None else f"{prefixed(result.energy.average_w, 'W', from_=1e4)} at the wall"
    return Card(
        "Energy",
        HELP["energy"],
        Quantity(significant(value), "J/token"),
        span,
        bar,
        _join("per output token", power, "PUE not included"),
    )


def _cost(result: Result) -> Card:
    head = result.headline
    value = head.usd_per_million_output_tokens
    if value is None:
        return Card("Cost", HELP["cost"], None, "", None, ABSENT)
    span, bar = _span(result, "usd_per_million_output_tokens", value)
    given = head.usd_per_million_input_tokens
    month = ""
    if head.usd_per_month is not None:
        n = head.systems_needed or 1
        spare = result.capacity.spare_systems if result.capacity is not None else 0
        named = ("one system" if n == 1 else f"{count(n)} systems") + (f" and {count(spare)} spare" if spare else "")
        month = f"{named}, {dollars(head.usd_per_month)} per month"
    return Card(
        "Cost", HELP["cost"], Quantity(dollars(value), "/M tokens"), span, bar,
        _join("output", "" if given is None else f"input {dollars(given)}", month),
    )  # fmt: skip


def _bar(bar: tuple[float, float, float] | None) -> str:
    """The range on one scale for all cards: logarithmic, from half to twice the value, tick at the value."""
    if bar is None or bar[1] <= 0:
        return ""
    low, value, high = bar

    def place(x: float) -> float:
        return min(max(50 + 50 * math.log2(max(x, 1e-300) / value), 0.0), 100.0)

    left, right = place(low), place(high)
    return (
        '<div class="tl-bar" aria-hidden="true">'
        f'<span style="left:{left:.1f}%;width:{max(right - left, 0.5):.1f}%"></span><i></i></div>'
    )


def html(items: Sequence[Card]) -> str:
    """The cards as HTML; every fact is text, the bar is decoration."""
    parts = []
    for card in items:
        value = DASH if card.quantity is None else card.quantity.value
        unit = "" if card.quantity is None else f" <small>{hover(card.quantity.unit)}</small>"
        empty = " tl-empty" if card.quantity is None else ""
        span = f'<p class="tl-span">{escape(card.span)}</p>' if card.span else ""
        parts.append(
            f'<section class="tl-card{empty}" aria-label="{escape(card.name)}">'
            f'<h2 class="tl-name">{hover(card.name)}</h2>'
            f'<details class="tl-help"><summary aria-label="What {escape(card.name)} means">?</summary>'
            f"<p>{escape(card.help)}</p></details>"
            f'<p class="tl-value">{escape(value)}{unit}</p>{span}{_bar(card.bar)}'
            f'<p class="tl-note">{hover(card.note)}</p></section>'
        )
    return f'<div class="tl-cards">{"".join(parts)}</div>'
