"""The kinds of input: a field that takes any text, a choice, a switch; each writes to the scenario and keeps its place.

A refused text stays in its field with a sentence under it, and the last good value keeps computing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from planner.fields import FieldSpec, ScenarioError, fields
from planner.words import labels
from planner.words.formats import trimmed
from ui import state, typed


def mark(key: str, edited: bool) -> None:
    """A dot after the label of an edited field, by style: the label itself stays what it is, and so does the field."""
    if edited:
        name = re.sub(r"[^a-zA-Z0-9_-]", "-", key)
        st.html(f'<style>.st-key-{name} label p::after{{content:" \u25cf" / " edited";color:var(--tl-edited)}}</style>')


def spec(path: str) -> FieldSpec:
    """The field of the schema."""
    return fields()[path]


def help_text(path: str, more: str = "") -> str:
    """Meaning, unit, what is accepted and the default, for the hover."""
    found = spec(path)
    text = found.description[:1].upper() + found.description[1:] + "."
    if found.kind in ("whole", "number"):
        unit = labels.unit(path)
        text += f" Unit: {unit}." if unit else ""
        text += f" Takes {found.accepts.replace(', or null', ', or nothing')}."
        if found.default is not None:
            text += f" Default {trimmed(found.default)}."
    return f"{text} {more}".strip()


def number(
    path: str, *, edited: bool = False, label: str | None = None, clears: Sequence[str] = (), more: str = ""
) -> None:
    """A field for a number that takes any text. ``clears`` are fields that a good value empties."""
    key = f"in.{path}"
    st.session_state[key] = state.typed(path) if state.typed(path) is not None else typed.plain(state.value(path))
    optional = spec(path).nullable
    mark(key, edited)
    st.text_input(
        label or labels.field_label(path),
        key=key,
        help=help_text(path, more),
        placeholder="chosen for you" if optional and path.startswith("policy.") else "none" if optional else None,
        on_change=_number_typed,
        args=(path, tuple(clears)),
    )
    show_fault(path)


def show_fault(path: str, used: str | None = None) -> None:
    """The sentence under a field whose text was refused, and which value is used instead."""
    sentence = state.fault(path)
    if sentence is None:
        return
    value = state.value(path) if used is None else used
    still = "nothing" if value is None else typed.plain(value)
    st.html(f'<p class="tl-fault" role="alert">{escape(sentence)} {escape(still)} is used.</p>')


def _number_typed(path: str, clears: tuple[str, ...]) -> None:
    text = str(st.session_state[f"in.{path}"] or "")
    value: object = text
    if text.strip() == "":
        if not spec(path).nullable:
            sentence = f"{labels.label(path)} is empty; it takes {spec(path).accepts}."
            state.refuse(path, text, sentence)
            return
        value = None
    else:
        read = typed.number(text)
        if read is not None:
            value = int(read) if read == int(read) and spec(path).kind == "whole" else read
    try:
        state.change({path: value, **(dict.fromkeys(clears) if value is not None else {})})
    except ScenarioError as error:
        state.refuse(path, text, state.person_sentence(error))


def choice(
    path: str,
    options: Sequence[Any] | None = None,
    *,
    edited: bool = False,
    label: str | None = None,
    format_func: Callable[[Any], str] | None = None,
    more: str = "",
    on_choose: Callable[[Any], Mapping[str, object]] | None = None,
    label_visibility: Any = "visible",
    placeholder: str | None = None,
) -> None:
    """A drop-down for a field. ``on_choose`` gives the changes of a choice where it is more than the field itself."""
    key = f"in.{path}"
    values = list(options) if options is not None else list(spec(path).choices)
    now = state.value(path)
    if now not in values:
        values.insert(0, now)  # what a link or a file brought is shown, even where it is no usual choice
    st.session_state[key] = now
    mark(key, edited)
    st.selectbox(
        label or labels.label(path),
        values,
        key=key,
        format_func=format_func or (lambda value: labels.choice(path, value)),
        help=help_text(path, more),
        on_change=_chosen,
        args=(path, on_choose),
        label_visibility=label_visibility,
        placeholder=placeholder or (format_func(None) if None in values and format_func is not None else None),
    )
    show_fault(path)


def _chosen(path: str, on_choose: Callable[[Any], Mapping[str, object]] | None) -> None:
    value = st.session_state[f"in.{path}"]
    try:
        state.change(on_choose(value) if on_choose is not None else {path: value})
    except ScenarioError as error:
        state.refuse(path, "", state.person_sentence(error))


def switch(path: str, *, edited: bool = False) -> None:
    """A switch for yes or no."""
    key = f"in.{path}"
    st.session_state[key] = bool(state.value(path))
    mark(key, edited)
    st.toggle(labels.label(path), key=key, help=help_text(path), on_change=_chosen, args=(path, None))


def group(title: str, key: str, baseline: Mapping[str, object]) -> dict[str, bool]:
    """The heading of a group of inputs, how many of them differ from ``baseline``, and the way back.

    Returns path -> whether it differs.
    """
    differs = {path: _differs(state.value(path), value) for path, value in baseline.items()}
    count = sum(differs.values())
    refused = [path for path in state.faults() if path in baseline]
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key=f"group-{key}"
    ):
        badge = f" :orange-badge[{count} edited]" if count else ""
        st.markdown(f"#### {title}{badge}", width="content")
        if count or refused:
            st.button(
                "Reset", type="tertiary", icon=":material/undo:", key=f"reset-{key}", on_click=_reset,
                args=({path: value for path, value in baseline.items() if differs[path] or path in refused},),
                help=f"Back to what {title.lower()} started from.",
            )  # fmt: skip
    return differs


def _differs(now: object, before: object) -> bool:
    if isinstance(now, int | float) and isinstance(before, int | float):
        return float(now) != float(before)
    return now != before


def _reset(changes: Mapping[str, object]) -> None:
    try:
        state.change(changes)
    except ScenarioError as error:
        state.notice(state.person_sentence(error))


def pair() -> tuple[Any, Any]:
    """Two fields in one row that stay beside each other in a narrow sidebar."""
    left, right = st.columns(2, gap="xsmall", wrap=False)
    return left, right


def caption(text: str) -> None:
    """What was chosen, in words."""
    st.html(f'<p class="tl-quiet">{escape(text)}</p>')
