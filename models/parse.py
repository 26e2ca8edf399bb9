"""From the text that a person pasted or uploaded to a plain object; hostile until proven otherwise."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from models.errors import ModelError, quoted

MAX_BYTES = 2_000_000
MAX_DEPTH = 32


def parse_config_file(path: str | Path) -> dict[str, Any]:
    """The object in a ``config.json`` on disk; like :func:`parse_config_text` for what cannot be read."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ModelError(f"there is no file {quoted(str(path), 200)}.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not valid"
        raise ModelError(f"the file {quoted(str(path), 200)} cannot be read: {reason.lower()}.") from None
    if len(text) > MAX_BYTES:
        raise ModelError(f"the file {quoted(str(path), 200)} is too large; up to {MAX_BYTES / 1e6:.0f} MB is accepted.")
    return parse_config_text(text)


def parse_config_text(text: str | bytes) -> dict[str, Any]:
    """The object in a ``config.json``; :class:`ModelError` with one sentence for anything else.

    Refused: more than 2 MB, nesting deeper than 32, not UTF-8, not JSON, a duplicate key, not an object, NaN. Infinity
    (which published configs hold in ``time_step_limit``) becomes the text ``"Infinity"``, so that the result is strict
    JSON; where a number is needed the reader refuses it.
    """
    size = len(text)
    if size > MAX_BYTES:
        raise ModelError(f"the config is {size / 1e6:.1f} MB; up to {MAX_BYTES / 1e6:.0f} MB is accepted.")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ModelError("the config is not UTF-8 text.") from None
    if not text.strip():
        raise ModelError("the config is empty; paste the contents of a config.json.")
    if _depth(text) > MAX_DEPTH:
        raise ModelError(f"the config is nested deeper than {MAX_DEPTH} levels; no model's config is.")
    try:
        found = json.loads(text, parse_constant=_constant, parse_float=_float, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ModelError(f"the config is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError("the config holds a number that is too long to read.") from None
    if not isinstance(found, dict):
        kind = {list: "a list", str: "a text", bool: "true or false"}.get(type(found), "a single value")
        raise ModelError(f"the config is {kind}; an object with named keys is needed.")
    return found


def _constant(name: str) -> str:
    if name == "NaN":
        raise ModelError("the config holds NaN, which is not a number.")
    return name


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ModelError(f"the config holds the number {quoted(text, 30)}, which is too large.")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ModelError(f"the config names the key {quoted(key)} twice.")
        found[key] = value
    return found


def _depth(text: str) -> int:
    """Deepest nesting of brackets outside strings, without building anything."""
    deepest = depth = 0
    inside = escaped = False
    for char in text:
        if inside:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                inside = False
        elif char == '"':
            inside = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest
