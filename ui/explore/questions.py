"""The questions: what each asks the reader, and the sweep that answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from planner.policies import catalog, get
from planner.scenario import Scenario
from planner.sensitivities import Input
from planner.sweep import METRICS, Axis, Span, SweepResult, SweepSpec, spec_from
from planner.sweep.about import OVERRIDES
from planner.sweep.boundary import POLICY
from planner.sweep.knee import EXPERTS
from planner.sweep.load import LOAD, ApiPrice
from planner.sweep.text import FORMS, axis_from
from planner.words.formats import capital
from planner.words.names import HEADLINE
from ui import engine
from ui.explore import loads, maps, spans, views
from ui.explore.asked import Asked, View

RATES = ("tokens_per_s_gpu", "tokens_per_usd", "tokens_per_s_system")
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MOST_EXPERT_STEPS = 16
SYSTEMS_SHOWN = 4
# Where near-data processors are: the policies that compute experts there.
_NEAR_DATA = {"cxl.flop_per_s": ("monde",), "ndp.flop_per_s": ("monde", "trimoe")}
Form = Callable[[Scenario], tuple[SweepSpec, Asked] | None]


@dataclass(frozen=True)
class Question:
    """One question: what it is called, its form, and its view."""

    title: str
    form: Form
    view: View


def frontier(scenario: Scenario) -> tuple[SweepSpec, Asked] | None:
    """Batches under some policies."""
    chosen = spans.policies("frontier", [scenario.policy.id])
    metric = _metric("Throughput per", list(RATES), "frontier")
    most = st.select_slider("Largest batch", (*BATCHES[3:], 512, 1024), value=256, key="explore-frontier-batch")
    if not chosen:
        return None
    batches = tuple(b for b in (*BATCHES, 512, 1024) if b <= most)
    axes = (Axis(path="policy.id", values=tuple(chosen)), Axis(path="workload.batch", values=batches))
    return SweepSpec(name="Throughput against interactivity", base=scenario, axes=axes), Asked(metric)


def experts(scenario: Scenario) -> tuple[SweepSpec, Asked] | None:
    """Experts of each layer in HBM, and what the policy keeps by itself."""
    count = engine.best(scenario)[0].model.experts
    metric = _metric("Figure", ["tokens_per_s_system", "tokens_per_s_end_to_end", "tokens_per_usd"], "experts")
    st.caption(f"Policy: {get(scenario.policy.id).name}. Others are chosen on the Plan page.")
    steps = sorted({round(count * k / MOST_EXPERT_STEPS) for k in range(MOST_EXPERT_STEPS + 1)})
    axis = Axis(path=EXPERTS, values=(None, *steps))
    return SweepSpec(name="Speed against experts in HBM", base=scenario, axes=(axis,)), Asked(metric)


def heat(scenario: Scenario) -> tuple[SweepSpec, Asked] | None:
    """A metric over two inputs."""
    known = spans.known(scenario)
    metric = _metric("Figure", [*HEADLINE][:10], "map", "tokens_per_s_system")
    x = spans.choose("Across", known, "map-x", "workload.batch")
    along = spans.span(known[x], "map-x", 12)
    others = {path: one for path, one in known.items() if path != x}
    y = spans.choose("Up", others, "map-y", _first(others, ("gpu.memory_bandwidth", "dram.bandwidth")))
    up = spans.span(known[y], "map-y", 8)
    return SweepSpec(name="Map of two inputs", base=scenario, axes=(along, up)), Asked(metric, x, y)


def winners(scenario: Scenario) -> tuple[SweepSpec, Asked] | None:
    """Policies over two hardware figures."""
    known = {path: one for path, one in spans.known(scenario).items() if path.startswith(OVERRIDES)}
    chosen = spans.policies("winners", _rivals(scenario, known))
    metric = _metric("Wins on", [*HEADLINE][:10], "winners", "tokens_per_s_end_to_end")
    x = spans.choose(
        "Across", known, "winners-x", _first(known, ("pcie.bandwidth", "gpu_link.bandwidth", "dram.bandwidth"))
    )
    along = spans.span(known[x], "winners-x", 10)
    others = {path: one for path, one in known.items() if path != x}
    y = spans.choose("Up", others, "winners-y", _first(others, ("gpu.memory_capacity", "dram.bandwidth")))
    up = spans.span(known[y], "winners-y", 8)
    if len(chosen) < 2:
        st.caption("Choose two policies or more.")
        return None
    axes = (along, up, Axis(path="policy.id", values=tuple(chosen)))
    return SweepSpec(name="Which policy wins", base=scenario, axes=axes), Asked(metric, x, y)


def load(scenario: Scenario) -> tuple[SweepSpec, Asked] | None:
    """The load, from little to several systems, beside an API's price."""
    columns = st.columns(2)
    with columns[0]:
        into = st.number_input("API, $/M input", 0.0, 1e4, 0.5, key="explore-load-in")
    with columns[1]:
        out = st.number_input("API, $/M output", 0.0, 1e4, 1.5, key="explore-load-out")
    most = st.number_input("Up to, requests/s", 0.001, 1e6, _usual_load(scenario), key="explore-load-most", format="%g")
    axis = Axis(path=LOAD, linear=Span(low=most / 60, high=most, count=60))
    st.caption("The API's price is yours to fill in; it is no figure of the catalog.")
    return SweepSpec(name="Cost against load", base=scenario, axes=(axis,)), Asked(api=ApiPrice(into, out))


