"""Policy: which scheme, how many bits, KV format first; places, formats, parallelism and its own options folded."""

from __future__ import annotations

from functools import partial

import streamlit as st

from models import FORMATS
from planner.calibration import families
from planner.fields import ScenarioError, fields
from planner.policies import Option, catalog
from planner.words import labels, sureness
from planner.words.formats import listing, trimmed
from ui import state, typed
from ui.inputs import losses
from ui.inputs.fields import caption, choice, group, mark, number, pair, show_fault, switch

NEEDS = {
    "gpu": "a GPU",
    "host": "a CPU with memory",
    "pcie": "a link between host and GPU",
    "dimm_ndp": "NDP on the DIMMs",
    "cxl_ndp": "a CXL device with NDP",
    "ndp": "NDP on DIMMs or CXL",
}
OPTIONS = "policy.options"


def show() -> None:
    """The group in the sidebar."""
    entries = {entry.id: entry for entry in catalog()}
    edited = group("Policy", "policy", _baseline())
    entry = entries.get(state.value("policy.id"))
    choice(
        "policy.id",
        list(entries),
        format_func=lambda value: entries[value].name if value in entries else str(value),
        label_visibility="collapsed",
        on_choose=lambda value: {"policy.id": value, OPTIONS: {}},
    )
    if entry is not None:
        caption(entry.sentence)
    left, right = pair()
    with left:
        number("policy.weight_bits", edited=edited["policy.weight_bits"], label="Expert bits")
    with right:
        choice("model.kv_format", edited=edited["model.kv_format"])
    _engine(edited["policy.engine"])
    with st.expander("Where attention and the KV cache live", key="fold-places"):
        for name in ("attention_device", "kv_location", "prefill"):
            choice(f"policy.{name}", edited=edited[f"policy.{name}"])
        number("policy.prefill_chunk_tokens", edited=edited["policy.prefill_chunk_tokens"])
    with st.expander("Formats, parallelism and options", key="fold-policy"):
        _details(edited)
        if entry is not None:
            for option in entry.options:
                _option(option)
            needs = listing([NEEDS.get(need, need) for need in entry.needs])
            caption(f"{entry.name} needs {needs}. Source: {entry.source}.")


def _engine(edited: bool) -> None:
    """The serving engine's family: its coefficients where it has some of its own, else the generic ones."""
    choice(
        "policy.engine",
        [None, *families(state.value("system.calibration"))],
        edited=edited,
        format_func=lambda value: "Generic" if value is None else sureness.family(str(value)),
        more="Each family has coefficients fitted on its own measured runs; generic stands for all others.",
    )


def _baseline() -> dict[str, object]:
    names = [path for path in fields() if path.startswith("policy.") and path != "policy.id"]
    return {**{path: fields()[path].default for path in names}, **_of_model()}


def _of_model() -> dict[str, object]:
    return {path: fields()[path].default for path in ("model.kv_format", "model.weight_format")}


def _format_name(none: str, value: str | None) -> str:
    if value is None or value == "native":
        return none
    return FORMATS[value].name if value in FORMATS else str(value)


def _details(edited: dict[str, bool]) -> None:
    choice(
        "model.weight_format",
        ["native", *FORMATS],
        edited=edited["model.weight_format"],
        format_func=partial(_format_name, "As published"),
    )
    choice(
        "policy.expert_format",
        [None, *FORMATS],
        edited=edited["policy.expert_format"],
        format_func=partial(_format_name, "By the bits above"),
        label="Format of experts off the GPU",
    )
    for row in (("gpu_experts_per_layer", "micro_batches"), ("tensor_parallel", "pipeline_parallel")):
        for column, name in zip(pair(), row, strict=True):
            with column:
                number(f"policy.{name}", edited=edited[f"policy.{name}"])
    left, right = pair()
    with left:
        number("policy.data_parallel", edited=edited["policy.data_parallel"])
    with right:
        choice(
            "policy.expert_parallel",
            [None, True, False],
            edited=edited["policy.expert_parallel"],
            format_func=lambda value: {None: "chosen for you", True: "yes", False: "no"}.get(value, str(value)),
        )
    switch("policy.cuda_graphs", edited=edited["policy.cuda_graphs"])


def _option(option: Option) -> None:
    if option.name == losses.OPTION:
        losses.show(option, _set)
        return
    path = f"{OPTIONS}.{option.name}"
    key = f"in.{path}"
    stored = state.value(path)
    value = option.default if stored is None else stored
    edited = stored is not None and stored != option.default
    label = labels.LABELS.get(path, (option.name.replace("_", " ").capitalize(), ""))[0]
    mark(key, edited)
    text = option.description[:1].upper() + option.description[1:] + "."
    if option.type == "bool":
        st.session_state[key] = bool(value)
        st.toggle(label, key=key, help=text, on_change=_option_chosen, args=(option,))
    elif option.type == "choice":
        values = list(option.choices)
        if value not in values:
            values.append(str(value))
        st.session_state[key] = value
        st.selectbox(label, values, key=key, help=text, on_change=_option_chosen, args=(option,))
    else:
        kept = state.typed(path)
        st.session_state[key] = kept if kept is not None else typed.plain(value)
        if option.type == "text":
            st.text_input(label, key=key, help=text, max_chars=200, on_change=_option_chosen, args=(option,))
            show_fault(path, typed.plain(value))
            return
        text += f" Takes {_accepts(option)}. Default {typed.plain(option.default)}."
        st.text_input(label, key=key, help=text, on_change=_option_typed, args=(option,))
        show_fault(path, typed.plain(value))


def _accepts(option: Option) -> str:
    what = "a whole number" if option.type == "int" else "a number"
    low = "" if option.low is None else f" from {trimmed(option.low)}"
    high = "" if option.high is None else f" to {trimmed(option.high)}"
    return what + low + high


def _option_chosen(option: Option) -> None:
    _set(option, st.session_state[f"in.{OPTIONS}.{option.name}"])


def _option_typed(option: Option) -> None:
    path = f"{OPTIONS}.{option.name}"
    text = str(st.session_state[f"in.{path}"] or "")
    read = typed.number(text) if text.strip() else float(option.default)
    name = option.name.replace("_", " ").capitalize()
    whole = option.type == "int"
    if read is None or (whole and read != int(read)):
        state.refuse(path, text, f"{name}: \u201c{text[:40]}\u201d is not {'a whole number' if whole else 'a number'}.")
    elif (option.low is not None and read < option.low) or (option.high is not None and read > option.high):
        state.refuse(path, text, f"{name} is {text[:40]}; it takes {_accepts(option)}.")
    else:
        _set(option, int(read) if whole else read)


def _set(option: Option, value: bool | int | float | str) -> None:
    path = f"{OPTIONS}.{option.name}"
    options = dict(state.current().policy.options)
    if value == option.default:
        options.pop(option.name, None)
    else:
        options[option.name] = value
    try:
        state.change({OPTIONS: options})
        state.forget(path)
    except ScenarioError as error:
        state.refuse(path, str(value), state.person_sentence(error))
