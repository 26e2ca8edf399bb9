"""Sentences for what pydantic refuses: field, value, what is accepted, nearest accepted thing."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pydantic import ValidationError

from planner.fields.sentences import MOST_FAULTS, nearest, one_of, shown
from planner.fields.table import FieldSpec, fields, sections

_PLAIN_PART = re.compile(r"[A-Za-z0-9_.\-/:\[\]]{1,60}")


class Fault(NamedTuple):
    """One faulty field: its path (``""`` for the whole scenario) and one sentence about it."""

    path: str
    sentence: str


def explain(error: ValidationError) -> list[str]:
    """One sentence for each faulty field, for example
    ``workload.batch is 0; it takes a whole number from 1 to 65,536.``"""
    return [fault.sentence for fault in faults(error)]


def faults(error: ValidationError) -> list[Fault]:
    """Like :func:`explain`, with the path of each faulty field; at most 50."""
    found: dict[str, Fault] = {}
    for detail in error.errors(include_url=False):
        fault = _fault(detail)
        found.setdefault(fault.path, fault)  # a union reports one error for each of its types
        if len(found) >= MOST_FAULTS:
            break
    return list(found.values())


def unknown_path(path: str) -> str:
    """The sentence for a path that names no field, with the nearest that does."""
    close = nearest_paths(path)
    near = f"; the nearest is {one_of(close)}" if close else ""
    return f"There is no field {path_text(path.split('.')) or shown(path)}{near}."


def nearest_paths(path: str) -> list[str]:
    """Paths of the fields whose name, or else whose whole path, is closest to ``path``."""
    section, _, name = path.rpartition(".")
    same = [known for known, spec in fields().items() if spec.name == name and "." in known]
    if same:
        return same[:4]
    if section in sections():
        inside = nearest(name, sections()[section])
        if inside:
            return [f"{section}.{inside[0]}"]
    by_name = nearest(name, {spec.name: None for spec in fields().values()}, cutoff=0.75)
    if by_name:
        return [known for known, spec in fields().items() if spec.name == by_name[0]][:4]
    return nearest(path, [*fields(), *sections()])


def path_text(parts: tuple[Any, ...] | list[Any]) -> str:
    """A path with dots; parts that are not plain names are quoted and shortened."""
    texts = [str(part) for part in parts if part != "[key]"]
    return ".".join(text if _PLAIN_PART.fullmatch(text) else shown(text) for text in texts)


def refused(spec: FieldSpec, value: object) -> str:
    """The sentence for a value that ``spec`` does not take."""
    hint = ""
    if isinstance(value, str) and spec.kind == "choice":
        close = nearest(value, spec.choices, cutoff=0.4)
        hint = f" (the nearest is {close[0]})" if close else ""
    return f"{spec.path} is {shown(value)}; it takes {spec.accepts}{hint}."


def _fault(detail: Any) -> Fault:
    location, kind, value = tuple(detail["loc"]), detail["type"], detail["input"]
    if kind == "extra_forbidden":
        path = ".".join(str(part) for part in location)
        return Fault(path_text(location), unknown_path(path))
    if kind == "value_error":
        return _own_words(location, detail)
    spec, entry = _locate(location)
    if spec is not None and entry is not None:
        path = f"{spec.path}.{path_text((entry,))}"
        return Fault(path, f"{path} is {shown(value)}; it takes {spec.entry_accepts()}.")
    if spec is not None:
        return Fault(spec.path, refused(spec, value))
    path = path_text(location)
    if kind in ("model_type", "model_attributes_type", "dict_type") or not location:
        return Fault(path, _not_a_section(path, value))
    message = str(detail["msg"]).removeprefix("Input ")
    return Fault(path, f"{path} is {shown(value)}; it {message[:1].lower()}{message[1:]}.")


def _own_words(location: tuple[Any, ...], detail: Any) -> Fault:
    """A validator of the schema refused it and said why in its own words."""
    path = path_text(location)
    reason = " ".join(str((detail.get("ctx") or {}).get("error", detail["msg"])).split()).rstrip(".")
    if path in fields():
        return Fault(path, f"{reason[:1].upper()}{reason[1:]}.")
    return Fault(path, f"{path}: {reason}." if path else f"{reason[:1].upper()}{reason[1:]}.")


def _locate(location: tuple[Any, ...]) -> tuple[FieldSpec | None, str | None]:
    for length in (1, 2):
        spec = fields().get(".".join(str(part) for part in location[:length]))
        if spec is not None and len(location) >= length:
            inside = location[length:]
            entry = str(inside[0]) if inside and spec.kind in ("numbers", "options") else None
            return spec, entry
    return None, None


def _not_a_section(path: str, value: object) -> str:
    names = sections().get(path) or tuple(sections())
    listed = ", ".join(names[:4]) + (" and others" if len(names) > 4 else "")
    return f"{path or 'The scenario'} is {shown(value)}; it takes an object with the fields {listed}."
