"""What is known of a field by its path: name, unit, bounds, and whether it takes numbers."""

from __future__ import annotations

from functools import cache

from hardware import PathSpec, path_schema
from planner.fields import field_for
from planner.words import labels

OVERRIDES = "system.overrides."


@cache
def figures() -> dict[str, PathSpec]:
    """Figures of the hardware by path."""
    return {spec.path: spec for spec in path_schema()}


def figure_of(path: str) -> PathSpec | None:
    """The hardware figure that a path edits; None for another field."""
    return figures().get(path.removeprefix(OVERRIDES)) if path.startswith(OVERRIDES) else None


def is_whole(path: str) -> bool:
    """Whether the field takes whole numbers only."""
    figure = figure_of(path)
    if figure is not None:
        return figure.integer
    found = field_for(path)
    return found is not None and found[1] is None and found[0].kind == "whole"


def is_number(path: str) -> bool:
    """Whether the field takes a number."""
    found = field_for(path)
    return figure_of(path) is not None or (
        found is not None and found[1] is None and found[0].kind in ("whole", "number")
    )


def label(path: str) -> str:
    """The field's name for people."""
    figure = figure_of(path)
    return figure.label if figure is not None else labels.label(path)


def unit(path: str) -> str:
    """The field's unit; empty where it has none."""
    figure = figure_of(path)
    return figure.unit if figure is not None else labels.unit(path)


def bounds(path: str) -> tuple[float, float]:
    """Least and largest value that the field takes; infinite where it states none."""
    figure = figure_of(path)
    if figure is not None:
        return figure.lower, figure.upper
    found = field_for(path)
    if found is None:
        return float("-inf"), float("inf")
    spec = found[0]
    low = spec.minimum if spec.minimum is not None else spec.above
    high = spec.maximum if spec.maximum is not None else spec.below
    return (float("-inf") if low is None else low), (float("inf") if high is None else high)
