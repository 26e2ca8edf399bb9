"""Predictions of measured runs, through the one door of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from hardware import HardwareError
from models import ModelError
from planner import plan
from planner.errors import PlanError
from planner.result import Result
from planner.scenario import Scenario, Workload
from validation.measured.machine import LEAST_RESERVE_BYTES, UnmappableError
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


@dataclass(frozen=True)
class Fitted:
    """A run's scenario after it was made to fit: what ran did fit."""

    run: Run
    regime: str
    scenario: Scenario
    notes: tuple[str, ...]
    reason: str = ""


def predict(run: Run) -> tuple[Prediction, Fitted | None]:
    """The prediction for one run, and the scenario that it was made from."""
    try:
        found = fitted(mapped(run))
        if found.reason:
            return Prediction(None, reason=found.reason, notes=found.notes), found
        result = planned(found.scenario.canonical_json())
        head = result.headline
        assert result.prefill is not None and head.tpot_s is not None
        rate = in_unit(run, head.model_dump(), result.prefill.prompt_s, found.scenario.workload)
        running = found.scenario.workload.batch
        return Prediction(rate, head.ttft_s, head.tpot_s, head.bound_by or "", running, notes=found.notes), found
    except (UnmappableError, PlanError, HardwareError, ModelError) as error:
        return Prediction(None, reason=str(error)), None


@lru_cache(maxsize=4096)
def planned(text: str) -> Result:
    """The plan of a scenario given as its canonical JSON: identical scenarios are planned once."""
    return plan(Scenario.model_validate_json(text), with_ranges=False, with_marginals=False)


def fitted(found: Mapped) -> Fitted:
    """Make the scenario fit as its run did: as many requests at once as the KV cache allows, then narrower weights."""
    scenario, notes = found.scenario, list(found.assumed)
    result = planned(scenario.canonical_json())
    if not result.headline.fits and not _room(result):
        scenario = _with_figure(scenario, "gpu.reserve_bytes", LEAST_RESERVE_BYTES)
        result = planned(scenario.canonical_json())
    asked = scenario.workload.batch
    if not result.headline.fits and 0 < _room(result) < asked:
        batch = _room(result)
        workload = scenario.workload.model_copy(update={"batch": batch})
        scenario = scenario.model_copy(update={"workload": workload})
        result = planned(scenario.canonical_json())
        notes.append(f"{batch:,} of {asked:,} requests run at once: more KV cache does not fit")
    for narrower in NARROWER:
        if result.headline.fits or found.regime == "all_gpu":
            break
        model = scenario.model.model_copy(update={"weight_format": narrower})
        tried = scenario.model_copy(update={"model": model})
        result = planned(tried.canonical_json())
        if result.headline.fits:
            scenario = tried
            notes.append(f"GPU part stored as {narrower}, the widest that fits")
    reason = "" if result.headline.fits else "; ".join(result.headline.reasons) or "does not fit"
    return Fitted(found.run, found.regime, scenario, tuple(notes), reason)


def _room(result: Result) -> int:
    return result.memory.largest_batch if result.memory else 0


def _with_figure(scenario: Scenario, path: str, value: float) -> Scenario:
    system = scenario.system.model_copy(update={"overrides": {**scenario.system.overrides, path: value}})
    return scenario.model_copy(update={"system": system})


def in_unit(run: Run, figures: Mapping[str, float | None], prompt_s: float, w: Workload) -> float:
    """Tokens/s of what the run counted: its phase, one request or the whole system, prompt or output tokens.

    ``figures`` are those of a result's headline, by name; ``prompt_s`` is the prefill of one prompt alone, s.
    """

    def figure(name: str) -> float:
        value = figures[name]
        assert value is not None
        return value

    new = w.prompt_tokens * (1.0 - w.prefix_hit_share)
    if run.phase == "prefill":
        alone = run.per == "request" or w.batch == 1
        return new / prompt_s if alone else figure("prefill_tokens_per_s") * (1.0 - w.prefix_hit_share)
    total = figure("tokens_per_s_end_to_end") if run.phase == "e2e" else figure("tokens_per_s_system")
    if run.phase == "e2e" and run.parallelism.startswith("pd:"):
        # Prefill and decode on GPUs of their own: a request passes both, and neither takes in more than it can.
        through = w.batch * w.output_tokens / (prompt_s + w.output_tokens * figure("tpot_s"))
        total = min(through, figure("prefill_tokens_per_s") / w.prompt_tokens * w.output_tokens)
    if run.tokens_counted == "input+output":
        total *= (w.prompt_tokens + w.output_tokens) / w.output_tokens
    elif run.tokens_counted == "input":
        total *= w.prompt_tokens / w.output_tokens
    return total / w.batch if run.per == "request" else total
