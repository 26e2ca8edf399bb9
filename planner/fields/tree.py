"""JSON that somebody else wrote: a file, an upload, a link, a typed value. Hostile until parsed."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from planner.fields.sentences import ScenarioError, shown

MAX_BYTES = 8_000_000
MAX_DEPTH = 64
_LONGEST_INTEGER = 300


def json_tree(text: str | bytes, what: str) -> Any:
    """Parsed JSON. NaN and infinities come through as floats, so that the field that holds one can be named.

    ``what`` names the text in the sentences of the ScenarioError: ``the scenario``.
    """
    decoded = _decoded(text, what)
    if not decoded.strip():
        raise ScenarioError(f"{_capital(what)} is empty; it takes a JSON object.")
    try:
        data = json.loads(decoded, object_pairs_hook=no_duplicates, parse_int=_integer)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ScenarioError(f"{_capital(what)} is not JSON: {_reason(error)} at {where}.") from None
    except RecursionError:
        raise ScenarioError(_too_deep(what)) from None
    check_tree(data, what)
    return data


def _decoded(text: str | bytes, what: str) -> str:
    size = len(text)
    if size > MAX_BYTES:
        raise ScenarioError(
            f"{_capital(what)} is too large: {size / 1e6:,.1f} MB or more; it takes up to {MAX_BYTES / 1e6:.0f} MB."
        )
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode(json.detect_encoding(text)).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise ScenarioError(f"{_capital(what)} is not text; it takes JSON in UTF-8.") from None


def _reason(error: json.JSONDecodeError) -> str:
    """What the parser found, in words; it says "Expecting property name ..." for a comma too many."""
    reason = error.msg.removesuffix(":").removesuffix(" at").strip()
    return reason[:1].lower() + reason[1:]


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else math.copysign(math.inf, -1 if digits[0] == "-" else 1)


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON in which every name is given once. Raises ScenarioError."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ScenarioError(f"The name {shown(name)} is given twice in one object; give it once.")
        found[name] = value
    return found


def check_tree(data: Any, what: str, depth: int = MAX_DEPTH) -> None:
    """Refuse what is nested deeper than *depth*, and text that no encoding can carry (half of a surrogate pair)."""
    level = [data]
    for _ in range(depth):
        if not level:
            return
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                below.extend(node.keys())
                below.extend(node.values())
            elif isinstance(node, list):
                below.extend(node)
            elif isinstance(node, str) and not node.isascii() and re.search("[\ud800-\udfff]", node):
                raise ScenarioError(
                    f"{_capital(what)} holds {shown(node)}, half a character; it takes whole Unicode text."
                )
        level = below
    raise ScenarioError(_too_deep(what, depth))


def _too_deep(what: str, depth: int = MAX_DEPTH) -> str:
    return f"{_capital(what)} is nested too deep; it takes up to {depth} levels."


def _capital(what: str) -> str:
    return what[:1].upper() + what[1:]
