"""One scenario of a sweep planned: its figures, or why it has none. Runs in whatever process it is sent to."""

from __future__ import annotations

import logging
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

import planner
from planner.refusals import REFUSALS
from planner.scenario import Scenario
from planner.sweep.metrics import figures_of, meets_slo

LOG = logging.getLogger("tierline.sweep")

Status = Literal["fits", "does not fit", "refused", "failed", "not run"]


class Outcome(BaseModel):
    """What one plan came to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Status = Field(description="refused: these inputs do not go together; failed: a fault of the program")
    reason: str = ""
    figures: dict[str, float | None] = Field(default_factory=dict)
    bound_by: str | None = None
    meets_slo: bool | None = Field(None, description="of the scenario's targets; None where it states none")
    model_name: str = ""
    system_name: str = ""
    policy_name: str = ""

    @property
    def fits(self) -> bool:
        return self.status == "fits"

    def figure(self, key: str) -> float | None:
        return self.figures.get(key)


def outcome(scenario: Scenario) -> Outcome:
    """Plan a scenario, and keep what a sweep shows of it. Never raises for a scenario that cannot be planned."""
    try:
        result = planner.plan(scenario, with_ranges=False, with_marginals=False)
    except REFUSALS as error:
        return Outcome(status="refused", reason=str(error))
    except Exception as error:
        LOG.exception("A point of a sweep failed")
        return Outcome(status="failed", reason=f"This point met a fault of the program ({type(error).__name__}).")
    head = result.headline
    return Outcome(
        status="fits" if head.fits else "does not fit",
        reason=" ".join(head.reasons),
        figures=figures_of(result),
        bound_by=head.bound_by,
        meets_slo=meets_slo(result),
        model_name=result.model.name,
        system_name=result.system.name,
        policy_name=result.policy.name,
    )
