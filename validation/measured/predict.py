"""Predictions of measured runs, through the one door of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hardware import HardwareError
from models import ModelError
from planner import plan
from planner.errors import PlanError
from planner.result import Result
from planner.scenario import Scenario
from validation.measured.machine import UnmappableError
from validation.measured.mapping import Mapped, mapped
from validation.measured.runs import Run

NARROWER = ("gguf-q6_k", "gguf-q4_k", "gguf-q3_k", "gguf-q2_k")


@dataclass(frozen=True)
class Prediction:
    """What the model says of a run, in the run's own unit; None with ``reason`` where it says nothing."""

    tokens_per_s: float | None
    ttft_s: float | None = None
    tpot_s: float | None = None
    bound_by: str = ""
    running: int = 0
    reason: str = ""
    notes: tuple[str, ...] = ()


def predict(run: Run) -> tuple[Prediction, Mapped | None]:
    """The prediction for one run, and the scenario that it was made from."""
    try:
        found = mapped(run)
        return _predicted(found), found
    except (UnmappableError, PlanError, HardwareError, ModelError) as error:
        return Prediction(None, reason=str(error)), None


@lru_cache(maxsize=4096)
def planned(text: str) -> Result:
    """The plan of a scenario given as its canonical JSON: identical scenarios are planned once."""
    return plan(Scenario.model_validate_json(text), with_ranges=False, with_marginals=False)


def _predicted(found: Mapped) -> Prediction:
    scenario, notes = found.scenario, found.assumed
    result = planned(scenario.canonical_json())
    asked = scenario.workload.batch
    if not result.headline.fits and result.memory and 0 < result.memory.largest_batch < asked:
        batch = result.memory.largest_batch
        workload = scenario.workload.model_copy(update={"batch": batch})
        scenario = scenario.model_copy(update={"workload": workload})
        result = planned(scenario.canonical_json())
        notes = (*notes, f"{batch:,} of {asked:,} requests run at once: more KV cache does not fit")
    for narrower in NARROWER:
        if result.headline.fits or found.regime == "all_gpu":
            break
        # It ran, so it fitted: what is not a routed expert was stored narrower than the recipe's usual form.
        model = scenario.model.model_copy(update={"weight_format": narrower})
        tried = scenario.model_copy(update={"model": model})
        result = planned(tried.canonical_json())
        if result.headline.fits:
            scenario, notes = tried, (*notes, f"GPU part stored as {narrower}, the widest that fits")
    head = result.headline
    if not head.fits:
        return Prediction(None, reason="; ".join(head.reasons) or "does not fit", notes=notes)
    rate = _in_unit(found.run, result, scenario)
    return Prediction(rate, head.ttft_s, head.tpot_s, head.bound_by or "", scenario.workload.batch, notes=notes)


def _in_unit(run: Run, result: Result, scenario: Scenario) -> float:
    """Tokens/s of what the run counted: its phase, one request or the whole system, prompt or output tokens."""
    head, w = result.headline, scenario.workload
    assert head.tpot_s and head.tokens_per_s_end_to_end and head.prefill_tokens_per_s and result.prefill
    if run.phase == "prefill":
        new = w.prompt_tokens * (1.0 - w.prefix_hit_share)
        one = new / result.prefill.prompt_s
        whole = head.prefill_tokens_per_s * (1.0 - w.prefix_hit_share)
        return one if run.per == "request" or w.batch == 1 else whole
    total = head.tokens_per_s_end_to_end if run.phase == "e2e" else head.tokens_per_s_system
    assert total
    if run.tokens_counted == "input+output":
        total *= (w.prompt_tokens + w.output_tokens) / w.output_tokens
    elif run.tokens_counted == "input":
        total *= w.prompt_tokens / w.output_tokens
    return total / w.batch if run.per == "request" else total


__all__ = ["Prediction", "planned", "predict"]
