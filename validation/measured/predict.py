"""Predictions of measured runs: the figures of a plan, without the advice and the ranges that a page shows with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from hardware import HardwareError
from models import ModelError
from planner.as_served import MOST_CLIENTS, Loop
from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.memory_limits import largest_batch
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
        made = planned(found.scenario.canonical_json())
        running = found.scenario.workload.batch
        rate = in_unit(run, made.figures, made.prompt_s, found.scenario.workload)
        ttft_s, tpot_s = made.figures["ttft_s"], made.figures["tpot_s"]
        clients = round(run.concurrency or 0)
        if run.phase == "e2e" and made.loop is not None and 0 < clients <= MOST_CLIENTS:
            # Load generators measure what their clients see: prompts of others stand between the steps.
            served = made.loop.played(clients, running if running < clients else None)
            ttft_s, tpot_s = served.ttft_s, served.tpot_s if found.scenario.workload.output_tokens > 1 else tpot_s
        return Prediction(rate, ttft_s, tpot_s, made.bound_by, running, notes=found.notes), found
    except (UnmappableError, PlanError, HardwareError, ModelError) as error:
        return Prediction(None, reason=str(error)), None


@dataclass(frozen=True)
class Made:
    """What a plan's headline is made of, without the advice and the ranges around it."""

    reasons: tuple[str, ...]
    figures: Mapping[str, float]
    prompt_s: float = 0.0
    bound_by: str = ""
    loop: Loop | None = None

    @property
    def fits(self) -> bool:
        return not self.reasons


@lru_cache(maxsize=4096)
def planned(text: str) -> Made:
    """The figures of a scenario given as its canonical JSON: identical scenarios are evaluated once."""
    found = evaluate(Scenario.model_validate_json(text))
    if not found.fits:
        return Made(found.reasons or ("does not fit",), {})
    assert found.prefill is not None and found.decode is not None
    return Made((), found.figures(), found.prefill.alone_s, found.decode.step.bound_by, Loop.of(found))


def fitted(found: Mapped) -> Fitted:
    """Make the scenario fit as its run did: as many requests at once as the KV cache allows, then narrower weights."""
    scenario, notes = found.scenario, list(found.assumed)
    made = planned(scenario.canonical_json())
    room = 0 if made.fits else largest_batch(scenario)
    if not made.fits and not room:
        scenario = _with_figure(scenario, "gpu.reserve_bytes", LEAST_RESERVE_BYTES)
        made = planned(scenario.canonical_json())
        room = 0 if made.fits else largest_batch(scenario)
    asked = scenario.workload.batch
    if not made.fits and 0 < room < asked:
        workload = scenario.workload.model_copy(update={"batch": room})
        scenario = scenario.model_copy(update={"workload": workload})
        made = planned(scenario.canonical_json())
        notes.append(f"{room:,} of {asked:,} requests run at once: more KV cache does not fit")
    for narrower in NARROWER:
        if made.fits or found.regime == "all_gpu":
            break
        model = scenario.model.model_copy(update={"weight_format": narrower})
        tried = scenario.model_copy(update={"model": model})
        made = planned(tried.canonical_json())
        if made.fits:
            scenario = tried
            notes.append(f"GPU part stored as {narrower}, the widest that fits")
    return Fitted(found.run, found.regime, scenario, tuple(notes), "; ".join(made.reasons))


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
