"""What the comparison with published claims answers: one row for each claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Value = float | tuple[float, float]
"""A number, or a range [low, high]."""

Verdict = Literal["reproduced", "near", "not_reproduced", "not_physical", "calibrated", "not_modelled"]

VERDICTS: Final[dict[Verdict, str]] = {
    "reproduced": "within 10 %",
    "near": "within 25 %",
    "not_reproduced": "further off, or its condition does not hold",
    "not_physical": "no machine can do this; the arithmetic says why",
    "calibrated": "a constant was fitted to it, so it is no evidence",
    "not_modelled": "outside what is modelled (area, power of a core, accuracy, encoder models)",
}
"""Every verdict and what it means, in the order in which they are counted."""

REPRODUCED, NEAR = 0.10, 0.25


@dataclass(frozen=True)
class Alternative:
    """The same claim, or one derived from it, under another choice."""

    setting: str
    published: Value | None
    predicted: Value | None
    error: float | None


@dataclass(frozen=True)
class ClaimRow:
    """A published claim beside what the model says."""

    id: str
    paper: str  # "context-aware", "trimoe", "monde" or "hermes"
    quantity: str
    text: str  # what is claimed, in words
    model: str
    baseline: str
    unit: str
    published: Value | None
    predicted: Value | None
    error: float | None  # signed share, see :func:`validation.published.compare.error`
    verdict: Verdict
    setting: str  # what was planned, in words
    alternatives: tuple[Alternative, ...]
    arithmetic: str  # why, where it is not reproduced or not physical; else what the figure rests on, or empty
    contradictions: tuple[str, ...]  # what sources say against it or against each other
    calibration: str | None  # id of the named calibration that the setting uses
    certainty: str
    source: str
    note: str
