"""Which experts are hot in a context, and how many bits the others get: what the context-aware policy decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from models import formats
from planner.bitwidth import LayerBits, select_layers
from planner.context import Context, Width
from planner.errors import PlanError
from planner.importance import by_importance, hot_experts, importance
from planner.loss_tables import LossChoice
from planner.physics.experts import Stored
from planner.physics.operation import Array
from planner.policies.base import Option
from planner.quality import mean_loss, predict
from planner.result import QualityReport, SelectorReport
from planner.routing import RoutingState
from planner.selection import select_global, weighted

SELECTED_BITS = (4, 3, 2, 1)

HOT_OPTIONS = (
    Option(
        "alpha", "float", 0.5, "weight of selection counts against router scores in the importance", low=0.0, high=1.0
    ),
    Option(
        "normalise", "choice", "sum", "how counts and scores of a layer are scaled", choices=("sum", "max", "minmax")
    ),
    Option(
        "hot_set",
        "choice",
        "context",
        "what chooses the hot set: context (prefill of these sequences, the paper), profile (other requests), "
        "oracle (the decode steps themselves, what no system can know)",
        choices=("context", "profile", "oracle"),
    ),
    Option(
        "hot_budget",
        "choice",
        "per-layer",
        "per-layer: K experts of every layer (the paper); global: the same bytes where they catch most (ours)",
        choices=("per-layer", "global"),
    ),
)
BIT_OPTIONS = (
    Option(
        "selector",
        "choice",
        "prefix",
        "prefix: the paper's search; exact: the optimum of each layer; global: one budget over all layers",
        choices=("prefix", "exact", "global"),
    ),
    Option("weighted", "bool", False, "weigh each expert's loss by its importance (the paper only orders by it)"),
    Option(
        "loss_table",
        "text",
        "surrogate",
        "losses of the selector: surrogate, surrogate:SPREAD, or the digest of an imported or calibrated table",
    ),
)


def scores(ctx: Context, routing: RoutingState) -> Array:
    """Importance of every expert, [moe_layers, experts]: S = alpha P~ + (1 - alpha) W~ on the chosen statistics."""
    how = cast(Literal["sum", "max", "minmax"], ctx.option("normalise", "sum"))
    alpha = float(ctx.option("alpha", 0.5))
    chosen = ctx.option("hot_set", "context")
    if chosen == "context":
        return importance(routing.context, routing.context_scores, alpha, how)
    counts = routing.profile if chosen == "profile" else routing.counts.sum(axis=0).astype(float)
    return importance(counts, counts, 1.0, how)


def hot_set(ctx: Context, score: Array, per_layer: int) -> NDArray[np.bool_]:
    """Hot experts, bool [moe_layers, experts]: ``per_layer`` of each, or as many in all where the score is highest."""
    if ctx.option("hot_budget", "per-layer") != "global":
        return hot_experts(score, per_layer)
    return _over_all_layers(score, per_layer)


def _over_all_layers(score: Array, per_layer: int) -> NDArray[np.bool_]:
    slots = per_layer * score.shape[0]
    share = score / np.maximum(score.sum(axis=1, keepdims=True), 1e-30)
    chosen = np.zeros(score.size, bool)
    chosen[np.argsort(-share.ravel(), kind="stable")[:slots]] = True
    return chosen.reshape(score.shape)


@dataclass(frozen=True)
class Selection:
    """Widths of the experts outside HBM and what the selection reports."""

    stored: Stored
    widths: tuple[Width, ...]
    bits: NDArray[np.int8]  # [moe_layers, experts], 0 for residents
    losses: Array  # [moe_layers, experts, 4], as measured or assumed, unweighted
    report: SelectorReport
    equal_loss: float  # least loss if every layer has its own equal budget


def loss_choice(ctx: Context) -> LossChoice:
    return LossChoice.parse(str(ctx.option("loss_table", "surrogate")))


def select(ctx: Context, score: Array, resident: NDArray[np.bool_], budget: float) -> Selection:
    """Choose widths under a mean of ``budget`` bits; residents carry the widest form, which nothing reads."""
    if budget < 1:
        raise PlanError(f"policy.weight_bits is {budget:g}; the selector takes a mean from 1 to 4 bits.")
    choice = loss_choice(ctx)
    losses = choice.losses(tuple(int(i) for i in ctx.moe), ctx.experts, ctx.scenario.routing.seed)
    used = weighted(losses, score) if ctx.option("weighted", False) else losses
    method = str(ctx.option("selector", "prefix"))
    bits = np.zeros(score.shape, np.int8)
    optimum = equal = 0.0
    # Layers with equally many experts outside HBM are selected together.
    cold_counts = (~resident).sum(axis=1)
    for count in np.unique(cold_counts):
        rows = np.flatnonzero(cold_counts == count)
        if count == 0:
            continue
        order = by_importance(np.where(resident[rows], -1.0, score[rows]))[:, :count]
        part = np.take_along_axis(used[rows], order[:, :, None], axis=1)
        exact = select_layers(part, None, budget, "exact")
        optimum += float(exact.loss.sum())
        equal += float(exact.loss.sum())
        found: LayerBits = exact if method == "exact" else select_layers(part, None, budget, "prefix")
        wanted = found.bits
        if method == "global" and len(rows) == len(cold_counts):
            shared = select_global(part, budget)
            wanted, optimum = shared.bits, shared.bound
        whole = np.zeros((len(rows), score.shape[1]), np.int8)
        np.put_along_axis(whole, order, wanted.astype(np.int8), axis=1)
        bits[rows] = whole
    return _selection(ctx, choice, used, losses, bits, (optimum, equal), budget, method)


def _selection(
    ctx: Context,
    choice: LossChoice,
    used: Array,
    losses: Array,
    bits: NDArray[np.int8],
    least: tuple[float, float],
    budget: float,
    method: str,
) -> Selection:
    """``least``: the least losses under the same budget, and with an equal budget for every layer."""
    optimum, equal = least
    widths = tuple(ctx.width(formats.format_for_bits(b)) for b in SELECTED_BITS)
    index = np.where(bits > 0, SELECTED_BITS[0] - bits, 0).astype(np.int8)
    sizes, named = np.array([w.expert_bytes for w in widths]), np.array([w.bits for w in widths])
    at = np.maximum(bits - 1, 0)[:, :, None].astype(np.int64)
    spent = np.where(bits > 0, np.take_along_axis(used, at, axis=2)[:, :, 0], 0.0)
    loss = float(spent.sum())
    report = SelectorReport(
        method=method,
        weighted=bool(ctx.option("weighted", False)),
        budget_bits=budget,
        scope="one budget over all layers" if method == "global" else "each layer under its own budget",
        loss=loss,
        optimum_loss=optimum,
        left_on_the_table=max(loss / optimum - 1.0, 0.0) if optimum > 0 else 0.0,
        counts=tuple(tuple(int((row == b).sum()) for b in SELECTED_BITS) for row in bits),  # type: ignore[misc]
        loss_source=choice.sentence(ctx.arch.id),
        surrogate=choice.digest is None,
    )
    return Selection(Stored(sizes[index], named[index], index), widths, bits, losses, report, equal)


def budget_facts(
    ctx: Context, routing: RoutingState, resident: NDArray[np.bool_], per_layer: int, chosen: Selection | None
) -> tuple[tuple[str, str], ...]:
    """What one budget over all layers gains over an equal one for each, of the hot set and of the bits."""
    load = routing.counts.sum(axis=0).astype(float)
    score, whole = scores(ctx, routing), max(float(load.sum()), 1e-30)
    facts = []
    if 0 < per_layer < score.shape[1]:
        caught = float(load[resident].sum()) / whole
        if ctx.option("hot_budget", "per-layer") == "global":
            equal = float(load[hot_experts(score, per_layer)].sum()) / whole
            words = f"One budget over all layers catches {caught:.1%} of the token-expert pairs in HBM, {per_layer} "
            words += f"experts of every layer would catch {equal:.1%} with the same bytes."
        else:
            shared = float(load[_over_all_layers(score, per_layer)].sum()) / whole
            words = f"{per_layer} experts of every layer catch {caught:.1%} of the token-expert pairs in HBM, the same "
            words += f"bytes under one budget over all layers would catch {shared:.1%}."
        facts.append(("Hot-expert budget", words))
    if chosen is not None and ctx.option("selector", "prefix") == "global" and chosen.equal_loss > 0:
        gain = 1.0 - chosen.report.loss / chosen.equal_loss
        facts.append(("Bit budget", f"One budget over all layers saves {gain:.2%} of the loss of equal budgets."))
    return tuple(facts)


def predicted_quality(
    ctx: Context, routing: RoutingState, resident: NDArray[np.bool_], chosen: Selection
) -> QualityReport:
    """Change of accuracy that the surrogate predicts for the chosen widths, weighed by the tokens that meet them."""
    load = routing.counts.sum(axis=0).astype(float)
    loss = mean_loss(chosen.losses, np.maximum(chosen.bits, 1), load, resident)
    found = predict(loss, bool(ctx.option("accept_extrapolation", False)))
    return QualityReport(
        points=found.accuracy_points_change,
        low=found.low,
        high=found.high,
        inside=found.inside,
        sentence=found.sentence,
    )
