"""Predictions of rows: the plan's own passes, and the closed loop of the row's clients played against them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.closed_loop import Clients, pass_times, play
from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.physics.memory import largest
from planner.scenario import Scenario
from validation.silicon.mapping import Case, UnmappableError


@dataclass(frozen=True)
class Prediction:
    ttft_s: float
    tpot_s: float
    step_s: float
    """The decode step alone, per token: what ``plan`` states as TPOT."""
    prompt_s: float
    """One prompt that comes while the others decode: what ``plan`` states as TTFT."""
    slots: int | None = None
    """Requests in service at once, where the KV cache holds fewer than there are clients."""


def predict(case: Case, figures: Mapping[str, float] | None = None, *, quick: bool = False) -> Prediction:
    """TTFT and TPOT of a case as its clients see them. Raises PlanError or UnmappableError, one sentence."""
    scenario, clients, slots = running(case.scenario, case.clients)
    found = evaluate(scenario, figures, quick=quick)
    if found.serving is None:
        raise UnmappableError("; ".join(found.reasons) or "does not fit")
    served = play(pass_times(found), replace(clients, slots=slots))
    return Prediction(served.ttft_s, served.tpot_s, found.serving.tpot_s, found.serving.ttft_s, slots)


def running(scenario: Scenario, clients: Clients) -> tuple[Scenario, Clients, int | None]:
    """The scenario at the batch that fits: engines let further requests wait. None where all fit."""
    found = evaluate(scenario, stop_at="memory")
    if not found.reasons:
        return scenario, clients, None
    slots = largest(lambda batch: not evaluate(_at(scenario, batch), stop_at="memory").reasons, clients.count)
    if slots < 1:
        raise PlanError("; ".join(found.reasons))
    return _at(scenario, slots), clients, slots


def _at(scenario: Scenario, batch: int) -> Scenario:
    return scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"batch": batch})})
