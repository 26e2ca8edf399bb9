"""``schema``: the JSON schema of scenario and result, or the page of the documentation made from it."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from planner import result as results
from planner import scenario as scenarios
from planner.cli.output import json_text
from planner.cli.parsing import CommandParser
from planner.fields.table import FieldSpec, fields, section_descriptions

_INTRODUCTION = """# Scenario and result

<!-- Written by `python -m planner schema --markdown > docs/schema.md`; change the models, not this page. -->

`python -m planner plan` reads a scenario and prints a result; the page, a saved scenario and a link carry the same
two documents. Both are JSON, both are versioned: a scenario of a newer version is refused with a sentence.
`python -m planner schema` prints them as JSON Schema. A name ends with its unit; everything is SI inside.

"""
_SCENARIO = """## Scenario, version {version}

Every field may be left out and takes its default then. An unknown field is refused. Paths as in
`--set path=value`; `system.overrides.<figure>` and `policy.options.<name>` set one entry of these two.

"""
_RESULT = """## Result, version {version}

A figure that is not known, or that a plan which does not fit cannot have, is `null` and never zero.

"""


def run(command: str, arguments: list[str]) -> str:
    """The schema as JSON, or with ``--markdown`` as the text of ``docs/schema.md``."""
    parser = CommandParser(command, "Prints the versioned JSON schema of scenario and result.")
    parser.add_argument("--markdown", action="store_true", help="print the text of docs/schema.md instead")
    return markdown() if parser.read(arguments).markdown else json_text(schema())


def schema() -> dict[str, Any]:
    """Both JSON schemas with their versions."""
    return {
        "scenario_schema_version": scenarios.SCHEMA_VERSION,
        "result_schema_version": results.SCHEMA_VERSION,
        "scenario": scenarios.Scenario.model_json_schema(),
        "result": results.Result.model_json_schema(mode="serialization"),
    }


def markdown() -> str:
    """The text of ``docs/schema.md``."""
    parts = [_INTRODUCTION, _SCENARIO.format(version=scenarios.SCHEMA_VERSION)]
    parts.append(_field_rows([spec for spec in fields().values() if "." not in spec.path]))
    for section, sentence in section_descriptions().items():
        parts.append(f"### `{section}`\n\n{sentence}\n\n")
        parts.append(_field_rows([spec for spec in fields().values() if spec.path.startswith(section + ".")]))
    parts.append(_RESULT.format(version=results.SCHEMA_VERSION))
    parts.extend(_record(model) for model in _records(results.Result))
    return "".join(parts).rstrip() + "\n"


def _field_rows(specs: list[FieldSpec]) -> str:
    rows = [
        (f"`{spec.path}`", spec.kind_name, f"`{json.dumps(spec.default)}`", spec.range_text, spec.description)
        for spec in specs
    ]
    return _table(("path", "type", "default", "accepted", "meaning"), rows)


def _records(model: type[BaseModel]) -> list[type[BaseModel]]:
    """``model`` and every record inside it, each once, outermost first; the scenario has its own part."""
    found: list[type[BaseModel]] = []
    pending = [model]
    while pending:
        current = pending.pop(0)
        if current in found or current is scenarios.Scenario:
            continue
        found.append(current)
        for info in current.model_fields.values():
            pending.extend(_inside(info.annotation))
    return found


def _inside(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in typing.get_args(annotation) for model in _inside(argument)]


def _record(model: type[BaseModel]) -> str:
    own = (model.__doc__ or "").strip()
    own = re.sub(r":[a-z]+:`", "`", " ".join(own.split())).replace("``", "`")
    sentence = own + "\n\n" if own and model.__doc__ != BaseModel.__doc__ else ""
    rows = [
        (f"`{name}`", _type_words(info.annotation), (info.description or "").strip())
        for name, info in model.model_fields.items()
    ]
    return f"### {model.__name__}\n\n{sentence}{_table(('field', 'type', 'meaning'), rows)}"


def _type_words(annotation: Any) -> str:
    """The type as a reader of the JSON sees it."""
    plain = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): "null"}
    if annotation in plain:
        return plain[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.__name__
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_words(argument) for argument in arguments)
    if origin is typing.Annotated:
        return _type_words(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{json.dumps(argument)}`" for argument in arguments)
    if origin is dict:
        return f"object of {_type_words(arguments[1])}"
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"[{', '.join(_type_words(argument) for argument in arguments)}]"
    if origin in (tuple, list):
        return f"list of {_type_words(arguments[0])}"
    return "any JSON"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines) + "\n"
