"""The answer to each question as a finding, a chart and its alternative text. Figures come from the sweep's points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from planner.sweep import METRICS, Point, SweepResult
from planner.sweep.boundary import Map, Mark, bounds_map, marks, winners_map
from planner.sweep.frontier import frontier, series
from planner.sweep.knee import EXPERTS, METHOD, Knee, knee
from planner.sweep.load import ApiPrice, break_even_load, load_curve
from planner.sweep.near_best import infeasible
from planner.words.formats import capital, dollars, listing, significant, trimmed
from planner.words.names import BOUNDS
from ui import tables
from ui.charts import heat, plane
from ui.explore import points as pts
from ui.explore import spans
from ui.safe import md
from ui.sections.common import draw, pen, say
from ui.tables import LegendItem, Swatch
from ui.theme import VIRIDIS

CLICK = {"on_select": "rerun", "selection_mode": "points"}


@dataclass(frozen=True)
class Asked:
    """What a view needs beside the sweep: the metrics and axes that the reader chose, and an API's price."""

    metric: str = "tokens_per_s_gpu"
    x: str = ""
    y: str = ""
    api: ApiPrice | None = None


View = Callable[[SweepResult, Asked, str], int | None]


def show_frontier(result: SweepResult, asked: Asked, key: str) -> int | None:
    """Throughput against interactivity."""
    found = frontier(result, "tokens_per_s_user", asked.metric)
    if not found.spots:
        say(infeasible(result))
        return None
    ends = [found.spot(found.pareto[-1]), found.spot(found.pareto[0])]
    slo = result.spec.base.workload.slo_tpot_s
    if found.best_meeting is not None:
        top = result.points_by_index[found.best_meeting]
        text = (
            f"Best that meets the targets: {pts.name(result, top)}, {pts.quantity(found.y, top.figure(found.y.key))}."
        )
    elif any(one.meets is False for one in found.spots):
        text = infeasible(result)
    else:
        least, most = ends[1], ends[0]
        alone = f"{capital(pts.name(result, result.points_by_index[most.index]))} is best on both axes."
        text = alone if len(found.pareto) < 2 else (
            f"At {significant(most.x)} tokens/s per user there are {significant(most.y)} {_short(found.y.key)}; "
            f"at {significant(least.x)}, {significant(least.y / most.y)} times as many."
        )  # fmt: skip
    say(text)
    place = _grouping(result)
    groups = series(result, place) if place else {"": list(result.fitting)}
    lines = []
    for number, (value, members) in enumerate(groups.items()):
        able = [p for p in members if p.figure(asked.metric) is not None]
        able.sort(key=lambda p: p.figure("tokens_per_s_user") or 0)
        lines.append(
            plane.Series(
                _group_name(result, place, value, members), [p.figure("tokens_per_s_user") or 0 for p in able],
                [p.figure(asked.metric) or 0 for p in able],
                [pts.hover(result, p, METRICS["tokens_per_s_user"], found.y) for p in able], [p.index for p in able],
                hollow=frozenset(p.index for p in able if p.outcome.meets_slo is False), place=number,
            )
        )  # fmt: skip
    path = [(found.spot(i).x, found.spot(i).y) for i in found.pareto]
    notes = [plane.Note(path[len(path) // 2][0], path[len(path) // 2][1], "frontier", 34, -14)] if len(path) > 2 else []
    if found.best_meeting is not None:
        spot = found.spot(found.best_meeting)
        notes.append(plane.Note(spot.x, spot.y, "best that meets the targets", 0, -20))
    extras = plane.Extras(
        path, found.least_x, f"meets TPOT {trimmed((slo or 0) * 1e3)} ms" if slo else "", tuple(notes)
    )
    axes = plane.Axes("output tokens/s per user", found.y.unit.replace("tok/s", "tokens/s"), log_y=True, log_x=True)
    event = draw(plane.figure(lines, axes, extras, pen()), f"explore-{key}-chart",
                 f"Throughput against interactivity. {text}", **CLICK)  # fmt: skip
    pts.chosen(event, key)
    _legend(lines, any(line.hollow for line in lines))
    return found.best_meeting if found.best_meeting is not None else found.pareto[len(found.pareto) // 2]


def show_experts(result: SweepResult, asked: Asked, key: str) -> int | None:
    """Speed against the experts resident in HBM."""
    found = knee(result, EXPERTS, asked.metric)
    if not found.xs and found.today is None:
        say(infeasible(result))
        return None
    text = _knee_words(found)
    say(text)
    by = result.points_by_index
    line = plane.Series(
        "as set", found.xs, found.ys, [pts.hover(result, by[i], found.metric) for i in found.indices], found.indices,
        line=True,
    )  # fmt: skip
    verticals, notes = [], []
    lines = [line]
    if found.knee is not None:
        verticals.append((found.xs[found.knee], f"knee: {trimmed(found.xs[found.knee])} experts"))
    if found.today is not None:
        day = found.today
        lines.append(plane.Series("what the policy keeps", [day.x], [day.y],
                                  [pts.hover(result, by[day.index], found.metric)], [day.index], place=1))  # fmt: skip
        notes.append(plane.Note(day.x, day.y, "today's budget", 0, 18))
    axes = plane.Axes("experts of each layer resident in HBM", found.metric.unit.replace("tok/s", "tokens/s"))
    extras = plane.Extras(verticals=tuple(verticals), notes=tuple(notes))
    event = draw(plane.figure(lines, axes, extras, pen()), f"explore-{key}-chart",
                 f"Speed against experts in HBM. {text}", **CLICK)  # fmt: skip
    pts.chosen(event, key)
    st.caption(f"{METHOD} (Kneedle, 2011). Larger numbers do not fit beside the KV cache and are left out.")
    return found.indices[found.knee] if found.knee is not None else found.today.index if found.today else None


def _knee_words(found: Knee) -> str:
    unit = found.metric.unit
    if found.knee is None:
        if len(found.xs) > 2 and found.ys[-1] > found.ys[0]:
            return f"No knee up to {trimmed(found.xs[-1])}: each further expert in HBM gains about as much as the last."
        if len(found.xs) == 1:
            return f"This policy keeps {trimmed(found.xs[0])} experts of each layer in HBM, whatever is asked for."
        return "More experts in HBM do not make this policy faster here."
    times = found.gain_before / found.gain_after if found.gain_after > 0 else None
    rest = f", {significant(times, 2)} times what each after it gains" if times else "; after it nothing is gained"
    at = trimmed(found.xs[found.knee])
    gain = significant(found.gain_before)
    return f"Up to {at} experts per layer each one gains {gain} {unit}{rest}."


def show_map(result: SweepResult, asked: Asked, key: str) -> int | None:
    """A metric over two inputs, with what bounds the step."""
    found = bounds_map(result, asked.x, asked.y, asked.metric)
    one = found.metric
    regions = found.regions()
    if not regions:
        say(infeasible(result))
        return None
    best = _best_cell(found)
    where = ", ".join(BOUNDS.get(region, region) for region in regions)
    text = (
        f"The step is bound by {where} everywhere on this map." if len(regions) == 1
        else f"What bounds the step changes on this map between {listing([BOUNDS.get(r, r) for r in regions])}."
    )  # fmt: skip
    say(text)
    values = [cell.value for row in found.cells for cell in row if cell is not None and cell.value is not None]
    log = min(values) > 0 and max(values) / min(values) > 10
    texts = _texts(result, found, lambda p: pts.hover(result, p, one))
    real = marks(asked.x, asked.y)
    fig = heat.figure(
        found, pen(), x_title=spans.title(asked.x), y_title=spans.title(asked.y), shown=spans.value, texts=texts,
        names={**BOUNDS, "": "does not fit"}, marks=real, log_value=log,
    )  # fmt: skip
    event = draw(fig, f"explore-{key}-chart", f"{capital(one.name)} over two inputs. {text}", **CLICK)
    pts.chosen(event, key)
    low, high = min(values), max(values)
    middle = (low * high) ** 0.5 if log else (low + high) / 2
    scale = f"{one.name}, {one.unit}{', logarithmic' if log else ''}; dark lines: where the bound changes"
    st.html(tables.scale_legend(VIRIDIS, [significant(v) for v in (low, middle, high)], scale))
    _real(found, real)
    return best


def show_winners(result: SweepResult, asked: Asked, key: str) -> int | None:
    """Which policy wins over two hardware figures."""
    found = winners_map(result, asked.x, asked.y, asked.metric)
    regions = found.regions()
    if not regions:
        say(infeasible(result))
        return None
    total = sum(regions.values())
    parts = [f"{spans.policy_name(region)} on {round(100 * count / total)} %" for region, count in regions.items()]
    alone = f"{spans.policy_name(next(iter(regions)))} wins everywhere on this map."
    text = alone if len(regions) == 1 else f"{capital(found.metric.name)}: {listing(parts)} of the map."
    say(text)
    colours = {region: plane.COLOURS[place % len(plane.COLOURS)] for place, region in enumerate(regions)}
    texts = {}
    for row, line in enumerate(found.cells):
        for column, cell in enumerate(line):
            if cell is None:
                continue
            point = result.points_by_index[cell.index]
            words = pts.hover(result, point, found.metric)
            if cell.second and cell.ratio:
                words += f"<br>{trimmed(cell.ratio, 3)} times better than {spans.policy_name(cell.second)}"
            texts[row, column] = words
    names = {region: spans.policy_name(region) for region in regions} | {"": "none fits"}
    real = marks(asked.x, asked.y)
    fig = heat.figure(
        found, pen(), x_title=spans.title(asked.x), y_title=spans.title(asked.y), shown=spans.value, texts=texts,
        names=names, colours=colours, marks=real,
    )  # fmt: skip
    event = draw(fig, f"explore-{key}-chart", f"Which policy wins over two figures. {text}", **CLICK)
    pts.chosen(event, key)
    items = [LegendItem(Swatch(colours[r]), spans.policy_name(r), f"{n} of {total} cells") for r, n in regions.items()]
    st.html(tables.legend(items))
    _real(found, real)
    return _best_cell(found)


def show_load(result: SweepResult, asked: Asked, key: str) -> int | None:
    """Cost against load in whole systems, beside an API."""
    curve = load_curve(result, asked.api)
    if not curve:
        say(infeasible(result))
        return None
    crossing = break_even_load(result, asked.api) if asked.api is not None and result.complete else None
    if asked.api is None:
        text = f"{trimmed(curve[-1].requests_per_s, 3)} requests/s need {curve[-1].systems} systems."
    elif crossing is None:
        text = "Up to this load the API stays cheaper than own systems." if result.complete else "Planning …"
    else:
        text = f"Own systems cost no more than the API from {trimmed(crossing, 3)} requests/s on."
    say(text)
    by = result.points_by_index
    texts = [
        pts.hover(result, by[p.index], METRICS["usd_per_month"], METRICS["systems_needed"], METRICS["utilisation"])
        for p in curve
    ]
    loads, indices = [p.requests_per_s for p in curve], [p.index for p in curve]
    lines = [plane.Series("own systems", loads, [p.usd_per_month for p in curve], texts, indices, step=True)]
    notes = [plane.Note(loads[-1], curve[-1].usd_per_month, f"{curve[-1].systems} systems", -34, -14)]
    if asked.api is not None:
        costs = [p.api_usd_per_month or 0.0 for p in curve]
        lines.append(
            plane.Series(
                "API", loads, costs, [f"API: {dollars(c)} per month" for c in costs], indices, line=True, place=1
            )
        )
        notes.append(plane.Note(loads[-1], costs[-1], "API", -14, -14))
    verticals = ((crossing, f"break-even {trimmed(crossing, 3)} requests/s"),) if crossing else ()
    axes = plane.Axes("load, requests/s", "USD per month, all systems")
    extras = plane.Extras(notes=tuple(notes), verticals=verticals)
    event = draw(
        plane.figure(lines, axes, extras, pen()), f"explore-{key}-chart", f"Cost against load. {text}", **CLICK
    )
    pts.chosen(event, key)
    _legend(lines, False)
    return None


def show_free(result: SweepResult, asked: Asked, key: str) -> int | None:
    """A design of one's own: any metric against any other."""
    found = frontier(result, asked.x, asked.metric)
    if not found.spots:
        say(infeasible(result))
        return None
    text = (
        f"{len(found.pareto)} of {len(found.spots)} points are on the frontier of {found.y.name} and {found.x.name}: "
        "no other point is better on both."
    )
    say(text)
    place = _grouping(result)
    groups = series(result, place) if place else {"": list(result.fitting)}
    groups = groups if len(groups) <= len(plane.COLOURS) else {"": list(result.fitting)}
    lines = [
        plane.Series(
            _group_name(result, place, value, members), [p.figure(asked.x) or 0 for p in able],
            [p.figure(asked.metric) or 0 for p in able], [pts.hover(result, p, found.x, found.y) for p in able],
            [p.index for p in able], hollow=frozenset(p.index for p in able if p.outcome.meets_slo is False), place=n,
        )
        for n, (value, members) in enumerate(groups.items())
        if (able := [p for p in members if p.figure(asked.x) is not None and p.figure(asked.metric) is not None])
    ]  # fmt: skip
    path = [(found.spot(i).x, found.spot(i).y) for i in found.pareto]
    wide = _wide([spot.x for spot in found.spots]), _wide([spot.y for spot in found.spots])
    axes = plane.Axes(f"{found.x.name}, {found.x.unit}", f"{found.y.name}, {found.y.unit}", *wide)
    event = draw(
        plane.figure(lines, axes, plane.Extras(path), pen()), f"explore-{key}-chart", f"A free sweep. {text}", **CLICK
    )
    pts.chosen(event, key)
    _legend(lines, any(line.hollow for line in lines))
    return None


def _real(found: Map, real: Sequence[Mark]) -> None:
    """The numbers on the map and the systems that they stand for, and devices that have one of both figures."""
    placed = [f"{place + 1} {name}" for place, (_, _, name) in enumerate(heat.placed_marks(found, real))]
    if placed:
        st.caption(md(f"Systems of the catalog on this map: {'; '.join(placed)}."))
    for path, axis_, ends in ((found.x_path, "x", found.xs), (found.y_path, "y", found.ys)):
        on = [
            f"{mark.name} {spans.full(value, path)}"
            for mark in real
            if (mark.x is None) != (mark.y is None)
            and (value := getattr(mark, axis_)) is not None
            and ends[0] <= value <= ends[-1]
        ]
        if on:
            st.caption(md(f"Devices along {spans.title(path)}: {'; '.join(on[:6])}."))


def _wide(values: list[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) > 10


def _grouping(result: SweepResult) -> str:
    """The axis that colours points: the first that holds words."""
    for axis in result.spec.axes:
        if axis.values is not None and any(isinstance(value, str) for value in axis.values):
            return axis.path
    return ""


def _group_name(result: SweepResult, path: str, value: str, members: list[Point]) -> str:
    if path == "policy.id":
        return spans.policy_name(value)
    if path == "system.id" and members:
        return members[0].outcome.system_name
    return value or (members[0].outcome.policy_name if members else "")


def _legend(lines: list[plane.Series], hollow: bool) -> None:
    items = [
        LegendItem(
            Swatch(plane.COLOURS[line.place % len(plane.COLOURS)]), line.name, plane.SYMBOL_WORDS[line.place % 7]
        )
        for line in lines
        if line.name
    ]
    if hollow:
        items.append(LegendItem(Swatch("", "outline"), "Outlined", "misses the targets"))
    if items:
        st.html(tables.legend(items))


def _best_cell(found: Map) -> int | None:
    cells = [cell for row in found.cells for cell in row if cell is not None and cell.value is not None]
    if not cells:
        return None
    more = found.metric.more_is_better is not False
    return max(cells, key=lambda c: (c.value or 0.0) * (1 if more else -1)).index


def _texts(result: SweepResult, found: Map, text: Callable[[Point], str]) -> dict[tuple[int, int], str]:
    return {
        (row, column): text(result.points_by_index[cell.index])
        for row, line in enumerate(found.cells)
        for column, cell in enumerate(line)
        if cell is not None
    }


def _short(key: str) -> str:
    return {"tokens_per_s_gpu": "tokens/s per GPU", "tokens_per_usd": "tokens per dollar"}.get(key, "throughput")
