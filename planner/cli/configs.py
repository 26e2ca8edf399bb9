"""Files named on the command line: scenarios, and the config.json of a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from planner.cli.output import shown_file
from planner.cli.parsing import UsageError
from planner.errors import PlanError
from planner.fields.sentences import nearest
from planner.fields.tree import MAX_BYTES

_LONGEST_NAME = 120


def read_limited(name: str, what: str) -> bytes:
    """The bytes of a file, or of standard input for ``-``; one byte more than the limit at most.

    Raises UsageError when there is no such file or it cannot be read.
    """
    if name == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise UsageError("Standard input is closed; give a file instead of -.")
        data: bytes = stream.read(MAX_BYTES + 1)
        return data
    if not name:
        raise UsageError(f"The name of the {what} file is empty; give a path, or - for standard input.")
    path = Path(name)
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"There is no {what} file {shown_file(name)}{_similar(path)}.") from None
    except IsADirectoryError:
        raise UsageError(f"{shown_file(name)} is a folder; a {what} file is needed.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"The {what} file {shown_file(name)} cannot be read: {reason}.") from None


def is_config_argument(text: str) -> bool:
    """Whether a model argument means a file: it exists, or it is written like the path of a JSON file."""
    if not text or "\0" in text:
        return False
    try:
        if Path(text).is_file():
            return True
    except OSError:
        return False
    return text.casefold().endswith(".json")


def config_file(name: str) -> dict[str, Any]:
    """The object in a config.json, by the same rules as a pasted one. Raises PlanError."""
    from models import ModelError, parse_config_text

    content = read_limited(name, "config")
    try:
        return parse_config_text(content)
    except ModelError as error:
        raise PlanError(f"{shown_file(name)} cannot be used: {error}") from None


def name_of(file: str) -> str:
    """What a config.json is shown as: its own name, or its folder's when it is just called config.json."""
    if file == "-":
        return "config.json"
    path = Path(file)
    parent = path.absolute().parent.name
    name = parent if path.stem == "config" and parent else path.stem
    plain = "".join(character if character.isprintable() else "?" for character in name)
    return plain.encode(errors="replace").decode()[:_LONGEST_NAME]


def _similar(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".json"] if path.name else []
    except (OSError, ValueError):
        return ""
    close = nearest(path.name, names)
    return f"; the nearest is {shown_file(close[0])}" if close else ""
