"""Whether a figure that somebody brings can be one: a known path, value and range where the catalog's may lie."""

from __future__ import annotations

from functools import lru_cache

from hardware import PathSpec, path_schema
from planner.errors import PlanError, unknown


@lru_cache(maxsize=1)
def _specs() -> dict[str, PathSpec]:
    return {spec.path: spec for spec in path_schema()}


def check_figure(where: str, path: str, value: float, low: float, high: float) -> None:
    """Refuse a figure that is none. Raises PlanError, one sentence that begins with ``where``."""
    if path not in _specs():
        raise PlanError(unknown(f"{where}: a figure", path, list(_specs())))
    spec = _specs()[path]
    if not spec.lower <= low <= value <= high <= spec.upper:
        raise PlanError(
            f"{where}: {path} is {value:g} ({low:g} to {high:g}); it takes low, value, high in this order from "
            f"{spec.lower:g} to {spec.upper:g} {spec.unit}."
        )
    if spec.integer and value != int(value):
        raise PlanError(f"{where}: {path} is {value:g}; it takes a whole number.")
