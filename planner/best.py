"""Best policy for a machine: every policy that applies, through the one evaluation, ranked on a chosen metric."""

from __future__ import annotations

from pydantic import Field

from planner.errors import PlanError, unknown
from planner.evaluate import Evaluation, evaluate
from planner.policies import catalog, get
from planner.result import Record
from planner.scenario import PolicyChoice, Scenario
from planner.words.names import BOUNDS

# Metric -> whether more is better.
METRICS: dict[str, bool] = {
    "tpot_s": False,
    "ttft_s": False,
    "tokens_per_s_user": True,
    "tokens_per_s_system": True,
    "tokens_per_s_end_to_end": True,
    "prefill_tokens_per_s": True,
    "energy_j_per_output_token": False,
    "usd_per_million_input_tokens": False,
    "usd_per_million_output_tokens": False,
    "usd_per_month": False,
}
DEFAULT_METRIC = "tokens_per_s_end_to_end"


class Ranked(Record):
    """One policy on this machine: its figures, or why it has none."""

    policy_id: str
    name: str
    fits: bool
    reason: str = Field("", description="why it does not apply or fit; empty if it does")
    value: float | None = None
    ratio: float | None = Field(None, description="of the winner's value, above 1 is worse whatever the metric")
    figures: dict[str, float] = Field(default_factory=dict)
    bound_by: str | None = None
    bound_share: float | None = None


class Ranking(Record):
    metric: str
    more_is_better: bool
    rows: tuple[Ranked, ...]
    why: str = Field(description="why the winner wins, in one sentence")


def rank(scenario: Scenario, metric: str = DEFAULT_METRIC) -> Ranking:
    """Rank all policies for the scenario's model, machine and workload.

    Each runs with its own defaults: of the scenario's policy only what says where the weights' precision, the KV cache
    and the attention are is kept. Raises PlanError for an unknown metric.
    """
    if metric not in METRICS:
        raise PlanError(unknown("metric", metric, METRICS))
    more = METRICS[metric]
    rows = [_row(scenario, entry.id, metric) for entry in catalog()]
    fitting = sorted((r for r in rows if r.value is not None), key=lambda r: r.value or 0.0, reverse=more)
    others = [r for r in rows if r.value is None]
    if fitting:
        best = fitting[0].value or 1.0
        fitting = [r.model_copy(update={"ratio": _ratio(r.value or 1.0, best, more)}) for r in fitting]
    return Ranking(metric=metric, more_is_better=more, rows=(*fitting, *others), why=_why(fitting))


def _ratio(value: float, best: float, more: bool) -> float:
    if value == best:
        return 1.0
    return best / value if more else value / best


def variant(scenario: Scenario, policy_id: str) -> Scenario:
    """The scenario under another policy with that policy's own defaults."""
    old = scenario.policy
    if old.id == policy_id:
        return scenario
    kept = PolicyChoice(
        id=policy_id,
        weight_bits=old.weight_bits,
        expert_format=old.expert_format,
        prefill_chunk_tokens=old.prefill_chunk_tokens,
        cuda_graphs=old.cuda_graphs,
    )
    return scenario.model_copy(update={"policy": kept})


def _row(scenario: Scenario, policy_id: str, metric: str) -> Ranked:
    name = get(policy_id).name
    try:
        found: Evaluation = evaluate(variant(scenario, policy_id))
    except ValueError as error:  # a sentence: this policy cannot take this model or format
        return Ranked(policy_id=policy_id, name=name, fits=False, reason=str(error))
    figures = found.figures()
    if not figures or found.decode is None:
        return Ranked(policy_id=policy_id, name=name, fits=False, reason=" ".join(found.reasons))
    step = found.decode.step
    return Ranked(
        policy_id=policy_id,
        name=name,
        fits=True,
        value=figures[metric],
        figures=figures,
        bound_by=step.bound_by,
        bound_share=step.bound_shares[step.bound_by],
    )


def _why(fitting: list[Ranked]) -> str:
    if not fitting:
        return "No policy fits on this machine."
    first = fitting[0]
    text = f"{first.name} waits for {_bound(first.bound_by)} for {first.bound_share or 0:.0%} of a decode step"
    if len(fitting) == 1:
        return text + "; no other policy fits."
    second = fitting[1]
    ratio = second.ratio or 1.0
    other = f"{second.name}, {ratio:.2f} times worse, waits for {_bound(second.bound_by)}"
    return f"{text}; {other} for {second.bound_share or 0:.0%} of its step."


def _bound(resource: str | None) -> str:
    return BOUNDS.get(resource or "", "nothing")