def free(scenario: Scenario) -> tuple[SweepSpec, Asked] | None:
    """Any axes, as on the command line."""
    text = st.text_area(
        "Axes, one on each line",
        "workload.batch=8,32,128\npolicy.id=all-gpu,cpu-experts\nsystem.id=2x-h100-sxm,h100-amx-server",
        key="explore-free-axes",
        help=f"{FORMS}. `python -m planner fields` lists every path.",
    )
    design = st.segmented_control("Design", ["grid", "sobol"], default="grid", key="explore-free-design") or "grid"
    data: dict[str, object] = {"name": "Free sweep", "base": scenario, "design": design}
    if design == "sobol":
        data["samples"] = st.number_input("Points", 2, 20_000, 128, key="explore-free-samples")
    metric = _metric("Up", list(METRICS), "free", "tokens_per_s_gpu")
    x = _metric("Across", list(METRICS), "free-x", "usd_per_million_output_tokens")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    data["axes"] = [axis_from(line) for line in lines]
    return spec_from(data), Asked(metric, x)


FREE = "free"
QUESTIONS: dict[str, Question] = {
    "frontier": Question("Throughput against interactivity", frontier, views.show_frontier),
    "experts": Question("How many experts belong in HBM", experts, views.show_experts),
    "map": Question("A figure over two inputs, and what bounds it", heat, maps.show_map),
    "winners": Question("Which policy wins over two hardware figures", winners, maps.show_winners),
    "load": Question("Cost against load, and an API's price", load, loads.show_load),
    FREE: Question("A sweep of my own", free, views.show_free),
}


_NEEDS = {"experts": (EXPERTS,), "load": (LOAD,), "winners": (POLICY,)}


def goes_with(question: str, result: SweepResult) -> bool:
    """Whether a saved sweep has the axes that the view of a question needs."""
    axes = {"map": 2, "winners": 3}.get(question, 1)
    return question in QUESTIONS and len(result.paths) >= axes and {*_NEEDS.get(question, ())} <= {*result.paths}


def _metric(text: str, keys: list[str], key: str, first: str = "") -> str:
    chosen: str = st.selectbox(
        text,
        keys,
        index=keys.index(first) if first in keys else 0,
        format_func=lambda k: capital(METRICS[k].name),
        key=f"explore-{key}-metric",
    )
    return chosen


def _rivals(scenario: Scenario, known: dict[str, Input]) -> list[str]:
    """The open policy and the plainest for each place that experts can have on this machine.

    Plainest first, so that a tie goes to it: where all experts fit in HBM, streaming does the same as all on GPUs.
    """
    near = [policy for figure, policies in _NEAR_DATA.items() if OVERRIDES + figure in known for policy in policies]
    wanted = {"all-gpu", "layer-streaming", "cpu-experts", *near, scenario.policy.id}
    return [entry.id for entry in catalog() if entry.id in wanted]


def _first(known: dict[str, Input], wanted: tuple[str, ...]) -> str:
    for start in wanted:
        for path in known:
            if path.startswith(OVERRIDES + start):
                return path
    return next(iter(known))


def _usual_load(scenario: Scenario) -> float:
    """Load of a few systems: from the open plan's own capacity."""
    result, _ = engine.best(scenario)
    one = result.capacity.system_requests_per_s if result.capacity else 1.0
    return float(f"{SYSTEMS_SHOWN * one * scenario.workload.target_utilisation:.2g}")
