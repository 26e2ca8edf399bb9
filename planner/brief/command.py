"""The command line that describes a scenario again: every field that differs from its default."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from planner.cli.parsing import PROGRAM
from planner.difference import changed_paths
from planner.fields import fields, get_path
from planner.scenario import Scenario

LONGEST = 4000  # a pasted config.json makes a command that no shell and no page takes


def reproduce(
    scenario: Scenario, command: str = "brief", tail: str = "--out brief.html", options: Sequence[str] = ()
) -> str:
    """``python -m planner brief --set model.id=... --out brief.html``; from a file where the scenario is too long.

    ``options``: names of other scenarios, each a file of that name.
    """
    tail = " ".join([*(shlex.join(["--option", file_of(name)]) for name in options), tail])
    text = " ".join([f"{PROGRAM} {command}", *(shlex.join(["--set", s]) for s in settings(scenario)), tail])
    return text if len(text) <= LONGEST else f"{PROGRAM} {command} scenario.json {tail}"


def file_of(name: str) -> str:
    """A plain name of a file for an option: letters and digits of any script, at most 60."""
    return "-".join(re.findall(r"\w+", name))[:60].casefold() + ".json"


def settings(scenario: Scenario) -> list[str]:
    """``path=value`` for every field that differs from its default, in the order of the schema."""
    return [f"{path}={_text(path, value)}" for path, value in _changed(scenario)]


def _changed(scenario: Scenario) -> Iterator[tuple[str, Any]]:
    paths = ("model.config" if path.startswith("model.config.") else path
             for path in changed_paths(Scenario(), scenario))  # fmt: skip
    for path in dict.fromkeys(paths):
        yield path, get_path(scenario, path)


def _text(path: str, value: Any) -> str:
    """The value as ``--set`` reads it back exactly."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # An option could be read as a number, a text as nothing or as JSON: in quotes it is neither.
        spec = fields().get(path)
        plain = spec is not None and value == value.strip() and value.casefold() not in ("", "null", "none")
        return value if plain and value[:1] not in ('"', "{", "[") else json.dumps(value)
    if isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"))
    return repr(value)
