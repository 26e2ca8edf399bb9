"""The Explore page: a question, planned thousands of times in the background, and an answer to look at and keep."""

from __future__ import annotations

import streamlit as st

from planner.errors import PlanError
from planner.refusals import REFUSALS
from planner.sweep import METRICS, SweepResult, SweepSpec, from_json
from planner.sweep.about import label
from planner.sweep.idle import idle_axes
from planner.sweep.near_best import COST, choose, left_out
from planner.words import labels
from planner.words.formats import count
from ui import engine, state, studies
from ui.explore import jobs, points, sensitivity
from ui.explore.asked import Asked, restored
from ui.explore.questions import FREE, QUESTIONS, Question, goes_with
from ui.guard import guard
from ui.safe import md
from ui.sections.common import Data, say, section

SENSITIVITY = "sensitivity"
TITLES = {name: question.title for name, question in QUESTIONS.items()} | {SENSITIVITY: "What the answer hangs on"}
ORDER = ("frontier", "experts", "map", "winners", SENSITIVITY, "load", "free")
QUESTION = "explore-question"
OPENED = "explore-opened"
BAD_INPUT = (*REFUSALS, engine.CannotPlanError)


def run() -> None:
    """One run of the page."""
    st.title("Explore", anchor=False)
    with guard("opening the saved sweep"):
        _from_link()
    scenario = state.current()
    opened: tuple[str, str, object, SweepResult] | None = st.session_state.get(OPENED)
    if opened is not None:
        _saved(*opened)
        return
    name: str = st.selectbox("Question", ORDER, format_func=TITLES.__getitem__, key=QUESTION)
    where = (
        f"{scenario.model.id} on {scenario.system.id}, policy {scenario.policy.id}, batch {scenario.workload.batch:,}"
    )
    st.caption(md(f"Around the open scenario: {where}."))
    with guard("exploring"):
        try:
            if name == SENSITIVITY:
                sensitivity.show(scenario)
            else:
                _ask(name, QUESTIONS[name])
        except BAD_INPUT as error:
            st.error(md(_told(name, str(error))), icon=":material/error:")
    with guard("listing saved sweeps"):
        _library()


def _ask(name: str, question: Question) -> None:
    left, right = st.columns([0.3, 0.7], gap="medium")
    with left, st.container(key=f"explore-{name}-form"):
        asked = question.form(state.current())
        spec = None if asked is None else asked[0]
        field = f"explore-{name}-job"
        if spec is not None:
            st.caption("One point." if spec.count == 1 else f"{count(spec.count)} points at most.")
        if st.button(
            "Plan these points", key=f"explore-{name}-go", type="primary", icon=":material/play_arrow:",
            disabled=spec is None, width="stretch",
        ) and spec is not None:  # fmt: skip
            started = jobs.start_sweep(spec)
            st.session_state[field] = (started.key, spec, asked[1] if asked else Asked())
    with right:
        kept = st.session_state.get(field)
        if kept is None:
            st.info("Choose what to vary, then plan the points. Planning goes on when you leave this page.")
            return
        key, planned, how = kept
        if asked is not None and planned == spec:
            how = asked[1]  # what is only shown differently needs no planning
        elif planned != spec:
            st.info(
                "The chart shows the points planned last; plan again for what is chosen now.", icon=":material/history:"
            )
        job = jobs.jobs().get(key)
        if job is None:
            st.info("These points are no longer kept; plan them again.")
            return
        _progress(job, planned, how, question, name)
    if job.finished and job.answer is not None:
        _foot(job.answer, name, name, how)


def _progress(job: jobs.Job, spec: SweepSpec, how: Asked, question: Question, name: str) -> None:
    """What there is: at once when it is finished, and every second while it runs."""
    if job.finished:
        if job.error is not None:
            st.error(md(_told(name, job.error)), icon=":material/error:")
        else:
            _answer(job.answer, how, question, name)
        return

    @st.fragment(run_every=1.0)
    def running() -> None:
        if job.finished:
            st.rerun()
        total = job.total or spec.count
        bar, stop = st.columns([0.75, 0.25], vertical_alignment="center")
        with bar, st.container(key="working"):
            st.progress(min(job.done / total, 1.0), f"{count(job.done)} of {count(total)} points planned")
        with stop:
            if st.button("Stop here", key=f"explore-{name}-stop", icon=":material/stop:", width="stretch"):
                job.cancel()
        if job.done:
            question.view(job.so_far(spec), how, f"{name}-running")

    running()


