"""The one error of the calibration."""

from __future__ import annotations

from planner.errors import PlanError


class CalibrationError(PlanError):
    """A checkpoint, activation file or option that cannot be used; the message is one sentence on one line."""

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))
