"""The knee of a curve of diminishing returns: the point furthest above the straight line between its ends.

Kneedle (Satopaa, Albrecht, Irwin, Raghavan 2011, "Finding a Kneedle in a Haystack") without its smoothing: both axes
are scaled to 0 to 1, and the knee is where y - x is largest. A curve that gains as much at its end as at its start has
none.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.sweep.metrics import Metric, metric
from planner.sweep.record import SweepResult

EXPERTS = "policy.gpu_experts_per_layer"
LEAST = 0.05  # of the scaled height: less is no bend
METHOD = "Kneedle: largest distance above the line between the ends"


@dataclass(frozen=True)
class Today:
    """What the policy keeps by itself: its point's number, how many, and the metric there."""

    index: int
    x: float
    y: float


@dataclass(frozen=True)
class Knee:
    """A curve by rising x with its point numbers, the place of its knee (None: none), and today's budget beside it.

    ``gain_before`` and ``gain_after`` are the mean change of the metric for one more, before and after the knee.
    """

    metric: Metric
    indices: tuple[int, ...]
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    knee: int | None
    today: Today | None
    gain_before: float
    gain_after: float


def knee_of(xs: tuple[float, ...], ys: tuple[float, ...]) -> int | None:
    """Place of the knee of a curve that rises to the right, None where it does not bend; xs rising."""
    if len(xs) < 3 or xs[-1] <= xs[0] or ys[-1] <= ys[0]:
        return None
    heights = [(y - ys[0]) / (ys[-1] - ys[0]) - (x - xs[0]) / (xs[-1] - xs[0]) for x, y in zip(xs, ys, strict=True)]
    top = max(range(len(heights)), key=heights.__getitem__)
    return top if heights[top] >= LEAST and 0 < top < len(xs) - 1 else None


def knee(result: SweepResult, path: str = EXPERTS, key: str = "tokens_per_s_system") -> Knee:
    """Speed against the experts of a layer in HBM (or any other numeric axis).

    Experts are counted as the plan keeps them, not as they were asked for: a policy may ignore the wish.
    A point whose axis value is empty is what the policy chooses by itself: today's budget. It lies at the number of
    experts that it did keep, beside the curve: it may choose other experts than the same number in all layers.
    """
    one = metric(key)
    place = result.place(path)
    curve: dict[float, tuple[float, int]] = {}
    today = None
    for point in result.fitting:
        value, y = point.values[place], point.figure(key)
        x = point.figure("experts_in_hbm") if path == EXPERTS else value
        if y is None or x is None or isinstance(x, (str, bool)):
            continue
        if value is None:
            today = Today(point.index, float(x), y)
        else:
            curve[float(x)] = (y, point.index)
    xs = tuple(sorted(curve))
    ys = tuple(curve[x][0] for x in xs)
    up = ys if one.more_is_better is not False else tuple(-y for y in ys)
    found = knee_of(xs, up)
    before = after = 0.0
    if found is not None:
        before = abs(ys[found] - ys[0]) / (xs[found] - xs[0])
        after = abs(ys[-1] - ys[found]) / (xs[-1] - xs[found])
    return Knee(
        metric=one,
        indices=tuple(curve[x][1] for x in xs),
        xs=xs,
        ys=ys,
        knee=found,
        today=today,
        gain_before=before,
        gain_after=after,
    )
