"""Cost against load in whole systems, and own machines against the price of an API."""

from __future__ import annotations

import math
from dataclasses import dataclass

import streamlit as st

from planner.errors import PlanError
from planner.scenario import Scenario
from planner.sweep import METRICS, Outcome, SweepResult, executor, run_many
from planner.sweep.load import (
    ApiPrice,
    BusyPoint,
    Crossing,
    break_even_busy_share,
    break_even_load,
    busy_curve,
    load_curve,
)
from planner.sweep.near_best import infeasible
from planner.words.formats import dollars, share, trimmed
from ui import engine
from ui.charts import plane
from ui.explore import points as pts
from ui.explore.asked import CLICK, Asked, legend
from ui.safe import md
from ui.sections.common import draw, pen, say
from ui.tables import Row, Table

SHARES = (*(round(0.05 * step, 2) for step in range(1, 21)),)
TABLE_SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Against:
    """Own machines against an API: the load and the busy share from which they cost no more, and the curve between."""

    load: Crossing | None
    busy_share: float | None
    curve: tuple[BusyPoint, ...]


def show_load(result: SweepResult, asked: Asked, key: str) -> int | None:
    """Cost against load in whole systems, beside an API; then own machines by their busy share."""
    curve = load_curve(result, asked.api)
    if not curve:
        say(infeasible(result))
        return None
    against = None
    if asked.api is not None and result.complete:
        try:
            with st.spinner("Looking for where both cost the same \u2026", show_time=False):
                against = _against((result.spec.base.content_hash(), result.points[-1].values, *engine.stamp()),
                                   asked.api, result)  # fmt: skip
        except PlanError as error:
            st.warning(md(f"Where both cost the same is not known: {error}"), icon=":material/warning:")
    text = _load_words(result, asked, against)
    say(text)
    by = result.points_by_index
    texts = [
        pts.hover(result, by[p.index], METRICS["usd_per_month"], METRICS["systems_needed"], METRICS["utilisation"])
        for p in curve
    ]
    loads, indices = [p.requests_per_s for p in curve], [p.index for p in curve]
    lines = [plane.Series("own systems", loads, [p.usd_per_month for p in curve], texts, indices, step=True)]
    notes = [plane.Note(loads[-1], curve[-1].usd_per_month, _systems(curve[-1].systems), -34, -14)]
    if asked.api is not None:
        costs = [p.api_usd_per_month or 0.0 for p in curve]
        told = [f"API: {dollars(c)} per month" for c in costs]
        lines.append(plane.Series("API", loads, costs, told, indices, line=True, place=1))
        notes.append(plane.Note(loads[-1], costs[-1], "API", -14, -14))
    found = against.load if against is not None else None
    verticals = ((found.first, f"break-even {trimmed(found.first, 3)} requests/s"),) if found else ()
    axes = plane.Axes("load, requests/s", "USD per month, all systems")
    extras = plane.Extras(notes=tuple(notes), verticals=verticals)
    event = draw(
        plane.figure(lines, axes, extras, pen()), f"explore-{key}-chart", f"Cost against load. {text}", **CLICK
    )
    pts.chosen(event, key)
    legend(lines, False)
    if asked.api is not None and against is not None:
        _show_busy(result.spec.base, asked.api, against, key)
    return None


@st.cache_data(max_entries=64, show_spinner=False)
def _against(key: tuple[object, ...], api: ApiPrice, _result: SweepResult) -> Against:
    """Planned where the sweep was, once for a question: every rerun of the page asks for it. Raises PlanError."""
    where, base = executor(), _result.spec.base

    def plan(scenario: Scenario) -> Outcome:
        return run_many([scenario], where)[0]

    return Against(
        break_even_load(_result, api, plan),
        break_even_busy_share(base, api, plan),
        busy_curve(base, api.usd_per_million_input, SHARES, where),
    )


def _load_words(result: SweepResult, asked: Asked, against: Against | None) -> str:
    curve = load_curve(result)
    last = f"{trimmed(curve[-1].requests_per_s, 3)} requests/s need {_systems(curve[-1].systems)}."
    if asked.api is None or against is None:
        return last
    found = against.load
    if found is None:
        return f"Up to {trimmed(curve[-1].requests_per_s, 3)} requests/s the API stays cheaper than own systems. {last}"
    start = f"Own systems cost no more than the API from {trimmed(found.first, 3)} requests/s on"
    if found.lasting is None:
        return f"{start}, but not for good: each further system makes them dearer again until it is filled. {last}"
    if found.lasting > found.first:
        return f"{start}, and for good from {trimmed(found.lasting, 3)}: in between a further system is not yet filled."
    return f"{start}."


def _show_busy(base: Scenario, api: ApiPrice, against: Against, key: str) -> None:
    """The API's price that own machines match, by the share of the time that they work."""
    curve = [point for point in against.curve if point.matching_usd_per_million_output > 0]
    if not curve:
        say("The API's price of input tokens alone costs more than own machines at any busy share.")
        return
    text = _busy_words(base, api, against)
    say(text)
    asked = [100 * point.busy_share for point in curve]
    prices = [point.matching_usd_per_million_output for point in curve]
    texts = [
        f"<b>{share(point.busy_share)} busy</b><br>own: {dollars(1000 * point.usd_per_request)} per 1,000 requests"
        f"<br>the same at {dollars(price)} per million output tokens"
        for point, price in zip(curve, prices, strict=True)
    ]
    line = plane.Series("own machines", asked, prices, texts, [-1] * len(curve), line=True)
    at = against.busy_share
    levels = ((api.usd_per_million_output, f"the API: {dollars(api.usd_per_million_output)}"),)
    extras = plane.Extras(
        verticals=((100 * at, f"break-even {share(at)} busy"),) if at is not None else (),
        levels=levels if api.usd_per_million_output > 0 else (),
    )
    into = dollars(api.usd_per_million_input)
    axes = plane.Axes("busy share of own machines, %", f"API output price that costs the same, $/M (input {into}/M)",
                      log_y=True)  # fmt: skip
    draw(plane.figure([line], axes, extras, pen()), f"explore-{key}-busy-chart", f"Own machines and an API. {text}")
    if len(curve) < len(against.curve):
        st.caption(f"Beyond {share(curve[-1].busy_share)} the API's input tokens alone cost more than own machines.")
    near = [min(curve, key=lambda point: math.fabs(point.busy_share - wanted)) for wanted in TABLE_SHARES]
    rows = [
        Row(share(point.busy_share), [dollars(1000 * point.usd_per_request),
                                      dollars(point.matching_usd_per_million_output)])
        for point in dict.fromkeys(near)
    ]  # fmt: skip
    head = ["Busy share", "own, $ per 1,000 requests", "API output price that costs the same, $/M"]
    with st.expander("Table by busy share"):
        st.html(Table("Own machines by busy share", head, rows).html())


def _busy_words(base: Scenario, api: ApiPrice, against: Against) -> str:
    own = base.economics.busy_share
    at = against.busy_share
    if at is None:
        text = "At this price of the API own machines are dearer even when they never wait."
    else:
        text = f"At this price of the API own machines cost no more per request from {share(at)} busy on"
        text += f"; the open scenario assumes {share(own)}."
    now = min(against.curve, key=lambda point: abs(point.busy_share - own), default=None)
    if now is not None and abs(now.busy_share - own) < 0.005 and now.matching_usd_per_million_output > 0:
        price = dollars(now.matching_usd_per_million_output)
        text += f" At {share(own)} busy they match an output price of {price}/M."
    return text


def _systems(number: int) -> str:
    return f"{number:,} system{'' if number == 1 else 's'}"
