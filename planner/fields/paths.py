"""Reading and changing one field of a scenario by its path."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from planner.fields.explain import faults, path_text, unknown_path
from planner.fields.sentences import ScenarioError, shown
from planner.fields.table import FieldSpec, field_for, fields, sections
from planner.fields.tree import check_tree, json_tree
from planner.scenario import SCHEMA_VERSION, Scenario

LARGEST_OPTION = 2**53
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
_NOTHING = ("", "null", "none")
_YES_NO = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def get_path(scenario: Scenario, path: str) -> Any:
    """The value at ``path``; None for an entry of ``system.overrides`` or ``policy.options`` that is not set.

    Raises ScenarioError when there is no such field.
    """
    spec, entry = _known(path)
    value: Any = scenario
    for part in spec.path.split("."):
        value = getattr(value, part)
    return value if entry is None else value.get(entry)


def set_path(scenario: Scenario, path: str, value: object) -> Scenario:
    """A copy of ``scenario`` with ``path`` set.

    ``path`` is a field (``workload.batch``), an entry (``system.overrides.gpu.power_limit_w``,
    ``policy.options.ndp_compute``) or a whole section (``routing``, with an object). Text is read as the field
    wants it, JSON included; ``null`` or ``none`` clears. Raises ScenarioError.
    """
    return set_paths(scenario, [(path, value)])


def set_paths(scenario: Scenario, changes: Mapping[str, object] | Iterable[tuple[str, object]]) -> Scenario:
    """Like :func:`set_path` for several changes, in order, checked together at the end.

    So two fields that only make sense together (``routing.source`` and ``routing.trace``) can be set at once.
    """
    data = scenario.model_dump()
    for path, value in changes.items() if isinstance(changes, Mapping) else changes:
        _put(data, path.strip(), value)
    return validated(data)


def validated(data: object) -> Scenario:
    """A scenario from parsed JSON, with nothing converted silently: no text for a number, no true for a 1.

    A whole number may be written as ``32.0``. Missing fields take their default. Raises ScenarioError.
    """
    check_tree(data, "the scenario")
    if isinstance(data, dict):
        _check_version(data)
        data = {key: _normal_section(str(key), value) for key, value in data.items()}
    try:
        scenario = Scenario.model_validate(data, strict=True)
    except ValidationError as error:
        found = faults(error)
        raise ScenarioError([fault.sentence for fault in found], [fault.path for fault in found]) from None
    _check_entries(scenario)
    return scenario


def parse_text(spec: FieldSpec, text: str, entry: str | None = None) -> Any:
    """Text that a person typed, as the value that the field wants; left as text where it is none.

    Whole numbers may be written ``65,536``, ``65_536`` or ``1e3``; ``null``, ``none`` and nothing clear a field
    that may be empty.
    """
    text = text.strip()
    if text.casefold() in _NOTHING and (spec.nullable or entry is not None):
        return None
    if entry is not None:
        return _number(text) if spec.kind == "numbers" else _option(text)
    if spec.kind in ("whole", "version"):
        return _whole(text)
    if spec.kind == "number":
        return _number(text)
    if spec.kind == "yes_no":
        return _YES_NO.get(text.casefold(), text)
    if spec.kind in ("numbers", "options", "object"):
        return {} if text.casefold() in _NOTHING else _json_or_text(text)
    if text.startswith('"'):
        return _json_or_text(text)
    if spec.kind == "choice":
        return next((choice for choice in spec.choices if choice.casefold() == text.casefold()), text)
    return text


def _known(path: str) -> tuple[FieldSpec, str | None]:
    found = field_for(path)
    if found is None:
        if path.startswith("model.config."):
            sentence = f"{path_text(path.split('.'))} cannot be set alone; model.config takes a whole config.json."
        else:
            sentence = unknown_path(path)
        raise ScenarioError(sentence, [path_text(path.split("."))])
    return found


def _put(data: dict[str, Any], path: str, value: object) -> None:
    if path in sections():
        data[path] = _json_or_text(value) if isinstance(value, str) else value
        return
    spec, entry = _known(path)
    parsed = parse_text(spec, value, entry) if isinstance(value, str) else value
    if spec.path == spec.section:
        data[spec.path] = parsed
        return
    holder = data[spec.section]
    if not isinstance(holder, dict):
        raise ScenarioError(f"{spec.section} is {shown(holder)}; {path} cannot be set in it.", [spec.section])
    if entry is None:
        holder[spec.name] = {} if parsed is None and spec.kind in ("numbers", "options") else parsed
    elif parsed is None:
        holder.setdefault(spec.name, {}).pop(entry, None)
    else:
        holder.setdefault(spec.name, {})[entry] = parsed


def _check_version(data: dict[Any, Any]) -> None:
    """Before all else: the fields of a newer schema would only be reported as unknown ones."""
    version = data.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        raise ScenarioError(
            f"This scenario was written by a newer Tierline: its schema_version is {shown(version)}, "
            f"and this one reads up to {SCHEMA_VERSION}.",
            ["schema_version"],
        )
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ScenarioError(f"schema_version is {shown(version)}; it takes {SCHEMA_VERSION}.", ["schema_version"])


def _normal_section(section: str, value: Any) -> Any:
    if section not in sections() or not isinstance(value, dict):
        return value
    return {name: _normal_value(fields().get(f"{section}.{name}"), inner) for name, inner in value.items()}


def _normal_value(spec: FieldSpec | None, value: Any) -> Any:
    if spec is None:
        return value
    if spec.kind == "object":
        return _without_infinities(value)
    if spec.kind in ("numbers", "options") and isinstance(value, dict):
        return {key: _normal_number(inner) for key, inner in value.items()}
    value = _normal_number(value)
    if spec.kind == "whole" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _normal_number(value: Any) -> Any:
    """Array scalars as Python numbers, and one zero only: -0.0 would give the same scenario another hash."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    return 0.0 if isinstance(value, float) and value == 0 else value


def _without_infinities(node: Any) -> Any:
    """A pasted config.json with the numbers that JSON does not have as text.

    Published configs do hold ``"time_step_limit": [0.0, Infinity]``; as a float it would not survive a link.
    """
    if isinstance(node, dict):
        return {key: _without_infinities(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_infinities(value) for value in node]
    if isinstance(node, float) and not math.isfinite(node):
        return "NaN" if math.isnan(node) else "Infinity" if node > 0 else "-Infinity"
    return node


def _check_entries(scenario: Scenario) -> None:
    for name, value in scenario.policy.options.items():
        if isinstance(value, int) and abs(value) > LARGEST_OPTION:
            path = f"policy.options.{path_text((name,))}"
            raise ScenarioError(f"{path} is {shown(value)}; it takes a whole number up to 2^53 in size.", [path])


def _whole(text: str) -> Any:
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    if len(text) > 300:
        return text
    try:
        return int(text)
    except ValueError:
        number = _number(text)
        return int(number) if isinstance(number, float) and number.is_integer() else number


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _option(text: str) -> Any:
    """The most natural reading of an option of a policy: true or false, a whole number, a number, else text."""
    if text.casefold() in ("true", "false"):
        return _YES_NO[text.casefold()]
    if text.startswith('"'):
        return _json_or_text(text)
    return _number(text) if any(mark in text for mark in ".eE") else _whole(text)


def _json_or_text(text: str) -> Any:
    if text[:1] not in ("{", "[", '"'):
        return text
    return json_tree(text, "this value")
