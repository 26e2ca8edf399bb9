"""JSON that people can read and diff: whatever fits into a line is on one."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 120


def compact_json(value: Any, indent: int = 0, used: int = 0) -> str:
    """``value`` as JSON text without a final newline; ``used``: characters already on its first line."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or indent + used + len(flat) <= WIDTH:
        return flat
    inside = " " * (indent + 1)
    if isinstance(value, dict):
        keys = [f"{json.dumps(k, ensure_ascii=False)}: " for k in value]
        rows = [key + compact_json(v, indent + 1, len(key) + 1) for key, v in zip(keys, value.values(), strict=True)]
        return "{\n" + ",\n".join(inside + row for row in rows) + "\n" + " " * indent + "}"
    rows = [compact_json(item, indent + 1, 1) for item in value]
    return "[\n" + ",\n".join(inside + row for row in rows) + "\n" + " " * indent + "]"
