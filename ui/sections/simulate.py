"""Simulate: TriMoE over hundreds of decode steps on demand, its mechanisms on or off, and its ablation."""

from __future__ import annotations

from html import escape

import streamlit as st

from planner.layout import DEFAULT_STEPS, AblationRow, Simulation, SimulationOptions
from planner.policies.trimoe import TriMoe
from planner.result import Result
from planner.routing.sequence import MAX_STEPS
from planner.scenario import Scenario
from planner.words.formats import significant
from ui import simulations, tables, typed
from ui.guard import guard
from ui.inputs import record
from ui.sections import simulated
from ui.sections.common import section
from ui.tables import Row, Table

_STEPS, _HOT, _SHOWN = "simulate.steps", "simulate.hot-share", "simulate.shown"
FORM = record.Form(
    SimulationOptions,
    "simulate.options",
    labels={
        "cpu": "CPU computes",
        "ndp": "DIMMs compute",
        "relayout": "Relayout",
        "rebalance": "Cold rebalancing",
        "prefetch": "Hot prefetch",
        "alpha": "EMA alpha",
        "margin": "Least gain of a move",
        "weigh": "Gain against cost",
        "window_s": "Window that hides moves, s",
        "late": "What does not fit",
        "links": "DIMM-Link",
        "start": "First assignment",
        "step_correlation": "Step correlation",
        "drift_share": "Drift share",
    },
    none={"start": "as the policy option says", "schedule": "as the policy option says", "window_s": "as timed"},
)
FIRST = ("alpha", "drift_share", "step_correlation")


@st.fragment(key="simulate")
def show(result: Result) -> None:
    """The section; absent for other policies. A fragment: running it does not plan the page again."""
    if result.scenario.policy.id != TriMoe.id or not result.headline.fits:
        return
    with guard("simulating the steps"), section("Simulate", "simulate-part"):
        st.caption(
            "Consecutive decode steps whose loads drift: the loads are predicted, and experts move in the shadow of "
            "GPU work. Nothing is computed until asked for."
        )
        _inputs()
        _run(result.scenario)


def _inputs() -> None:
    specs = FORM.specs()
    left, *others = st.columns(1 + len(FIRST), gap="small")
    with left:
        text = st.session_state.setdefault("simulate.kept-steps", str(DEFAULT_STEPS))
        if _STEPS not in st.session_state:
            st.session_state[_STEPS] = text
        st.session_state["simulate.kept-steps"] = st.text_input(
            "Steps", key=_STEPS, help=f"Consecutive decode steps. Takes a whole number from 1 to {MAX_STEPS:,}."
        )
    for column, name in zip(others, FIRST, strict=True):
        with column:
            FORM.show([name])
    switches = [name for name, spec in specs.items() if spec.kind == "yes_no"]
    with st.container(horizontal=True, gap="small"):
        FORM.show(switches)
    rest = [name for name in specs if name not in (*FIRST, *switches)]
    edits = FORM.edited(rest)
    with st.expander("More options of the simulation" + (f" :orange-badge[{edits} edited]" if edits else "")):
        record.columns(FORM, rest, 2)


def _asked() -> tuple[int, SimulationOptions]:
    """Steps and options as typed. Raises ValueError with one sentence."""
    text = str(st.session_state["simulate.kept-steps"] or "")
    steps = typed.number(text)
    if steps is None or steps != int(steps) or not 1 <= steps <= MAX_STEPS:
        raise ValueError(f"Steps is \u201c{text[:40]}\u201d; it takes a whole number from 1 to {MAX_STEPS:,}.")
    return int(steps), FORM.read()


def _run(scenario: Scenario) -> None:
    asked = st.button("Run the simulation", key="run-simulation", icon=":material/timeline:", type="primary")
    try:
        steps, options = _asked()
        if asked:
            with st.spinner(f"Simulating {steps:,} steps \u2026"):
                simulations.run(scenario, steps, options)
    except (ValueError, simulations.CannotSimulateError) as error:
        _fault(str(error))
        _last(scenario)
        return
    key = simulations.key_of(scenario, steps, options)
    found = simulations.known(key)
    if found is None:
        _last(scenario)
        return
    st.session_state[_SHOWN] = (scenario.content_hash(), key)
    simulated.show(found)
    _ablation(scenario, steps, options)


def _last(scenario: Scenario) -> None:
    """What was shown before for this scenario, said to be of other options."""
    of, key = st.session_state.get(_SHOWN, (None, None))
    found: Simulation | None = simulations.known(key) if of == scenario.content_hash() else None
    if found is not None:
        st.caption("Below is the last run; its options differ from those above.")
        simulated.show(found)


def _fault(sentence: str) -> None:
    st.html(f'<p class="tl-fault" role="alert">{escape(sentence)}</p>')


def _ablation(scenario: Scenario, steps: int, options: SimulationOptions) -> None:
    st.html(tables.finding("What each mechanism adds, on these steps"))
    left, right = st.columns([0.62, 0.38], vertical_alignment="bottom")
    with left:
        text = st.session_state.setdefault("simulate.kept-hot", "")
        if _HOT not in st.session_state:
            st.session_state[_HOT] = text
        text = st.session_state["simulate.kept-hot"] = st.text_input(
            "Experts that the base moves to the GPU, share of the active ones", key=_HOT,
            placeholder="as many as the bandwidths balance",
            help="For the first row, MoNDE on the same DIMMs. Takes a share above 0 and up to 1, or nothing.",
        )  # fmt: skip
    with right:
        asked = st.button("Run the ablation", key="run-simulated-ablation", icon=":material/science:")
    share = typed.number(text) if text.strip() else None
    if text.strip() and (share is None or not 0 < share <= 1):
        _fault(f"The share is \u201c{text[:40]}\u201d; it takes a number above 0 and up to 1, or nothing.")
        return
    if asked:
        try:
            with st.spinner("Simulating each row \u2026"):
                simulations.run_ablation(scenario, steps, options, share)
        except simulations.CannotSimulateError as error:
            _fault(str(error))
            return
    rows = simulations.known(simulations.key_of(scenario, steps, options, "ablation", share))
    if rows is not None:
        start = options.start or scenario.policy.options.get("start", "greedy")
        st.html(ablation_table(rows).html())
        st.html(f'<p class="tl-quiet">{escape(_ablation_note(rows, start == "greedy"))}</p>')


def _ablation_note(rows: tuple[AblationRow, ...], from_greedy: bool) -> str:
    text = (
        "Times: over the row before; below 1 is slower. The published ratios are second-hand, and of another machine, "
        "model and trace than these may be."
    )
    unrefined = rows[1]
    if from_greedy and unrefined.ratio is not None and unrefined.ratio < 1.0:
        text += (
            f" {unrefined.name} is slower here because the greedy first assignment sends each expert where it alone is "
            "fastest, which overloads one domain until it is refined; under More options the first assignment can be "
            "the layout instead."
        )
    return text


def ablation_table(rows: tuple[AblationRow, ...]) -> Table:
    """Rows of the ablation beside the published ratios."""
    head = ["One mechanism more in each row", "Output tok/s per system", "Times", "Published"]
    return Table("Ablation of TriMoE", head, [_ablation_row(row) for row in rows], wide_notes=True)


def _ablation_row(row: AblationRow) -> Row:
    ratios = ["" if value is None else significant(value) for value in (row.ratio, row.published)]
    return Row(row.name, [significant(row.tokens_per_s), *ratios], row.what)
