"""Axes that move nothing: a figure that the machine does without, or a field that only tells with another one."""

from __future__ import annotations

from planner.sweep.design import Value
from planner.sweep.record import SweepResult


def idle_axes(result: SweepResult) -> tuple[str, ...]:
    """Paths of the axes along which every planned point comes to the same, all else equal.

    Only told where at least two points differ in nothing else, as in a grid; a sampled design says nothing of it.
    """
    ran = [point for point in result.points if point.outcome.status != "not run"]
    found = []
    for place, path in enumerate(result.paths):
        lines: dict[tuple[Value, ...], object] = {}
        compared = moved = False
        for point in ran:
            others = point.values[:place] + point.values[place + 1 :]
            out = point.outcome
            came_to = (out.status, out.reason, out.bound_by, out.meets_slo, tuple(out.figures.items()))
            if others not in lines:
                lines[others] = came_to
                continue
            compared = True
            if lines[others] != came_to:
                moved = True
                break
        if compared and not moved and result.fitting:
            found.append(path)
    return tuple(found)
