"""Hot, warm and cold experts under several definitions: the share of experts and of tokens that each class has."""

from __future__ import annotations

import numpy as np

from planner.result import ClassReport
from planner.schedule import CPU, GPU, NDP

HOT_OF_MAXIMUM, WARM_OF_MAXIMUM = 0.3, 0.1
"""Shares of the largest observed load of a layer; they stand in one second-hand note on TriMoE and nowhere else."""
HOT_TOKENS, WARM_TOKENS = 0.22, 0.70
"""Shares of tokens: warm experts take up to 70 % and cold ones 8 %, second-hand from TriMoE; hot is the rest."""


def classes(counts: np.ndarray, domain: np.ndarray) -> tuple[ClassReport, ...]:
    """Classes of a schedule and of its loads.

    counts: int [steps, layers, experts], tokens. domain: int8, the same for all or the first steps, where the scheduler
    put each expert (0 GPU, 1 CPU, 2 NDP, -1 no tokens). By the cost model an expert belongs to a class step by step;
    under the other definitions by its mean load over the steps, within its layer. Shares are over all layers together.
    """
    return (*_by_cost(counts[: domain.shape[0]], domain), *_by_maximum(counts), *_by_tokens(counts))


def _by_cost(counts: np.ndarray, domain: np.ndarray) -> tuple[ClassReport, ...]:
    definition = "cost model, the domain that the scheduler gives the expert in a step"
    names = ((GPU, "hot (GPU)"), (CPU, "warm (CPU)"), (NDP, "cold (DIMM)"), (-1, "no tokens in the step"))
    return tuple(_report(definition, name, domain == code, counts, True) for code, name in names)


def _by_maximum(counts: np.ndarray) -> tuple[ClassReport, ...]:
    load = counts.mean(axis=0)
    most = load.max(axis=1, keepdims=True)
    hot = load >= HOT_OF_MAXIMUM * most
    warm = (load >= WARM_OF_MAXIMUM * most) & ~hot
    text = f"mean load, at least {HOT_OF_MAXIMUM:g} (hot) or {WARM_OF_MAXIMUM:g} (warm) of the layer's largest"
    return _three(text, hot, warm, load)


def _by_tokens(counts: np.ndarray) -> tuple[ClassReport, ...]:
    load = counts.mean(axis=0)
    order = np.argsort(-load, axis=1, kind="stable")
    ranked = np.take_along_axis(load, order, 1)
    before = (np.cumsum(ranked, axis=1) - ranked) / np.maximum(ranked.sum(axis=1, keepdims=True), 1e-30)
    share = np.empty_like(before)
    np.put_along_axis(share, order, before, 1)
    # The expert in which a share ends still belongs to the more loaded class.
    hot = share < HOT_TOKENS
    warm = (share < HOT_TOKENS + WARM_TOKENS) & ~hot
    text = (
        f"tokens, the most loaded experts with {HOT_TOKENS:.0%} of those of the layer (hot), "
        f"the next with {WARM_TOKENS:.0%} (warm)"
    )
    return _three(text, hot, warm, load)


def _three(definition: str, hot: np.ndarray, warm: np.ndarray, load: np.ndarray) -> tuple[ClassReport, ...]:
    masks = (("hot", hot), ("warm", warm), ("cold", ~hot & ~warm))
    return tuple(_report(definition, name, mask, load, False) for name, mask in masks)


def _report(definition: str, name: str, mask: np.ndarray, load: np.ndarray, supported: bool) -> ClassReport:
    return ClassReport(
        definition=definition,
        name=name,
        expert_share=float(mask.mean()),
        token_share=float(load[mask].sum()) / max(float(load.sum()), 1e-30),
        supported=supported,
    )
