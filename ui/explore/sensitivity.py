"""What the answer hangs on: tornado, elasticities, and flip points against other policies."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from planner.best import variant
from planner.csv_text import to_csv
from planner.scenario import Scenario
from planner.sensitivities import Elasticities, FlipReport, Tornado, elasticities, flip_points, tornado
from planner.sensitivities.rows import csv_rows
from planner.sensitivities.tornado import KEYS
from planner.sweep import METRICS, executor
from planner.words.formats import capital, count
from planner.words.names import HEADLINE
from ui import engine, tables
from ui.charts import tornado as chart
from ui.explore import jobs, spans
from ui.safe import md
from ui.sections.common import Data, draw, pen, say, section
from ui.tables import LegendItem, Row, Swatch, Table
from ui.theme import TIERS

ROWS = 12


@dataclass(frozen=True)
class Answer:
    """All three analyses of one scenario."""

    tornado: Tornado
    elasticities: Elasticities
    flips: FlipReport | None


def show(scenario: Scenario) -> None:
    """The form, and what was computed last."""
    left, right = st.columns([0.3, 0.7], gap="medium")
    with left, st.container(key="explore-sensitivity-form"):
        key = st.selectbox("Figure", list(KEYS), format_func=lambda k: capital(KEYS[k]), key="explore-sens-key")
        others = [p for p in spans.policies("sens", _others(scenario)) if p != scenario.policy.id]
        objectives = [*HEADLINE][:10]
        objective = st.selectbox(
            "The choice is made on", objectives, index=objectives.index("usd_per_million_output_tokens"),
            format_func=lambda k: capital(METRICS[k].name), key="explore-sens-objective",
        )  # fmt: skip
        st.caption("Flip points are looked for between the open scenario and it under these policies.")
        if st.button("Compute", key="explore-sens-go", type="primary", icon=":material/play_arrow:", width="stretch"):
            st.session_state["explore-sens-job"] = _start(scenario, key, tuple(others), objective).key
    job = jobs.jobs().get(st.session_state.get("explore-sens-job"))
    with right:
        if job is None:
            st.info("Every input is moved through its own range, by one per cent, and to where the choice would flip.")
            return
        if not job.finished:
            _wait(scenario, job)
            return
        if job.error is not None:
            st.error(md(job.error), icon=":material/error:")
            return
        _show(scenario, job.answer)


def _others(scenario: Scenario) -> list[str]:
    return [p for p in ("cpu-experts", "layer-streaming", "all-gpu") if p != scenario.policy.id][:1]


def _start(scenario: Scenario, key: str, others: tuple[str, ...], objective: str) -> jobs.Job:
    where = executor()

    def work(job: jobs.Job) -> Answer:
        counting = jobs.Counting(where, job)
        bars = tornado(engine.run_plan(scenario), key)
        rows = elasticities(scenario, key, executor=counting, cancelled=job.cancelled)
        job.first = Answer(bars, rows, None)
        flips = None
        if others:
            options = [scenario, *(variant(scenario, other) for other in others)]
            names = [spans.policy_name(option.policy.id) for option in options]
            flips = flip_points(options, objective, names=names, executor=counting, cancelled=job.cancelled)
        return Answer(bars, rows, flips)

    named = "|".join(("sensitivity", scenario.content_hash(), key, *others, objective, *engine.stamp()))
    return jobs.jobs().start(named, work)


def _wait(scenario: Scenario, job: jobs.Job) -> None:
    had = job.first is not None

    @st.fragment(run_every=1.0)
    def running() -> None:
        if job.finished or (job.first is not None and not had):
            st.rerun()
        with st.container(key="working"):
            told = f"{count(job.done)} plans made; flip points need one to two thousand \u2026"
            st.html(f'<p class="tl-text" role="status">{told}</p>')
        if st.button("Stop", key="explore-sens-stop", icon=":material/stop:"):
            job.cancel()

    running()
    if job.first is not None:
        _show(scenario, job.first)


def _show(scenario: Scenario, found: Answer) -> None:
    csv = Data(
        "Sensitivities", "tierline-sensitivity.csv", None,
        lambda: to_csv(*csv_rows(scenario, [found.tornado], found.elasticities, found.flips)),
    )  # fmt: skip
    with section("Over the ranges of the inputs", "sens-tornado", [csv]):
        say(found.tornado.sentence)
        if found.tornado.bars:
            draw(chart.figure(found.tornado, pen()), "explore-tornado", f"Tornado. {found.tornado.sentence}")
            st.html(
                tables.legend(
                    [
                        LegendItem(Swatch(TIERS["gpu"]), "Low end", "of the input's range"),
                        LegendItem(Swatch(TIERS["host"], "hatched"), "High end", "of the input's range"),
                    ]
                )
            )
    if found.flips is not None:
        flips = found.flips
        rows = [
            Row(f"{flip.label} {flip.side} {_at(flip.sentence)}", [flip.option_name]) for flip in flips.flips[:ROWS]
        ]
        with section("What would change the choice", "sens-flips"):
            say(flips.sentence)
            if rows:
                st.html(Table("Flip points", ["If", "then"], rows, words=True).html())
            st.caption(f"{len(flips.steady)} further assumptions change nothing within their bounds.")
    with section("One per cent more", "sens-elasticities"):
        rows_ = [
            Row(row.label, [f"{row.elasticity:+.2g}".replace("-", "\u2212")], small=row.sentence + ".")
            for row in found.elasticities.rows[:ROWS]
        ]
        first = found.elasticities.rows[0].sentence if found.elasticities.rows else "No input moves it"
        say(f"{first}.")
        table = Table("Elasticities", ["Input", f"% of {found.elasticities.name}"], rows_)
        st.html(table.html())


def _at(sentence: str) -> str:
    """The value inside a flip's sentence: what stands between its side and its option."""
    middle = sentence.split(" above ", 1)[-1].split(" below ", 1)[-1]
    return middle.rsplit(": ", 1)[0]
