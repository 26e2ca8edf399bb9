"""Error and verdict of a prediction."""

from __future__ import annotations

from validation.published.records import NEAR, REPRODUCED, Value, Verdict


def error(published: Value | None, predicted: Value | None) -> float | None:
    """Signed error as a share of what was published; None where one of the two is missing.

    Two numbers: predicted / published - 1. A number and a range: 0 inside the range, else to its nearest end. Two
    ranges: low with low and high with high, the larger error of the two. A range from 0 up is an upper limit: only
    what lies above counts.
    """
    if published is None or predicted is None:
        return None
    if isinstance(published, float | int):
        if isinstance(predicted, float | int):
            return predicted / published - 1.0
        low, high = predicted
        return 0.0 if low <= published <= high else (low if published < low else high) / published - 1.0
    low, high = published
    if isinstance(predicted, float | int):
        predicted = (predicted, predicted)
        if low <= predicted[0] <= high:
            return 0.0
        if low > 0:
            return predicted[0] / (low if predicted[0] < low else high) - 1.0
    above = predicted[1] / high - 1.0
    if low == 0:
        return max(above, 0.0)
    below = predicted[0] / low - 1.0
    return max(below, above, key=abs)


def verdict(off: float | None) -> Verdict:
    """Verdict by error alone. Raises ValueError without an error: such a claim says its verdict itself."""
    if off is None:
        raise ValueError("a claim without an error needs its own verdict")
    if abs(off) <= REPRODUCED:
        return "reproduced"
    return "near" if abs(off) <= NEAR else "not_reproduced"
