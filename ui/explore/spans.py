"""Choosing an input and the values that it runs over, in the unit that it reads best in."""

from __future__ import annotations

import streamlit as st

from planner.policies import catalog, get
from planner.scenario import Scenario
from planner.sensitivities.inputs import FIELDS, Input, Inputs, shown
from planner.sensitivity import UNITS
from planner.sweep import Axis, Span
from planner.sweep.about import OVERRIDES, figure_of, label, unit
from planner.words import units
from planner.words.formats import shorten, trimmed

MORE_FIGURES = (
    "dram.capacity_bytes",
    "dram.price_usd_per_gb",
    "gpu.price_usd",
    "ndp.premium_usd",
    "cxl.price_usd",
    "cxl.capacity_bytes",
    "gpu.power_limit_w",
)
MOST_POLICIES = 7
_KNOWN = "explore-inputs"


def known(scenario: Scenario) -> dict[str, Input]:
    """The numeric inputs of the open scenario that an axis may run over. Raises the engine's sentences."""
    kept = st.session_state.get(_KNOWN)
    key = scenario.content_hash()
    if kept is None or kept[0] != key:
        every = Inputs(scenario)
        figures = [OVERRIDES + path for path in (*(path for path, _, _ in UNITS), *MORE_FIGURES)]
        found = {path: one for path in (*FIELDS, *figures) if (one := every.get(path)) is not None and one.value > 0}
        kept = (key, found)
        st.session_state[_KNOWN] = kept
    inputs: dict[str, Input] = kept[1]
    return inputs


def title(path: str) -> str:
    """Name and unit of an input, for the axis of a chart."""
    name, shown_in = label(path), _unit(path)
    return f"{name}, {shown_in}" if shown_in else name


def value(number: float, path: str) -> str:
    """A value without its unit, as short as a tick."""
    return trimmed(number / _size(path), 3)


def full(number: float, path: str) -> str:
    """A value with its unit, the one of the axis."""
    if figure_of(path) is None or not _unit(path) or _unit(path).startswith("$"):
        return shown(path, unit(path), number)
    return f"{value(number, path)}\u00a0{_unit(path)}"


def choose(text: str, paths: dict[str, Input], key: str, first: str) -> str:
    """A drop-down over inputs."""
    names = list(paths)
    chosen: str = st.selectbox(
        text, names, index=names.index(first) if first in names else 0, format_func=label, key=f"explore-{key}"
    )
    return chosen


def span(given: Input, key: str, count: int) -> Axis:
    """Ends and number of values of one input; logarithmic unless the field is a share."""
    size = _size(given.path)
    share = given.low >= 0 and given.high <= 1
    low = given.low if share else max(given.low, given.value / 4)
    high = given.high if share else min(given.high, given.value * 4)
    if given.whole:
        low, high = max(1.0, round(low)), round(high)
    columns = st.columns([0.37, 0.37, 0.26], vertical_alignment="bottom")
    # The key names input and value: another input brings its own ends.
    stamp = f"explore-{key}-{given.path}-{given.value:g}"
    shown_unit = _unit(given.path)
    with columns[0]:
        a = st.number_input(
            f"From{f', {shown_unit}' if shown_unit else ''}", value=_neat(low / size), key=f"{stamp}-a", format="%g"
        )
    with columns[1]:
        b = st.number_input("To", value=_neat(high / size), key=f"{stamp}-b", format="%g")
    with columns[2]:
        steps = st.number_input("Values", min_value=2, max_value=60, value=count, key=f"explore-{key}-n")
    ends = Span(low=a * size, high=b * size, count=int(steps))
    if share or a <= 0:
        return Axis(path=given.path, linear=ends)
    return Axis(path=given.path, log=ends)


def policies(key: str, first: list[str]) -> list[str]:
    """Up to seven policies; more lines than that nobody tells apart."""
    chosen: list[str] = st.multiselect(
        "Policies",
        [entry.id for entry in catalog()],
        default=first,
        format_func=policy_name,
        max_selections=MOST_POLICIES,
        key=f"explore-{key}-policies",
    )
    return chosen


def policy_name(policy_id: str) -> str:
    """A policy's name, short."""
    try:
        return shorten(get(policy_id).name, 40)
    except ValueError:
        return policy_id


def _unit(path: str) -> str:
    figure = figure_of(path)
    if figure is None:
        return unit(path)
    return units.scale(figure.unit, figure.path).unit.replace("USD", "$")


def _size(path: str) -> float:
    figure = figure_of(path)
    return 1.0 if figure is None else units.scale(figure.unit, figure.path).size


def _neat(number: float) -> float:
    return float(f"{number:.3g}")
