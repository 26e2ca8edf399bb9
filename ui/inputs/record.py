"""Inputs for any flat record of options, made from its fields: a switch, a choice or a field that takes any text.

What is typed stays in the session as text under one key, so that nothing is lost when a page or a section goes; it is
read into the record at once, and what is refused is one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import streamlit as st
from pydantic import BaseModel, ValidationError

from planner.fields import FieldSpec, refused, specs_of
from planner.words.formats import capital
from ui import typed

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Form(Generic[R]):
    """The inputs of one record. ``labels`` rename fields; ``none`` is what an empty choice means, by field."""

    record: type[R]
    key: str
    labels: Mapping[str, str]
    none: Mapping[str, str]

    def specs(self) -> Mapping[str, FieldSpec]:
        return specs_of(self.record)

    def label(self, name: str) -> str:
        """What stands beside the input."""
        return self.labels.get(name, capital(name.replace("_", " ")))

    def show(self, names: Sequence[str]) -> None:
        """Inputs for these fields; those of other fields keep their values."""
        kept = st.session_state.setdefault(self.key, {})
        for name in names:
            spec, key = self.specs()[name], f"{self.key}.{name}"
            if key not in st.session_state:
                plain = spec.default if spec.kind in ("yes_no", "choice") else typed.plain(spec.default)
                st.session_state[key] = kept.get(name, plain)
            help_text = f"{capital(spec.description)}." if spec.description else None
            if spec.kind == "yes_no":
                kept[name] = st.toggle(self.label(name), key=key, help=help_text)
            elif spec.kind == "choice":
                choices = [None, *spec.choices] if spec.nullable else list(spec.choices)
                kept[name] = st.selectbox(
                    self.label(name), choices, key=key, help=help_text, format_func=self._choice_name(name)
                )
            else:
                more = f"{help_text or ''} Takes {spec.accepts.replace(', or null', ', or nothing')}."
                empty = self.none.get(name, "none") if spec.nullable else None
                kept[name] = st.text_input(self.label(name), key=key, help=more.strip(), placeholder=empty)

    def _choice_name(self, name: str) -> Any:
        empty = self.none.get(name, "none")
        return lambda value: empty if value is None else str(value)

    def edited(self, names: Sequence[str]) -> int:
        """How many of these fields differ from their defaults."""
        kept = st.session_state.get(self.key, {})
        return sum(self._read(self.specs()[name], kept[name]) != self.specs()[name].default
                   for name in names if name in kept)  # fmt: skip

    def read(self) -> R:
        """The record as typed. Raises ValueError with one sentence that names the first field that is refused."""
        kept = st.session_state.get(self.key, {})
        values = {name: self._read(spec, kept[name]) for name, spec in self.specs().items() if name in kept}
        try:
            return self.record.model_validate(values)
        except ValidationError as error:
            name = str(error.errors(include_url=False)[0]["loc"][0])
            spec = self.specs()[name]
            sentence = refused(spec, kept.get(name)).replace(", or null", ", or nothing")
            raise ValueError(sentence.replace(name, self.label(name), 1)) from None

    @staticmethod
    def _read(spec: FieldSpec, value: object) -> object:
        """Text of a number as a number; text that is none stays, and the record refuses it."""
        if spec.kind not in ("number", "whole") or not isinstance(value, str):
            return value
        if not value.strip():
            return None if spec.nullable else value
        found = typed.number(value)
        if found is None:
            return value
        return int(found) if spec.kind == "whole" and found == int(found) else found


def columns(form: Form[R], names: Sequence[str], wide: int) -> None:
    """Inputs in rows of ``wide``."""
    for at in range(0, len(names), wide):
        for column, name in zip(st.columns(wide, gap="small"), names[at : at + wide], strict=False):
            with column:
                form.show([name])
