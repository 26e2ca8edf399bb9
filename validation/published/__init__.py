"""Published claims held against the model.

``rows()`` evaluates every claim now (about a minute); ``snapshot()`` gives the rows of the last stored run at once,
with the engine version that made them. Everything goes through the engine; nothing here is used by it.
"""

from validation.published.calibrations import Calibration, Constant, calibration, identifiers
from validation.published.expressions import Run, UnfitError
from validation.published.predict import counts, rows
from validation.published.records import VERDICTS, Alternative, ClaimRow, Value, Verdict
from validation.published.store import Snapshot, snapshot

__all__ = [
    "VERDICTS",
    "Alternative",
    "Calibration",
    "ClaimRow",
    "Constant",
    "Run",
    "Snapshot",
    "UnfitError",
    "Value",
    "Verdict",
    "calibration",
    "counts",
    "identifiers",
    "rows",
    "snapshot",
]
