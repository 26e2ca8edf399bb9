"""Workload: preset, batch and lengths first; load, cache hits, targets and the experts' load folded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import streamlit as st

from planner.fields import fields
from planner.presets import presets
from planner.routing import TraceEntry, traces
from planner.words.formats import count
from ui import state
from ui.inputs.fields import caption, choice, group, number, pair

CUSTOM = "No preset"


def _baseline() -> dict[str, object]:
    """What edits are measured against: the preset where one was chosen, else the defaults."""
    names = [path for path in fields() if path.startswith("workload.") and path != "workload.preset"]
    values: dict[str, object] = {path: fields()[path].default for path in names}
    chosen = next((p for p in presets() if p.id == state.value("workload.preset")), None)
    if chosen is not None:
        values.update({f"workload.{name}": value for name, value in chosen.values().items() if name != "preset"})
    return values


def _choose_preset(preset_id: str | None) -> Mapping[str, object]:
    chosen = next((p for p in presets() if p.id == preset_id), None)
    if chosen is None:
        return {"workload.preset": None}
    return {f"workload.{name}": value for name, value in chosen.values().items()}


def show() -> None:
    """The group in the sidebar."""
    edited = group("Workload", "workload", _baseline())
    known = {p.id: p for p in presets()}
    choice(
        "workload.preset",
        [None, *known],
        format_func=lambda value: known[value].name if value in known else str(value or CUSTOM),
        on_choose=_choose_preset,
        more="Choosing one fills the numbers below.",
        placeholder=CUSTOM,
    )
    chosen = known.get(state.value("workload.preset"))
    if chosen is not None:
        caption(chosen.sentence)
    for first, second in (("batch", "draft_tokens"), ("prompt_tokens", "output_tokens")):
        left, right = pair()
        for column, name in ((left, first), (right, second)):
            with column:
                number(f"workload.{name}", edited=edited[f"workload.{name}"])
    with st.expander("Load, cache hits, service targets", key="fold-load"):
        _details(edited)
    _routing()


def _details(edited: dict[str, bool]) -> None:
    other = {
        "workload.requests_per_s": ("workload.output_tokens_per_day",),
        "workload.output_tokens_per_day": ("workload.requests_per_s",),
    }
    rows = (
        ("requests_per_s", "output_tokens_per_day"),
        ("target_utilisation", "spare_systems"),
        ("prefix_hit_share", "draft_acceptance"),
        ("slo_ttft_s", "slo_tpot_s"),
    )
    for row in rows:
        for column, name in zip(pair(), row, strict=True):
            path = f"workload.{name}"
            with column:
                number(path, edited=edited[path], clears=other.get(path, ()),
                       more="Setting it clears the other statement of the load." if path in other else "")  # fmt: skip


def _traces_of_model() -> dict[str, TraceEntry]:
    model = state.current().model
    if model.config is not None:
        return {}
    return {trace.id: trace for trace in traces() if trace.model_id == model.id}


def _choose_source(source: str) -> Mapping[str, object]:
    if source in ("generated", "uniform"):
        return {"routing.source": source, "routing.trace": None}
    return {"routing.source": "trace", "routing.trace": source}


def _routing() -> None:
    baseline = {path: fields()[path].default for path in fields() if path.startswith("routing.")}
    edits = sum(state.value(path) != value for path, value in baseline.items())
    known = _traces_of_model()
    with st.expander("Load of the experts" + (f" :orange-badge[{edits} edited]" if edits else ""), key="fold-routing"):
        source, named = state.value("routing.source"), state.value("routing.trace")
        options = ["generated", "uniform", *known]
        now = named if source == "trace" else source
        if now not in options:
            options.append(now)
        st.session_state["in.routing"] = now
        st.selectbox(
            "Expert load from",
            options,
            key="in.routing",
            format_func=partial(_source_name, known),
            help="A generator with log-normal popularity, a uniform router, or a recorded trace of this very model.",
            on_change=_source_chosen,
        )
        if now in known:
            trace = known[now]
            caption(
                f"{count(trace.tokens)} tokens of {count(trace.requests)} requests, {trace.phase}; {trace.licence}."
            )
            caption(f"Source: {trace.source}")
        if source == "generated":
            choice("routing.distribution")
            for row in (("sigma", "domain_share"), ("sigma_request", "sigma_phase"), ("locality", "drift_share")):
                for column, name in zip(pair(), row, strict=True):
                    with column:
                        number(f"routing.{name}", edited=state.value(f"routing.{name}") != baseline[f"routing.{name}"])
        for column, name in zip(pair(), ("seed", "steps"), strict=True):
            with column:
                number(f"routing.{name}", edited=state.value(f"routing.{name}") != baseline[f"routing.{name}"])


def _source_name(known: dict[str, TraceEntry], value: str) -> str:
    if value in known:
        return f"Trace: {known[value].name}"
    return {"generated": "A generator", "uniform": "A uniform router"}.get(value, f"Trace: {value}")


def _source_chosen() -> None:
    state.change(_choose_source(st.session_state["in.routing"]))
