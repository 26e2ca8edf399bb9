"""Where an input is looked at: a grid on each side of its value, logarithmic, or linear for shares."""

from __future__ import annotations

import math

from planner.sensitivities.inputs import Input

FARTHEST = 100.0  # times today's value, or its share, where the field's bounds lie further
PER_SIDE = 10
FIRST = (5, 10)  # steps looked at first: an input that moves nothing there is left


def is_share(given: Input) -> bool:
    """Whether the field runs over a part of 0 to 1, which is looked at in equal steps."""
    return given.low >= 0 and given.high <= 1


def limits(given: Input) -> tuple[float, float]:
    """Least and largest value that is looked at: the field's bounds, at most a factor of 100 from today's value."""
    if is_share(given):
        return given.low, given.high
    if given.value <= 0:
        low, high = given.low, given.high
        return (low if math.isfinite(low) else given.value), (high if math.isfinite(high) else given.value)
    low, high = max(given.low, given.value / FARTHEST), min(given.high, given.value * FARTHEST)
    return (math.ceil(low), math.floor(high)) if given.whole else (low, high)


def side(given: Input, end: float) -> tuple[float, ...]:
    """Values from today's towards ``end``, today's left out, nearest first; whole numbers for a field of such."""
    value = given.value
    if end == value:
        return ()
    shares = [(step + 1) / PER_SIDE for step in range(PER_SIDE)]
    if is_share(given) or value <= 0 or end <= 0:
        found = [value + share * (end - value) for share in shares]
    else:
        found = [value * math.exp(share * math.log(end / value)) for share in shares]
    found[-1] = end
    if given.whole:
        found = [float(round(one)) for one in found]
    return tuple(one for one in dict.fromkeys(found) if one != value)


def between(given: Input, a: float, b: float) -> float | None:
    """The value to look at next between two, None when they are as close as is told."""
    if given.whole:
        middle = float(round((a + b) / 2))
        return None if middle in (a, b) or abs(b - a) <= 1 else middle
    if abs(b - a) <= TOLERANCE * max(abs(a), abs(b)):
        return None
    return math.sqrt(a * b) if a > 0 and b > 0 and not is_share(given) else (a + b) / 2


TOLERANCE = 1e-4  # relative width at which a flip point is told
