"""Devices of one's own in the place of the system's: a machine that no catalog lists."""

from __future__ import annotations

from functools import partial

import streamlit as st

from hardware import HardwareError, bills, devices
from planner import measured_machines
from planner.context import machine_parts
from planner.errors import PlanError
from planner.fields import ScenarioError, set_paths
from planner.scenario import EXCHANGEABLE
from planner.words import labels
from ui import state
from ui.inputs.fields import help_text, mark, show_fault
from ui.unlike import unlike

NAMES = {"gpu": "GPU", "cpu": "CPU", "dimm": "Memory module", "chassis": "Chassis"}


def show() -> None:
    """A drop-down for each part that can be exchanged, folded; what was exchanged is counted."""
    chosen = state.current().system
    given = len(chosen.parts) + (chosen.measured is not None)
    badge = f" :orange-badge[{given}]" if given else ""
    with st.expander(f"Devices of your own{badge}", key="fold-devices"):
        for part in EXCHANGEABLE:
            _choice(part)
        _measured()


def _measured() -> None:
    """A machine that a probe measured, where one is kept here or a link names one."""
    kept = measured_machines.known()
    now = state.value("system.measured")
    if not kept and now is None:
        return
    names = unlike({digest: f"{machine.name}, measured {machine.date}" for digest, machine in kept.items()})
    options = [None, *names, *([now] if now is not None and now not in names else [])]
    key = "in.system.measured"
    st.session_state[key] = now
    mark(key, now is not None)
    st.selectbox(
        labels.label("system.measured"),
        options,
        key=key,
        format_func=partial(_kept_name, names),
        placeholder=_kept_name(names, None),
        help=help_text("system.measured", "Its devices and figures take the place of the catalog's."),
        on_change=_chosen,
        args=("measured",),
    )
    show_fault("system.measured", _kept_name(names, now))


def _kept_name(names: dict[str, str], digest: str | None) -> str:
    if digest is None:
        return "None: the catalog's figures"
    return names.get(digest, f"Not on this machine: {digest[:12]}")


def _choice(part: str) -> None:
    path, key = f"system.{part}", f"in.system.{part}"
    known = {device.id: device.name for device in devices() if device.kind == part}
    now = state.value(path)
    options: list[str | None] = [None, *known]
    if now not in options:
        options.append(now)  # what a link or a file brought is shown, even where the catalog has no such device
    st.session_state[key] = now
    mark(key, now is not None)
    st.selectbox(
        NAMES[part],
        options,
        key=key,
        format_func=partial(_name, known, _own(part)),
        placeholder=_name(known, _own(part), None),
        help=help_text(path, "Edited figures stay as they were set."),
        on_change=_chosen,
        args=(part,),
    )
    show_fault(path, _name(known, _own(part), now))


def _own(part: str) -> str:
    """The name of the system's own device; empty where it has none or the system is not known."""
    bill = bills().get(state.value("system.id"))
    own = None if bill is None else getattr(bill, part)
    return next((device.name for device in devices() if device.id == own), "")


def _name(known: dict[str, str], own: str, value: str | None) -> str:
    if value is None:
        return f"As the system: {own}" if own else "As the system: none"
    return known.get(value, value)


def _chosen(name: str) -> None:
    path = f"system.{name}"
    value = st.session_state[f"in.{path}"]
    try:
        # A machine that cannot be put together is refused here; the last good one keeps computing.
        machine_parts(set_paths(state.current(), {path: value}))
        state.change({path: value})
    except ScenarioError as error:
        state.refuse(path, "", state.person_sentence(error))
    except (HardwareError, PlanError) as error:
        state.refuse(path, "", labels.in_words(str(error)))
