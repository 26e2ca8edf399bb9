"""Every published claim beside its prediction: the rows of the page, the command and the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from validation.published.calibrations import calibration, identifiers
from validation.published.claims import Claim, Prediction, claims, contradictions
from validation.published.compare import error, verdict
from validation.published.expressions import Run
from validation.published.records import VERDICTS, Alternative, ClaimRow, Value, Verdict

TREND = 0.5
"""Rank correlation from which a trend, which has no published figure, counts as there."""


def rows(
    only: Iterable[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    run: Run | None = None,
) -> tuple[ClaimRow, ...]:
    """All claims (or those whose ids are in ``only``) with their predictions, evaluated now.

    ``progress`` is called with the rows done and their number. ``run`` remembers evaluations for the next call.
    Raises UnfitError if a plan does not fit, KeyError for an id that does not exist.
    """
    wanted = None if only is None else list(only)
    if wanted is not None:
        unknown = set(wanted) - {c.id for c in claims()}
        if unknown:
            raise KeyError(f"there is no published claim {', '.join(sorted(unknown))}")
    chosen = [c for c in claims() if wanted is None or c.id in wanted]
    run = run or Run()
    found = []
    for number, each in enumerate(chosen):
        found.append(_row(each, run))
        if progress is not None:
            progress(number + 1, len(chosen))
    return tuple(found)


def counts(found: Iterable[ClaimRow]) -> dict[Verdict, int]:
    """Rows by verdict, every verdict named."""
    by_verdict: dict[Verdict, int] = dict.fromkeys(VERDICTS, 0)
    for row in found:
        by_verdict[row.verdict] += 1
    return by_verdict


def _predicted(prediction: Prediction, run: Run) -> Value | None:
    return None if prediction.expression is None else run.value(prediction.expression)


def _alternative(prediction: Prediction, run: Run) -> Alternative:
    predicted = _predicted(prediction, run)
    return Alternative(prediction.setting, prediction.published, predicted, error(prediction.published, predicted))


def _row(each: Claim, run: Run) -> ClaimRow:
    run.calibrations.clear()
    predicted = _predicted(each.main, run)
    used = ", ".join(sorted(run.calibrations)) or None
    off = error(each.published, predicted)
    return ClaimRow(
        id=each.id,
        paper=each.paper,
        quantity=each.quantity,
        text=each.text,
        model=each.model,
        baseline=each.baseline,
        unit=each.unit,
        published=each.published,
        predicted=predicted,
        error=off,
        verdict=_verdict(each, predicted, off),
        setting=each.main.setting,
        alternatives=tuple(_alternative(a, run) for a in each.alternatives),
        arithmetic=each.arithmetic,
        contradictions=tuple(c.text for c in contradictions() if each.id in c.claims),
        calibration=used,
        certainty=each.certainty,
        source=each.source,
        note=each.note,
    )


def fitted_claims() -> Mapping[str, str]:
    """Ids of the claims that a named calibration was fitted on, and which."""
    return {name: c for c in identifiers() for name in calibration(c).fitted_on() if name in {x.id for x in claims()}}


def _verdict(each: Claim, predicted: Value | None, off: float | None) -> Verdict:
    if each.verdict is not None:
        return each.verdict
    if each.id in fitted_claims():
        return "calibrated"
    if off is None and isinstance(predicted, float):  # a trend
        return "reproduced" if predicted >= TREND else "not_reproduced"
    return verdict(off)
