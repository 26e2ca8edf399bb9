"""Where every expert lives: the map, by tier, by bits or by load, and one expert in words."""

from __future__ import annotations

from html import escape
from typing import Any

import streamlit as st

from planner.result import TIERS, Placement, Result
from planner.words import names, places
from planner.words.formats import bits as bits_text
from planner.words.formats import count, share, significant
from ui import tables
from ui.charts import map_data, map_large, map_small
from ui.charts.base import Spec
from ui.charts.map_data import SMALL_MAP_EXPERTS, Order, View
from ui.guard import guard
from ui.sections.common import Data, draw, heading, pen, say
from ui.tables import LegendItem, Row, Swatch, Table

VIEWS: dict[View, str] = {"tier": "Tier and bits", "bits": "Bits", "load": "Load"}
ORDERS: dict[Order, str] = {"load": "By load", "number": "By expert number"}
_PICKED = "map_picked"
_SEEN = "map_seen"
_LAYER = "map_layer"
_EXPERT = "map_expert"

Key = tuple[str, str, str]


@st.fragment(key="where")
def show(result: Result) -> None:
    """The section; a fragment, so that a click on a cell does not run the page again."""
    with guard("drawing the map"):
        _show(result)


def _show(result: Result) -> None:
    place = result.placement
    if place is None:
        return
    title = "Where every expert lives" if result.headline.fits else "Where every expert would live"
    key = (result.scenario_hash, result.engine_version, result.catalog_digest)
    with st.container(gap="xsmall", key="map"):
        heading(title, "map", _data(place))
        view, order = _switches(len(place.classes) == 1)
        say(_finding(result, place, view))
        st.html(_legend(place, view))
        figure = _figure(key, view, order, pen().mode, place)
        event = draw(
            figure,
            f"map-{view}-{order}",
            _alt(result, place, view),
            on_select="rerun",
            selection_mode="points",
        )
        _cell(place, event, (*key, view, order))


def _switches(one_class: bool) -> tuple[View, Order]:
    """What is coloured and how experts are ordered; where all experts are alike, their load says more."""
    first: View = "load" if one_class else "tier"
    with st.container(horizontal=True, gap="small"):
        view: View = st.segmented_control(
            "Colour",
            list(VIEWS),
            default=first,
            required=True,
            format_func=VIEWS.__getitem__,
            key="map_view_one" if one_class else "map_view",
            label_visibility="collapsed",
        )
        order: Order = st.segmented_control(
            "Order",
            list(ORDERS),
            default="load",
            required=True,
            format_func=ORDERS.__getitem__,
            key="map_order",
            label_visibility="collapsed",
        )
    return view or first, order or "load"


def _finding(result: Result, place: Placement, view: View) -> str:
    if view == "bits":
        return places.bits_finding(place)
    if view == "load" and len(place.classes) == 1:
        return f"{places.map_finding(result)} {places.load_finding(place)}"
    return places.load_finding(place) if view == "load" else places.map_finding(result)


def _alt(result: Result, place: Placement, view: View) -> str:
    return f"Map of {len(place.load)} MoE layers by {len(place.load[0])} experts. {_finding(result, place, view)}"


def _legend(place: Placement, view: View) -> str:
    if view == "load":
        colours, ends = map_large.load_legend(place)
        return tables.scale_legend(
            colours, [significant(end, 2) for end in ends], "tokens per expert and step, log scale"
        )
    groups, _ = map_data.groups_of(place, view)
    return tables.legend(
        [
            LegendItem(
                Swatch(group.colour),
                group.name,
                f"{count(group.experts)} experts, {share(group.token_share)} of tokens",
            )
            for group in groups
        ]
    )


# Sorting and packing thousands of cells costs more than everything else on the page, so it is done once per view.
@st.cache_data(max_entries=48, show_spinner=False)
def _figure(key: Key, view: View, order: Order, mode: str, _place: Placement) -> Spec:
    drawn = map_small if len(_place.load[0]) <= SMALL_MAP_EXPERTS else map_large
    return drawn.figure(_place, view, order, pen())


def _cell(place: Placement, event: Any, key: tuple[str, ...]) -> None:
    """Which expert is shown: the cell that was clicked last, or what the two fields say."""
    state = st.session_state
    layers, experts = len(place.load), len(place.load[0])
    points = event.selection.points if event is not None else []
    clicked = _point(points[0], experts <= SMALL_MAP_EXPERTS) if points else None
    seen = (key, clicked)
    if clicked is not None and state.get(_SEEN) != seen:
        state[_LAYER], state[_EXPERT] = clicked[0] + 1, clicked[1]
        state[_PICKED] = True
    state[_SEEN] = seen
    state[_LAYER] = min(max(int(state.get(_LAYER) or 1), 1), layers)
    state[_EXPERT] = min(max(int(state.get(_EXPERT) or 0), 0), experts - 1)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        layer = st.number_input(
            "MoE layer", 1, layers, key=_LAYER, width=120, on_change=_pick, help="Layer of the expert to read, from 1."
        )
        expert = st.number_input(
            "Expert", 0, experts - 1, key=_EXPERT, width=120, on_change=_pick, help="Number of the expert, from 0."
        )
        if state.get(_PICKED):
            text = places.cell(place, int(layer or 1) - 1, int(expert or 0))
        else:
            text = "Click a cell, or name one here, to read its expert, load, tier, bits and why it is there."
            if experts > SMALL_MAP_EXPERTS:
                text = f"Curve: mean over layers; band: 80\u202f% of the layers. {text}"
        st.html(f'<p class="tl-quiet" role="status">{escape(text)}</p>', width="stretch")


def _pick() -> None:
    st.session_state[_PICKED] = True


def _point(point: Any, small: bool) -> tuple[int, int] | None:
    """Layer (from 0) and expert of a clicked point."""
    try:
        layer = int(point["x"] if small else point["y"]) - 1
        data = point["customdata"]
        return layer, int(data[0] if isinstance(data, list | tuple) else data)
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def _data(place: Placement) -> list[Data]:
    table = Table(
        "Experts by tier and width",
        ["Tier and width", "Experts", "Tokens, %", "Format"],
        [
            Row(places.class_name(k), [count(k.experts), f"{100 * k.token_share:.1f}", k.format], small=k.why)
            for k in place.classes
        ],
    )
    return [Data("Every expert", "tierline-experts.csv", table, lambda: _csv(place))]


def _csv(place: Placement) -> str:
    rows: list[list[object]] = []
    for index, loads in enumerate(place.load):
        ranks = {
            expert: rank for rank, expert in enumerate(sorted(range(len(loads)), key=loads.__getitem__, reverse=True))
        }
        for expert, load in enumerate(loads):
            klass = place.classes[place.klass[index][expert]]
            rows.append(
                [index + 1, place.layers[index], expert, names.tier(TIERS[place.tier[index][expert]]),
                 bits_text(place.bits[index][expert]), klass.format, load, ranks[expert] + 1,
                 place.learned[index][expert], klass.why]
            )  # fmt: skip
    head = ["moe_layer", "model_layer", "expert", "tier", "bits", "format", "tokens_per_step", "rank_in_layer",
            "learned_share", "why"]  # fmt: skip
    return tables.to_csv(head, rows)
