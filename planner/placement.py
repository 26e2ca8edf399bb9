"""The placement part of a Result: tier, width, load and class of every expert."""

from __future__ import annotations

import numpy as np

from planner.evaluate import Evaluation
from planner.result import TIERS, Placement, PlacementClass


def placement_record(found: Evaluation) -> Placement | None:
    """Placement of an evaluation that got as far as placing; arrays are [MoE layer][expert]."""
    placed, routing, ready = found.placed, found.routing, found.ready
    if placed is None or routing is None or ready is None:
        return None
    hot = found.ctx.gpu_width
    widths = [*placed.widths, hot]
    # The last width is that of experts computed from HBM; all others keep the index that they are stored under.
    hot_form = placed.resident & (placed.tier == 0) & (not placed.one_form)
    form = np.where(hot_form, len(widths) - 1, placed.stored.format).astype(np.int64)
    code = placed.tier.astype(np.int64) * len(widths) + form
    load = routing.counts.mean(axis=0)
    total = max(float(load.sum()), 1e-30)
    classes: list[PlacementClass] = []
    klass = np.zeros(code.shape, np.int64)
    for value in sorted(np.unique(code), key=lambda c: (c // len(widths), -widths[c % len(widths)].bits)):
        mask = code == value
        tier, width = int(value) // len(widths), widths[int(value) % len(widths)]
        klass[mask] = len(classes)
        classes.append(
            PlacementClass(
                tier=TIERS[tier],
                bits=width.bits,
                format=width.name,
                experts=int(mask.sum()),
                token_share=float(load[mask].sum()) / total,
                why=placed.why.get(tier, ""),
            )
        )
    learned = routing.profile / np.maximum(routing.profile.sum(axis=1, keepdims=True), 1e-30)
    bits = np.array([w.bits for w in widths])[form]
    return Placement(
        layers=tuple(int(i) for i in found.ctx.moe),
        tier=_rows(placed.tier),
        bits=_rows(bits),
        load=_rows(load),
        learned=_rows(learned),
        klass=_rows(klass),
        classes=tuple(classes),
        learned_on=routing.learned_on,
        distinct_experts_per_layer=float((routing.counts > 0).sum(axis=2).mean()),
        tokens_per_pass=routing.tokens_per_pass,
    )


def _rows(array: np.ndarray) -> tuple[tuple, ...]:  # type: ignore[type-arg]
    return tuple(tuple(row) for row in array.tolist())
