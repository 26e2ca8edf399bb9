"""Throughput against interactivity: the points that no other beats on both axes, and those that meet the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.sweep.metrics import Metric, metric
from planner.sweep.record import Point, SweepResult

X, Y = "tokens_per_s_user", "tokens_per_s_gpu"


@dataclass(frozen=True)
class Spot:
    """One point of the plane: its number in the sweep, both figures, and whether it meets the targets (None: none)."""

    index: int
    x: float
    y: float
    meets: bool | None


@dataclass(frozen=True)
class Frontier:
    """The plane, the Pareto set from left to right, and the least x that the TPOT target allows (None: no target)."""

    x: Metric
    y: Metric
    spots: tuple[Spot, ...]
    pareto: tuple[int, ...]
    best_meeting: int | None
    least_x: float | None

    def spot(self, index: int) -> Spot:
        """The spot of a point of the sweep."""
        return next(one for one in self.spots if one.index == index)


def pareto(xs: Sequence[float], ys: Sequence[float], more_x: bool = True, more_y: bool = True) -> list[int]:
    """Places of the points that no other equals or beats on both axes and beats on one, by rising x."""
    order = sorted(range(len(xs)), key=lambda place: (_for(xs[place], more_x), _for(ys[place], more_y)), reverse=True)
    kept: list[int] = []
    best: float | None = None
    for place in order:
        if best is None or _for(ys[place], more_y) > best:
            best = _for(ys[place], more_y)
            kept.append(place)
    return sorted(kept, key=lambda place: xs[place])


def frontier(result: SweepResult, x: str = X, y: str = Y) -> Frontier:
    """The frontier of a sweep on two metrics. Only points with both figures are in the plane.

    ``best_meeting`` is the point with the best y among those that meet the targets of their own scenarios.
    """
    along, up = metric(x), metric(y)
    spots = tuple(
        Spot(point.index, a, b, point.outcome.meets_slo)
        for point in result.fitting
        if (a := point.figure(x)) is not None and (b := point.figure(y)) is not None
    )
    chosen = pareto([one.x for one in spots], [one.y for one in spots], _more(along), _more(up))
    meeting = [one for one in spots if one.meets]
    top = max(meeting, key=lambda one: _for(one.y, _more(up)), default=None)
    return Frontier(
        x=along,
        y=up,
        spots=spots,
        pareto=tuple(spots[place].index for place in chosen),
        best_meeting=None if top is None else top.index,
        least_x=_least_x(result, x),
    )


def _least_x(result: SweepResult, x: str) -> float | None:
    """Where the region that meets the TPOT target begins; None where points have different targets or none."""
    target = result.spec.base.workload.slo_tpot_s
    if target is None or x != X or "workload.slo_tpot_s" in result.paths:
        return None
    return 1.0 / target


def series(result: SweepResult, path: str) -> dict[str, list[Point]]:
    """The fitting points by the value of one axis, as series of a chart."""
    place = result.place(path)
    found: dict[str, list[Point]] = {}
    for point in result.fitting:
        found.setdefault(str(point.values[place]), []).append(point)
    return found


def _more(one: Metric) -> bool:
    return one.more_is_better is not False


def _for(value: float, more: bool) -> float:
    return value if more else -value
