"""What commands print and where they write: JSON, columns and plain text, and a file that can be written."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from planner.cli.parsing import UsageError
from planner.errors import PlanError
from planner.fields.sentences import SHOWN_CHARACTERS, shown

_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " "})
_DASHES = str.maketrans({"\u2212": "-", "\u2013": "-"})


def as_json(value: Any) -> Any:
    """``value`` as what JSON can hold: records become objects, arrays become lists, NaN becomes null.

    Raises TypeError for anything else: it would be printed as if it were data.
    """
    if value is None or isinstance(value, (bool, str)):
        return str(value.value) if isinstance(value, Enum) else value
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):  # an array or one of its numbers, without importing the library of it
        return as_json(value.tolist())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(inner) for inner in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    if isinstance(value, Path):
        return value.name
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def json_text(value: Any, indent: int | None = 2) -> str:
    """JSON in plain ASCII (any terminal and pipe carries it), refusing NaN; one final newline."""
    return json.dumps(as_json(value), indent=indent, allow_nan=False) + "\n"


def columns(rows: Iterable[Sequence[str]], header: Sequence[str] = (), numbers: Iterable[int] = ()) -> str:
    """Rows of text in aligned columns; the columns listed in ``numbers`` are aligned to the right."""
    table = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    if not table:
        return ""
    right = set(numbers)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def spaced(text: str) -> str:
    """Text with spaces that every terminal breaks lines at."""
    return text.translate(_SPACES)


def plain(text: str) -> str:
    """The same with dashes that every font and every search knows."""
    return spaced(text).translate(_DASHES)


def shown_file(name: str) -> str:
    """A path in a sentence: its end says more than its beginning."""
    return shown(name if len(name) <= SHOWN_CHARACTERS else f"...{name[3 - SHOWN_CHARACTERS :]}")


def check_out(name: str | None, error: type[PlanError] = UsageError) -> None:
    """Refuse a file of ``--out`` that cannot be written, before the work for it and not after."""
    if name is None:
        return
    said = f"--out is {shown_file(name)}"
    if not name or "\0" in name:
        raise error(f"{said}; it takes the name of a file.")
    path = Path(name).absolute()
    if not path.parent.is_dir():
        raise error(f"{said}, and there is no folder {shown_file(str(path.parent))}.")
    if path.is_dir():
        raise error(f"{said}, which is a folder; it takes the name of a file.")
    needed = [path] if path.exists() else []
    if not path.exists() or path.is_file():  # it is put there under another name first
        needed.append(path.parent)
    if not all(os.access(place, os.W_OK) for place in needed):
        raise error(f"{said}, which cannot be written there.")
