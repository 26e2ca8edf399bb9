"""The ablations of context-aware placement that its paper leaves out, as one table for any scenario."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planner.errors import PlanError
from planner.evaluate import Evaluation, evaluate
from planner.result import Record
from planner.scenario import Scenario

POLICY = "context-aware"
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)


class AblationRow(Record):
    """One variant: what was changed, and what that gives."""

    group: str
    label: str
    fits: bool
    tpot_s: float | None = None
    tokens_per_s_system: float | None = None
    ratio: float | None = None  # tokens/s over the first row's
    hot_token_share: float | None = None  # token-expert pairs computed from HBM
    mean_bits: float | None = None  # of the token-expert pairs computed outside HBM
    loss: float | None = None  # sum of the selector's losses
    reason: str = ""


class Ablation(Record):
    scenario_hash: str
    rows: tuple[AblationRow, ...]


def context_ablation(scenario: Scenario) -> Ablation:
    """Placement only, bits only, both; alpha; K; per-sequence, profile and oracle hot sets; global budgets.

    Every row is the scenario with one thing changed, through the one evaluation. Raises PlanError for a scenario of
    another policy.
    """
    if scenario.policy.id != POLICY:
        raise PlanError(f"policy.id is {scenario.policy.id!r}; this ablation takes a scenario of {POLICY}.")
    rows: list[AblationRow] = []
    for group, label, changes, options in _variants(scenario):
        rows.append(_row(group, label, _changed(scenario, changes, options)))
    base = rows[0].tokens_per_s_system
    return Ablation(
        scenario_hash=scenario.content_hash(),
        rows=tuple(
            r.model_copy(update={"ratio": r.tokens_per_s_system / base}) if base and r.tokens_per_s_system else r
            for r in rows
        ),
    )


def _variants(scenario: Scenario) -> Iterable[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    native = {"weight_bits": 16.0, "expert_format": None}
    yield "What does what", "neither: all experts on CXL-NDP at 16 bit", {**native, "gpu_experts_per_layer": 0}, {}
    yield "What does what", "placement only: hot set in HBM, the others at 16 bit", native, {}
    yield "What does what", "bits only: all experts on CXL-NDP at chosen bits", {"gpu_experts_per_layer": 0}, {}
    yield "What does what", "both", {}, {}
    for alpha in ALPHAS:
        yield "Alpha", f"alpha {alpha:g}", {}, {"alpha": alpha}
    most = evaluate(scenario).ctx.experts
    steps = sorted({0, *(round(most * share) for share in (0.125, 0.25, 0.5, 0.75, 1.0))})
    for kept in steps:
        yield "K, hot experts per layer", f"K = {kept}", {"gpu_experts_per_layer": kept}, {}
    for name, words in (
        ("context", "these sequences' prefill (the paper)"),
        ("profile", "other requests, offline"),
        ("oracle", "the decode steps themselves (no system can)"),
    ):
        yield "Hot set", words, {}, {"hot_set": name}
    yield "Budgets", "hot experts where they catch most, same bytes", {}, {"hot_budget": "global"}
    for selector in ("prefix", "exact", "global"):
        yield "Budgets", f"bit widths: {selector}", {}, {"selector": selector}
    yield "Budgets", "bit widths: exact, losses weighted by importance", {}, {"selector": "exact", "weighted": True}


def _changed(scenario: Scenario, changes: dict[str, Any], options: dict[str, Any]) -> Scenario:
    policy = scenario.policy
    merged = {**policy.options, **options}
    return scenario.model_copy(update={"policy": policy.model_copy(update={**changes, "options": merged})})


def _row(group: str, label: str, scenario: Scenario) -> AblationRow:
    found = evaluate(scenario)
    if found.serving is None:
        return AblationRow(group=group, label=label, fits=False, reason=" ".join(found.reasons))
    return AblationRow(
        group=group,
        label=label,
        fits=True,
        tpot_s=found.serving.tpot_s,
        tokens_per_s_system=found.serving.tokens_per_s_system,
        **_shares(found),
    )


def _shares(found: Evaluation) -> dict[str, float | None]:
    placed, routing, ready = found.placed, found.routing, found.ready
    assert placed is not None and routing is not None and ready is not None
    load = routing.counts.sum(axis=0).astype(float)
    hot = float(load[placed.resident].sum())
    cold = ~placed.resident
    outside = float(load[cold].sum())
    bits = float((load * placed.stored.bits)[cold].sum()) / outside if outside > 0 else None
    told = found.policy.details(found.ctx, ready, placed, routing)
    selector = told.selector if told else None
    return {
        "hot_token_share": hot / max(float(load.sum()), 1e-30),
        "mean_bits": bits,
        "loss": selector.loss if selector else None,
    }
