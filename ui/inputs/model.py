"""Model: one of the catalog, grouped by vendor and searchable, or any config.json that a person pastes or uploads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from models import Architecture, CatalogEntry, ModelError, catalog, load, parse_config_text, read_config, sentence, show
from planner.fields import ScenarioError
from planner.words.formats import capital, count, gigabytes, parameters
from ui import state
from ui.inputs.fields import caption
from ui.safe import md
from ui.tables import Row, Table

_TEXT = "paste-text"
_KEPT = "paste_kept"
_FAULT = "paste_fault"
_NAME = "paste-name"
_FILE = "paste-file"
PASTED = "\u2014 pasted config \u2014"


def show_group() -> None:
    """The group in the sidebar."""
    st.markdown("#### Model", width="content")
    entries = {entry.id: entry for entry in catalog()}
    chosen = state.current().model
    now = PASTED if chosen.config is not None else chosen.id
    options = list(entries)
    if now not in entries:
        options.insert(0, now)
    st.session_state["in.model.id"] = now
    st.selectbox(
        "Model",
        options,
        key="in.model.id",
        format_func=partial(_name, entries, chosen.id),
        help="By vendor; type to search. Its id is the Hugging Face id.",
        label_visibility="collapsed",
        on_change=_chosen,
    )
    arch, fault = architecture()
    if arch is None:
        caption(fault or "")
    else:
        caption(f"{arch.id}: {sentence(arch)}" if chosen.config is None else f"{arch.name}: {sentence(arch)}")
        if not arch.plannable:
            caption(f"Counted, not planned: {arch.why_not}")
        with st.expander("Architecture and parameters", key="fold-model"):
            _facts(arch)
    with st.expander("Paste or upload a config.json", key="fold-paste", expanded=bool(_kept_fault())):
        _paste()


def _name(entries: Mapping[str, CatalogEntry], pasted: str, value: str) -> str:
    entry = entries.get(value)
    if entry is None:
        return f"Pasted: {pasted}" if value == PASTED else value
    return f"{entry.group} \u00b7 {entry.name}" + ("" if entry.plannable else " (counts only)")


def architecture() -> tuple[Architecture | None, str | None]:
    """The model of the open scenario as read from its config; None and why where it cannot be read."""
    chosen = state.current().model
    try:
        if chosen.config is not None:
            return read_config(chosen.config, chosen.id), None
        return load(chosen.id), None
    except ModelError as error:
        return None, capital(str(error))


def _chosen() -> None:
    value = st.session_state["in.model.id"]
    if value != PASTED:
        _set(value, None)


def _set(model_id: str, config: dict[str, Any] | None) -> None:
    """Another model: a recorded trace belongs to the old one, so the load comes from the generator again."""
    changes: dict[str, object] = {"model.id": model_id, "model.config": config}
    if state.value("routing.source") == "trace":
        changes |= {"routing.source": "generated", "routing.trace": None}
        state.change(changes)
        state.notice("The recorded trace belongs to the model before; expert load now comes from the generator.")
        return
    state.change(changes)


def _facts(arch: Architecture) -> None:
    found = show(arch)
    counts, layers, sizes = found["parameters"], found["layers"], found["bytes"]
    rows = [
        Row("parameters", [f"{parameters(counts['total'])} total"]),
        Row("active per token", [parameters(counts["active"])]),
        Row("layers", [f"{layers['total']}, of them {layers['moe']} MoE"]),
        Row("experts", [f"{layers['experts']}, top-{layers['top_k']}"]),
        Row("shared experts", [str(layers["shared_experts"])]),
        Row("one expert", [f"{parameters(layers['expert_parameters'])} parameters"]),
        Row("hidden size", [count(found["hidden_size"])]),
        Row("as published", [f"{gigabytes(sizes['native'])}, {found['native_format']['base'].upper()}"]),
        Row("at 16 / 4 bit", [f"{gigabytes(sizes['16'])} / {gigabytes(sizes['4'])}"]),
        Row("KV per token, 16 bit", [f"{count(found['kv_bytes_per_token'])} B"]),
    ]
    st.html(Table("The model's counts", ["Quantity", "Value"], rows).html())
    for note in found["notes"]:
        caption(note)
    by_component = counts["by_component"]
    st.html(
        Table(
            "Parameters by component",
            ["Component", "Parameters"],
            [Row(name.replace("_", " "), [parameters(value)]) for name, value in by_component.items() if value],
        ).html()
    )


def _kept_fault() -> str | None:
    fault: str | None = st.session_state.get(_FAULT)
    return fault


def _paste() -> None:
    """The text stays in its box whatever the reader says about it."""
    if _TEXT not in st.session_state:
        st.session_state[_TEXT] = st.session_state.get(_KEPT, "")
    if _NAME not in st.session_state:
        st.session_state[_NAME] = st.session_state.get(_NAME + "-kept", "")
    st.text_input("Name", key=_NAME, max_chars=200, help="What the model is called here; only shown.",
                  placeholder="as the config says")  # fmt: skip
    st.text_area("config.json", key=_TEXT, height=160, placeholder='{"model_type": "mixtral", ...}',
                 help="The whole config.json of the checkpoint, as published on Hugging Face.")  # fmt: skip
    st.file_uploader("or upload it", type=["json"], key=_FILE, max_upload_size=2, help="A config.json of at most 2 MB.")
    st.button("Use this config", key="paste-use", on_click=_use)
    fault = _kept_fault()
    if fault:
        st.error(md(fault), icon=":material/error:")


def _use() -> None:
    typed = str(st.session_state.get(_TEXT) or "")
    st.session_state[_KEPT] = typed
    st.session_state[_NAME + "-kept"] = st.session_state.get(_NAME) or ""
    upload = st.session_state.get(_FILE)
    text: str | bytes = typed if typed.strip() or upload is None else upload.getvalue()
    try:
        config = parse_config_text(text)
        name = str(st.session_state.get(_NAME) or "").strip() or _own_name(config)
        read_config(config, name)
        _set(name, config)
    except (ModelError, ScenarioError) as error:
        st.session_state[_FAULT] = capital(str(error))
        return
    st.session_state[_FAULT] = None


def _own_name(config: dict[str, Any]) -> str:
    for key in ("_name_or_path", "model_type"):
        value = config.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()[:200]
    return "pasted model"