def _answer(result: SweepResult, how: Asked, question: Question, name: str) -> None:
    if result.stopped:
        st.warning(md(f"{result.stopped} What was planned is shown."), icon=":material/pause_circle:")
    best = question.view(result, how, name)
    points.opener(result, name, choose(result, _judged(name, how)).best if best is None else best)


def _told(question: str, sentence: str) -> str:
    """A refusal in the words of the page; where paths are typed, it keeps them as they were typed."""
    return sentence if question == FREE else str(labels.in_words(sentence))


def _judged(question: str, how: Asked) -> str:
    """The figure on which the best point is chosen: cost, unless the question is about another."""
    if question == "load":
        return "usd_per_million_served"
    asked = question in ("experts", "map", "winners", FREE) and METRICS[how.metric].more_is_better is not None
    return how.metric if asked else COST


def _foot(result: SweepResult, name: str, question: str, how: Asked) -> None:
    """What to take, every point as a table, files, and keeping the sweep."""
    metric = _judged(question, how)
    choice = choose(result, metric)
    data = [Data("Points", "tierline-points.csv", None, lambda: points.table(result).csv())]
    with section("The points", f"explore-{name}-points", data):
        if choice.best is None:
            say(choice.sentence)
            others = ""
        else:
            others = left_out(result)
            top = result.points_by_index[choice.best]
            meets = " among points that meet the targets" if top.outcome.meets_slo else ""
            value = points.quantity(choice.metric, top.figure(metric))
            say(f"Best on {choice.metric.name}{meets}: {points.name(result, top)}, {value}. {choice.sentence}")
        idle = [f"{label(path)} moves nothing here." for path in idle_axes(result)]
        if others or idle:
            st.caption(md(" ".join([*idle, others])))
        with st.expander(f"Table of {count(min(len(result.points), points.TABLE_ROWS))} points"):
            st.html(points.table(result, choice.best, choice.near).html())
        points.files(result, name)
        points.keep(result, name, question, how.saved())


def _saved(question: str, title: str, view: object, result: SweepResult) -> None:
    """A sweep of the library: shown as it was planned, with today's pages."""
    left, right = st.columns([0.75, 0.25], vertical_alignment="center")
    with left:
        st.markdown(f"**{md(title)}**, a saved sweep")
    with right:
        if st.button("Back to questions", key="explore-back", icon=":material/arrow_back:", width="stretch"):
            del st.session_state[OPENED]
            studies.left()
            st.rerun()
    if (result.engine_version, result.catalog_digest) != engine.stamp():
        st.info(
            f"Planned by Tierline {md(result.engine_version)} with other data than today's.", icon=":material/history:"
        )
    with guard("showing the saved sweep"):
        try:
            known = question if goes_with(question, result) else FREE
            how = restored(known, result, view)
            best = QUESTIONS[known].view(result, how, "saved")
            points.opener(result, "saved", choose(result, _judged(known, how)).best if best is None else best)
            _foot(result, "saved", known, how)
        except BAD_INPUT as error:
            st.error(md(labels.in_words(str(error))), icon=":material/error:")


def _from_link() -> None:
    """``?study=`` opens a saved sweep, once."""
    study = studies.of_link("sweep", "explore")
    if study is not None:
        _open(study.spec, study.name, study.body)


def _open(spec: dict[str, object], name: str, body: bytes) -> None:
    try:
        st.session_state[OPENED] = (
            str(spec.get("question", "free")), name, spec.get("view"), from_json(body),
        )  # fmt: skip
    except PlanError as error:
        st.error(md(str(error)), icon=":material/error:")


def _library() -> None:
    study = studies.chosen("sweep", "sweep", "explore")
    if study is not None:
        _open(study.spec, study.name, study.body)
        st.rerun()
