"""Reads the shared vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def vectors(name: str) -> Any:
    return json.loads((Path(__file__).parent / "vectors" / f"{name}.json").read_text("utf-8"))


def times(rows: list[list[float | None]]) -> np.ndarray:
    """null in a vector stands for infinity."""
    return np.array([[np.inf if value is None else value for value in row] for row in rows])
