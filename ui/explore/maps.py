"""Maps over two inputs as a finding, a chart and words: what bounds the step, and which policy wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import streamlit as st

from planner.errors import PlanError
from planner.sweep import Point, SweepResult
from planner.sweep.about import label
from planner.sweep.boundary import Map, Mark, bounds_map, marks, nearest_cell, turns, winners_map
from planner.sweep.near_best import infeasible
from planner.words.formats import capital, listing, significant, trimmed, uncapital
from planner.words.names import BOUNDS
from ui import tables
from ui.charts import heat, plane
from ui.explore import points as pts
from ui.explore import spans
from ui.explore.asked import CLICK, Asked
from ui.safe import md
from ui.sections.common import draw, pen, say
from ui.tables import LegendItem, Swatch
from ui.theme import VIRIDIS

LEVEL = 1.0005  # closer than this nothing is said to be better


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
    today = _today(result, found)
    say(f"{text} {_around(found, today, lambda region: f'the step is bound by {_bound(region)}', _bound)}".strip())
    values = [cell.value for row in found.cells for cell in row if cell is not None and cell.value is not None]
    log = min(values) > 0 and max(values) / min(values) > 10
    texts = _texts(result, found, lambda p: pts.hover(result, p, one))
    real = marks(asked.x, asked.y)
    fig = heat.figure(
        found, pen(), x_title=spans.title(asked.x), y_title=spans.title(asked.y), shown=spans.value, texts=texts,
        names={**BOUNDS, "": "does not fit"}, marks=real, log_value=log, today=today,
    )  # fmt: skip
    event = draw(fig, f"explore-{key}-chart", f"{capital(one.name)} over two inputs. {text}", **CLICK)
    pts.chosen(event, key)
    low, high = min(values), max(values)
    middle = (low * high) ** 0.5 if log else (low + high) / 2
    scale = f"{one.name}, {one.unit}{', logarithmic' if log else ''}; lines: where the bound changes"
    st.html(tables.scale_legend(VIRIDIS, [significant(v) for v in (low, middle, high)], scale))
    _real(found, real, today)
    return best


def _bound(region: str) -> str:
    return BOUNDS.get(region, region)


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
    today = _today(result, found)
    say(
        f"{text} {_around(found, today, lambda region: f'{spans.policy_name(region)} wins', spans.policy_name)}".strip()
    )
    colours = {region: plane.COLOURS[place % len(plane.COLOURS)] for place, region in enumerate(regions)}
    texts = {}
    for row, line in enumerate(found.cells):
        for column, cell in enumerate(line):
            if cell is None:
                continue
            point = result.points_by_index[cell.index]
            words = pts.hover(result, point, found.metric)
            if cell.second and cell.ratio:
                ahead = "level with" if cell.ratio < LEVEL else f"{trimmed(cell.ratio, 3)} times better than"
                words += f"<br>{ahead} {escape(spans.policy_name(cell.second))}"
            texts[row, column] = words
    names = {region: spans.policy_name(region) for region in regions} | {"": "none fits"}
    real = marks(asked.x, asked.y)
    fig = heat.figure(
        found, pen(), x_title=spans.title(asked.x), y_title=spans.title(asked.y), shown=spans.value, texts=texts,
        names=names, colours=colours, marks=real, today=today,
    )  # fmt: skip
    event = draw(fig, f"explore-{key}-chart", f"Which policy wins over two figures. {text}", **CLICK)
    pts.chosen(event, key)
    level = _level(found)
    items = [
        LegendItem(Swatch(colours[r]), spans.policy_name(r), f"{n} of {total} cells{level.get(r, '')}")
        for r, n in regions.items()
    ]
    st.html(tables.legend(items))
    _real(found, real, today)
    return _best_cell(found)


def _level(found: Map) -> dict[str, str]:
    """By winner: on how many of its cells another policy does as well, which the map alone does not show."""
    ties: dict[str, int] = {}
    for row in found.cells:
        for cell in row:
            if cell is not None and cell.ratio is not None and cell.ratio < LEVEL:
                ties[cell.region] = ties.get(cell.region, 0) + 1
    return {region: f", on {n} level with another" for region, n in ties.items()}


def _today(result: SweepResult, found: Map) -> tuple[int, int] | None:
    """The cell nearest to the open scenario; None when it lies off the map."""
    try:
        known = spans.known(result.spec.base)
    except PlanError:
        return None
    x, y = known.get(found.x_path), known.get(found.y_path)
    return None if x is None or y is None else nearest_cell(found, x.value, y.value)


Words = Callable[[str], str]


def _around(found: Map, today: tuple[int, int] | None, now: Words, then: Words) -> str:
    """What holds at the open scenario's own figures, and which change of one of both figures ends it."""
    here = None if today is None else found.cells[today[0]][today[1]]
    if here is None or today is None or not here.region or len(found.regions()) < 2:
        return ""
    ends = [
        f"{uncapital(label(turn.path))} {'rises' if turn.side == 'above' else 'falls'} to "
        f"{spans.full(turn.at, turn.path)} ({then(turn.region) if turn.region else 'nothing fits'})"
        for turn in turns(found, *today)
    ]
    text = f"At the open scenario's own figures {now(here.region)}"
    return f"{text}, until {listing(ends, 'or')}." if ends else f"{text}, whichever of both figures changes alone."


def _real(found: Map, real: Sequence[Mark], today: tuple[int, int] | None) -> None:
    """The numbers on the map and the systems that they stand for, and devices that have one of both figures."""
    if today is not None:
        st.caption("Ring: the cell nearest to the open scenario.")
    placed = [f"({place + 1}) {name}" for place, (_, _, name) in enumerate(heat.placed_marks(found, real))]
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
