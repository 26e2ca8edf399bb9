"""Hardware: a system first, and every figure of it behind it: value, range, source, kind, changed or not."""

from __future__ import annotations

from html import escape

import streamlit as st

from hardware import Figure, HardwareError, PathSpec, System, path_schema, systems
from hardware.catalog import GROUPS
from planner.context import machine_parts
from planner.errors import PlanError
from planner.fields import ScenarioError
from planner.scenario import EXCHANGEABLE, Scenario
from planner.words.formats import capital
from ui import state, typed, units
from ui.inputs import calibration, devices
from ui.inputs.fields import caption, choice, mark

OVERRIDES = "system.overrides"
AS_THE_CATALOG: dict[str, object] = {
    OVERRIDES: {},
    "system.calibration": None,
    "system.measured": None,
    **{f"system.{part}": None for part in EXCHANGEABLE},
}


def show() -> None:
    """The group in the sidebar."""
    entries = {entry.id: entry for entry in systems()}
    chosen = state.current().system
    edits = len(chosen.overrides) + len(chosen.parts)
    edits += (chosen.calibration is not None) + (chosen.measured is not None)
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="group-hw"):
        badge = f" :orange-badge[{edits} edited]" if edits else ""
        st.markdown(f"#### Hardware{badge}", width="content")
        if edits or any(path.startswith(OVERRIDES) for path in state.faults()):
            st.button("Reset", type="tertiary", icon=":material/undo:", key="reset-hw", on_click=_reset_all,
                      help="Back to the catalog's system, figures and calibration.")  # fmt: skip
    choice(
        "system.id",
        list(entries),
        format_func=lambda value: entries[value].name if value in entries else str(value),
        label_visibility="collapsed",
        label="System",
        on_choose=lambda value: {"system.id": value, **AS_THE_CATALOG},
        more="Edited figures, other devices and a calibration go when another system is chosen.",
    )
    try:
        system = machine_parts(state.current())
    except (HardwareError, PlanError):
        # The page says why; the choices stay open.
        devices.show()
        calibration.show()
        return
    caption(system.sentence)
    _edits(system)
    if system.findings:
        count = len(system.findings)
        with st.expander(f"{count} {'note' if count == 1 else 'notes'} on this system", key="fold-findings"):
            for finding in system.findings:
                caption(finding)
    devices.show()
    with st.expander("Devices, links and prices", key="fold-hw", on_change="rerun") as fold:
        if fold.open:
            _editor(system)
    calibration.show()


def _edits(system: System) -> None:
    """What was changed stays visible while the details are folded."""
    by_path = {spec.path: spec for spec in path_schema()}
    for path in system.edited:
        spec, figure = by_path[path], system.figures[path]
        left, right = st.columns([0.82, 0.18], gap="xsmall", vertical_alignment="center", wrap=False)
        with left:
            value = "" if figure.value is None else units.shown(figure.value, spec.unit, path)
            caption(f"{spec.label}: {value}, edited")
        with right:
            st.button("", icon=":material/undo:", type="tertiary", key=f"undo-{path}", on_click=_reset, args=(path,),
                      help=f"{spec.label} back to the catalog's figure.")  # fmt: skip


def _editor(system: System) -> None:
    specs = path_schema()
    groups = sorted({spec.group for spec in specs}, key=GROUPS.index)
    group = st.selectbox("Figures of", groups, key="hw-group", persist_state="session", help="Which figures to show.")
    everything = st.toggle("Also those that rarely matter", key="hw-all", persist_state="session")
    base = machine_parts(_without_edits())
    for spec in specs:
        if spec.group != group or not (everything or not spec.advanced or spec.path in system.edited):
            continue
        _figure(spec, system.figures[spec.path], base.figures[spec.path])


def _figure(spec: PathSpec, figure: Figure, base: Figure) -> None:
    path = f"{OVERRIDES}.{spec.path}"
    key = f"in.{path}"
    by = units.scale(spec.unit, spec.path)
    kept = state.typed(path)
    st.session_state[key] = kept if kept is not None else _text(figure.value, by)
    edited = figure.edited
    mark(key, edited)
    name = f"{spec.label}, {by.unit}" if by.unit else spec.label
    st.text_input(
        name,
        key=key,
        placeholder="missing",
        help=f"{spec.description} From {units.shown(spec.lower, spec.unit, spec.path)} to "
        f"{units.shown(spec.upper, spec.unit, spec.path)}."
        + (" Clear the field to go back to the catalog's figure." if edited else ""),
        on_change=_typed,
        args=(spec, _text(figure.value, by)),
    )
    sentence = state.fault(path)
    if sentence:
        used = "nothing" if figure.value is None else units.shown(figure.value, spec.unit, spec.path)
        st.html(f'<p class="tl-fault" role="alert">{escape(sentence)} {escape(used)} is used.</p>')
    shown = base if edited else figure
    range_text = units.range_shown(shown.low, shown.high, spec.unit, shown.value or 0.0, spec.path)
    was = "" if not edited else f"edited, was {_text(base.value, by) or 'missing'}; "
    parts = [shown.kind.replace("-", " "), range_text, ", ".join(t for t in (shown.source, shown.date or "") if t)]
    caption(was + "; ".join(part for part in parts if part))


def _text(value: float | None, by: units.Scale) -> str:
    return "" if value is None else typed.rounded(value / by.size)


def _typed(spec: PathSpec, before: str) -> None:
    path = f"{OVERRIDES}.{spec.path}"
    text = str(st.session_state[f"in.{path}"] or "").strip()
    if text == before:
        state.forget(path)
        return
    if text == "":
        _reset(spec.path)
        return
    by = units.scale(spec.unit, spec.path)
    read = typed.number(text)
    if read is None:
        state.refuse(path, text, f"{spec.label}: \u201c{text[:40]}\u201d is not a number.")
        return
    value = read * by.size
    try:
        machine_parts(state.current(), {spec.path: value})
        state.change({path: value})
    except PlanError as error:
        state.refuse(path, text, str(error))
    except HardwareError:
        low, high = (units.shown(edge, spec.unit, spec.path) for edge in (spec.lower, spec.upper))
        whole = "a whole number " if spec.integer else ""
        state.refuse(path, text, f"{spec.label} is {text[:40]} {by.unit}; it takes {whole}from {low} to {high}.")
    except ScenarioError as error:
        state.refuse(path, text, capital(str(error)))


def _reset(figure_path: str) -> None:
    overrides = {p: v for p, v in state.current().system.overrides.items() if p != figure_path}
    state.change({OVERRIDES: overrides})
    state.forget(f"{OVERRIDES}.{figure_path}")


def _reset_all() -> None:
    state.change(AS_THE_CATALOG)
    state.forget_under(OVERRIDES)


def _without_edits() -> Scenario:
    """The open scenario with the figures that its devices and its calibration have by themselves."""
    scenario = state.current()
    return scenario.model_copy(update={"system": scenario.system.model_copy(update={"overrides": {}})})
