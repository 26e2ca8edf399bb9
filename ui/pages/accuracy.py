"""The Accuracy page: predictions beside published measurements, errors by kind, and the open scenario among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any

import streamlit as st

from planner import accuracy
from planner.measured_runs import MeasuredRun, measured_runs
from planner.result import Result
from planner.words import sureness
from planner.words.formats import listing, share
from ui import engine, state, tables
from ui.charts import scatter
from ui.guard import guard
from ui.safe import md
from ui.sections import head, sure
from ui.sections.common import Data, draw, pen, say, section
from ui.tables import LegendItem, Row, Swatch, Table
from validation.measured.page import coverage_sentence
from validation.measured.page import table as cells_of

ALL = "all"
FILTERS = {"regime": "Where the experts are", "phase": "Phase", "family": "Engine"}
NAMES = {"regime": sureness.regime, "phase": sureness.phase, "family": sureness.family}
HELD_OUT = (
    "Every prediction is made without its own machine: all coefficients are fitted again without any run of the "
    "machine or experiment that is judged. `docs/validation.md` has the protocol; "
    "`python -m planner validate FILE.csv` does the same for your own runs."
)
NOISE = (
    "Noise floor of the measurements: the same engine with other flags differs by 4 % in the median, two engines on "
    "the same model, machine and workload by 25 %."
)


def run() -> None:
    """One run of the page."""
    st.title("Accuracy", anchor=False)
    with guard("reading the measured runs"):
        say(_coverage())
        st.caption(HELD_OUT)
    result, complete = _planned()
    with guard("showing predictions beside measurements"):
        _scatter(result)
    with guard("showing the errors by kind"):
        _cells()
    with guard("showing the open scenario"):
        _open(result, complete)


@lru_cache(maxsize=1)
def _coverage() -> str:
    return coverage_sentence(accuracy.residuals())


@lru_cache(maxsize=1)
def _table() -> tuple[Mapping[str, Any], ...]:
    return tuple(cells_of(accuracy.residuals()))


# --- predicted against measured ---------------------------------------------------------------------------------------
def _scatter(result: Result | None) -> None:
    everything = measured_runs()
    data = [Data("Measured runs", "tierline-measured.csv", None, lambda: _csv(everything))]
    near = result.accuracy.neighbours if result is not None and result.accuracy is not None else ()
    with section("Predicted against measured", "scatter", data):
        left, right = st.columns([0.66, 0.34], gap="medium")
        with right:
            chosen = {field: _filter(field, everything) for field in FILTERS}
            found = [run for run in everything if all(v in (ALL, getattr(run, f)) for f, v in chosen.items())]
            bands, words = _bands(chosen)
            if found:
                st.html(_legend(found, bool({one.id for one in near} & {run.id for run in found})))
                st.html(f'<p class="tl-quiet">{escape(words)}</p>')
        with left:
            finding = _finding(found)
            say(finding)
            if found:
                figure = scatter.figure(found, bands, [one.id for one in near], pen())
                draw(figure, "predicted-measured", f"Predicted against measured tokens per second. {finding}")


def _filter(field: str, runs: Sequence[MeasuredRun]) -> str:
    """A drop-down over what occurs, with the number of runs behind each."""
    values = [getattr(run, field) for run in runs]
    order = list(scatter.MARKS) if field == "regime" else list(sureness.PHASES)
    known = sorted(set(values), key=lambda v: (order.index(v) if v in order else len(order), v))
    name = NAMES[field]
    chosen: str = st.selectbox(
        FILTERS[field],
        [ALL, *known],
        key=f"accuracy-{field}",
        format_func=lambda v: f"All ({len(values)})" if v == ALL else f"{name(v)} ({values.count(v)})",
    )
    return chosen


def _finding(runs: Sequence[MeasuredRun]) -> str:
    if not runs:
        return "No run of this kind was measured; choose another."
    off = accuracy.missed([run.error for run in runs])
    groups = len({run.group for run in runs})
    return (
        f"{sureness.runs(len(runs))} {sureness.machines(groups)}: half are within {share(off.median)} of what was "
        f"measured, nine in ten within {share(off.p90)}."
    )


def _bands(chosen: Mapping[str, str]) -> tuple[Sequence[scatter.Band], str]:
    """The 80 % interval where one kind is chosen, else the factors 1.25 and 2."""
    if ALL not in (chosen["regime"], chosen["phase"]):
        family = None if chosen["family"] == ALL else chosen["family"]
        around = accuracy.spread(chosen["regime"], chosen["phase"], family)
        if around is not None:
            band = scatter.Band(1 / around.high, 1 / around.low, "80 %")
            return (band,), f"The band is the 80 % interval, from {around.sentence}. The line: predicted as measured."
    return scatter.FACTORS, "The bands are the factors 1.25 and 2, the line: predicted as measured."


def _legend(runs: Sequence[MeasuredRun], ringed: bool) -> str:
    names = [run.regime for run in runs]
    items = []
    for name in [*scatter.MARKS, *sorted(set(names) - set(scatter.MARKS))]:
        if name in names:
            colour, _, symbol = scatter.MARKS.get(name, scatter.OTHER)
            items.append(
                LegendItem(Swatch(colour), sureness.regime(name), f"{symbol}, {sureness.runs(names.count(name))}")
            )
    if ringed:
        items.append(LegendItem(Swatch("", "outline"), "Ring", "near the open scenario"))
    return tables.legend(items)


def _csv(runs: Sequence[MeasuredRun]) -> str:
    head = ["id", "label", "regime", "phase", "engine_family", "machine", "per", "measured_tokens_per_s",
            "predicted_tokens_per_s", "error"]  # fmt: skip
    return tables.to_csv(
        head,
        [
            [r.id, r.label, r.regime, r.phase, r.family, r.group, r.per, r.measured_tokens_per_s,
             float(f"{r.predicted_tokens_per_s:.5g}"), round(r.error, 4)]
            for r in runs
        ],
    )  # fmt: skip


# --- errors by kind ---------------------------------------------------------------------------------------------------
def _cells() -> None:
    rows = [_row(cell) for cell in _table()]
    head_ = ["Kind and phase", "Runs / groups", "Median, %", "p75, %", "p90, %", "Bar, %", "Inside, %"]
    table = Table("Errors by kind", head_, rows, stacked=True)
    missed = sum(bool(row.badge) for row in rows)
    with section("Errors by kind", "cells", [Data("Errors by kind", "tierline-errors.csv", None, table.csv)]):
        barred = sum(cell["bar"] is not None for cell in _table())
        say(f"{barred - missed} of {barred} kinds with a bar reach it; those that do not are marked, none is left out.")
        st.html(table.html())
        st.caption(
            "Absolute error of tokens/s, predicted / measured \u2212 1. Groups: machines or experiments. Bar: median "
            "and 90th percentile that a very good planner was expected to reach on machines never fitted. "
            "Quality C: runs whose source leaves a key quantity to be assumed, such as the memory speed; no bar. "
            f"Inside: share of the runs in an 80 % interval made without their machine. {NOISE}"
        )


def _row(cell: Mapping[str, Any]) -> Row:
    bar = cell["bar"]
    over = [name for name, most in zip(("median", "p90"), bar or (), strict=False) if round(100 * cell[name]) > most]
    cells = [
        f"{cell['rows']} / {cell['groups']}",
        *(f"{100 * cell[name]:.0f}" for name in ("median", "p75", "p90")),
        "none" if bar is None else f"{bar[0]}, {bar[1]}",
        "" if cell["coverage"] is None else f"{100 * cell['coverage']:.0f}",
    ]
    name = f"{sureness.regime(cell['regime'])}, {sureness.phase(cell['phase'])}"
    if cell["quality"]:
        name += ", quality C"
    return Row(name, cells, badge=f"{listing(over)} over the bar" if over else "")


# --- the open scenario ------------------------------------------------------------------------------------------------
def _planned() -> tuple[Result | None, bool]:
    """The open scenario's result; None with a sentence in its section where it cannot be planned."""
    try:
        with st.spinner("Planning the open scenario \u2026"):
            return engine.best(state.current())
    except engine.CannotPlanError:
        return None, True


def _open(result: Result | None, complete: bool) -> None:
    scenario = state.current()
    where = (
        f"{scenario.model.id} on {scenario.system.id}, policy {scenario.policy.id}, batch {scenario.workload.batch:,}"
    )
    if result is None or not result.headline.fits:
        with section("The open scenario", "sure"):
            st.caption(md(where))
            why = "cannot be planned" if result is None else "does not fit"
            say(f"The open scenario {why}: nothing to compare. The Plan page says why.")
        return
    with st.container(key="working", gap=None):
        if not complete:
            head.wait(engine.key_of(scenario), result)
    sure.show(result, complete, "The open scenario")
    st.caption(md(where))
