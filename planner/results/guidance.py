"""Good practices that a scenario departs from, and figures to watch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.results.base import Record


class Advice(Record):
    """A known good practice that the scenario departs from."""

    id: str
    text: str = Field(description="what departs and what would be better, in words")
    worth: str = Field("", description="what it is worth in this plan, where that can be told")
    source: str
    certainty: Literal["measured", "datasheet", "published", "rule of thumb"]


class Monitor(Record):
    """A figure to watch once the machine runs, its target, and what this plan predicts for it."""

    id: str
    what: str
    target: str
    predicted: float | None = Field(None, description="share of decode time or of peak; None where not predicted")
    met: bool | None = Field(
        None, description="whether the prediction meets the target; None where they differ in kind"
    )
    note: str = ""
