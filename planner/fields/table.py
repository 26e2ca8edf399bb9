"""The fields of a scenario as data, derived from the pydantic models and from nothing else.

One source for ``--set path=value``, for the sentences that refuse a value, for the help beside a widget and
for the documentation: path, kind, default, bounds, choices, description.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel

from planner.fields.sentences import one_of
from planner.scenario import Scenario

Kind = Literal["whole", "number", "yes_no", "choice", "text", "numbers", "options", "object", "version"]

_KIND_OF_TYPE: dict[str, Kind] = {"integer": "whole", "number": "number", "boolean": "yes_no", "string": "text"}
_KIND_NAMES: dict[Kind, str] = {
    "whole": "whole number",
    "number": "number",
    "yes_no": "true or false",
    "choice": "choice",
    "text": "text",
    "numbers": "object of numbers",
    "options": "object",
    "object": "object",
    "version": "whole number",
}


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field. ``minimum`` and ``maximum`` are included in what is accepted, ``above`` and ``below`` are not."""

    path: str
    kind: Kind
    nullable: bool
    default: Any
    description: str
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    max_length: int | None = None
    choices: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """First part of the path: ``workload`` for ``workload.batch``."""
        return self.path.partition(".")[0]

    @property
    def name(self) -> str:
        """Last part of the path: ``batch`` for ``workload.batch``."""
        return self.path.rpartition(".")[2]

    @property
    def kind_name(self) -> str:
        """The kind in words, for a table."""
        return _KIND_NAMES[self.kind] + (" or null" if self.nullable else "")

    @property
    def accepts(self) -> str:
        """What the field takes, in words: ``a whole number from 1 to 65,536``."""
        return self._accepts_value() + (", or null" if self.nullable else "")

    def _accepts_value(self) -> str:
        if self.kind in ("whole", "number"):
            return ("a whole number" if self.kind == "whole" else "a number") + self._range()
        if self.kind == "choice":
            return one_of(self.choices)
        if self.kind == "version":
            return f"{self.default}"
        return {
            "yes_no": "true or false",
            "text": f"text of at most {self.max_length:,} characters" if self.max_length else "text",
            "numbers": 'an object of paths and numbers such as {"gpu.power_limit_w": 500}',
            "options": "an object of option names, each with true or false, a number, or text",
            "object": "the object of a config.json",
        }[self.kind]

    def _range(self) -> str:
        low = self.minimum if self.minimum is not None else self.above
        high = self.maximum if self.maximum is not None else self.below
        if low is not None and high is not None:
            if self.minimum is not None and self.maximum is not None:
                return f" from {plain(low)} to {plain(high)}"
            above = f"{'of at least' if self.minimum is not None else 'above'} {plain(low)}"
            return f" {above} and {'up to' if self.maximum is not None else 'below'} {plain(high)}"
        if low is not None:
            return f" {'of at least' if self.minimum is not None else 'above'} {plain(low)}"
        if high is not None:
            return f" {'up to' if self.maximum is not None else 'below'} {plain(high)}"
        return ""

    def entry_accepts(self) -> str:
        """What one entry of a field of kind ``numbers`` or ``options`` takes."""
        return "a number" if self.kind == "numbers" else "true or false, a number, or text"

    @property
    def range_text(self) -> str:
        """What is accepted, for the narrow column of a table."""
        if self.kind in ("whole", "number"):
            return self._range().strip() or "any"
        return ", ".join(self.choices) if self.kind == "choice" else self._accepts_value()


def plain(number: float) -> str:
    """A bound as a person writes it: ``65,536``, ``0.5``, ``1e+18``."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.12g}"


@cache
def fields() -> Mapping[str, FieldSpec]:
    """Every field of a scenario by path (``workload.batch``), in the order of the schema."""
    schema = Scenario.model_json_schema()
    defaults = Scenario().model_dump()
    found: dict[str, FieldSpec] = {}
    for section, node in schema["properties"].items():
        definition = _definition(node, schema["$defs"])
        if definition is None:
            found[section] = _spec(section, node, defaults[section])
            continue
        for name, inner in definition["properties"].items():
            path = f"{section}.{name}"
            found[path] = _spec(path, inner, defaults[section][name])
    return MappingProxyType(found)


@cache
def sections() -> Mapping[str, tuple[str, ...]]:
    """Section -> names of its fields: ``workload`` -> ``("preset", "batch", ...)``."""
    grouped: dict[str, list[str]] = {}
    for spec in fields().values():
        if "." in spec.path:
            grouped.setdefault(spec.section, []).append(spec.name)
    return MappingProxyType({section: tuple(names) for section, names in grouped.items()})


def section_descriptions() -> dict[str, str]:
    """Section -> the sentence that its class is documented with."""
    return {
        name: (info.annotation.__doc__ or "").strip().splitlines()[0]
        for name, info in Scenario.model_fields.items()
        if name in sections() and info.annotation is not None
    }


def field_for(path: str) -> tuple[FieldSpec, str | None] | None:
    """The field that ``path`` names, and the entry inside it.

    ``system.overrides.gpu.power_limit_w`` is the entry ``gpu.power_limit_w`` of ``system.overrides``.
    None when there is no such field.
    """
    if path in fields():
        return fields()[path], None
    for holder in ("system.overrides", "policy.options"):
        if path.startswith(holder + ".") and len(path) > len(holder) + 1:
            return fields()[holder], path[len(holder) + 1 :]
    return None


def specs_of(model: type[BaseModel]) -> Mapping[str, FieldSpec]:
    """The fields of any other flat record, by name and in its order; those of a kind that no widget takes are left out.

    So a page offers every option of a record, new ones too, without naming one.
    """
    schema = model.model_json_schema()
    found: dict[str, FieldSpec] = {}
    for name, node in schema.get("properties", {}).items():
        try:
            found[name] = _spec(name, node, node.get("default"))
        except (KeyError, StopIteration):
            continue
    return MappingProxyType(found)


def _definition(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any] | None:
    reference = node.get("$ref") or next((part["$ref"] for part in node.get("allOf", []) if "$ref" in part), None)
    return definitions[reference.rpartition("/")[2]] if reference else None


def _spec(path: str, node: dict[str, Any], default: Any) -> FieldSpec:
    options = node.get("anyOf", [node])
    nullable = any(option.get("type") == "null" for option in options)
    shape = next(option for option in options if option.get("type") != "null")
    return FieldSpec(
        path=path,
        kind=_kind(shape),
        nullable=nullable,
        default=default,
        description=node.get("description", "version of this schema" if path == "schema_version" else ""),
        minimum=shape.get("minimum"),
        maximum=shape.get("maximum"),
        above=shape.get("exclusiveMinimum"),
        below=shape.get("exclusiveMaximum"),
        max_length=shape.get("maxLength"),
        choices=tuple(shape.get("enum", ())),
    )


def _kind(shape: dict[str, Any]) -> Kind:
    if "const" in shape:
        return "version"
    if "enum" in shape:
        return "choice"
    if shape.get("type") == "object":
        entry = shape.get("additionalProperties")
        if not isinstance(entry, dict):
            return "object"
        return "numbers" if entry.get("type") == "number" else "options"
    return _KIND_OF_TYPE[shape["type"]]
