"""Plain twins of the kernels of :mod:`planner.cache_kernel`: same numbers."""

from __future__ import annotations

import numpy as np


def simulate_reference(
    wanted: np.ndarray,
    pool: np.ndarray,
    room: np.ndarray,
    weights: np.ndarray,
    content: np.ndarray,
    last: np.ndarray,
    present: np.ndarray,
) -> None:
    """Twin of the kernel of :func:`planner.cache_kernel.simulate`; writes ``present`` and ``content``."""
    passes, layers, experts = wanted.shape
    uses, high = np.zeros((layers, experts)), np.zeros((layers, experts))
    layer_of = np.repeat(np.arange(layers), experts).reshape(layers, experts)
    for t in range(passes):
        now = t + 1.0
        for layer in range(layers):
            present[t, layer] = content[layer]
            asked = wanted[t, layer] > 0
            last[layer, asked] = t + (layer + 1.0) / layers
            uses[layer, asked] += 1.0
            high[layer, wanted[t, layer] > 1] += 1.0
            if not (asked & (content[layer] == 0)).any():
                continue
            turn = ((layer_of - layer - 1) % layers + 1.0) / layers
            score = (
                weights[0] * (last / now)
                + weights[1] * (uses / now)
                + weights[2] * (high / now)
                + weights[3] * (1.0 - turn)
            )
            pinned = np.zeros((layers, experts), bool)
            pinned[layer] = asked
            mine = (pool == pool[layer])[:, None] & ((content == 1) | pinned)
            candidates = np.flatnonzero(mine.ravel())
            # Best first: S, then the score, then the lower index.
            order = np.lexsort((candidates, -score.ravel()[candidates], ~pinned.ravel()[candidates]))
            kept = candidates[order[: room[pool[layer]]]]
            content[pool == pool[layer]] = 0
            content.ravel()[kept] = 1


def stack_positions_reference(wanted: np.ndarray, stack: np.ndarray, first: int, positions: np.ndarray) -> None:
    """Twin of the kernel of :func:`planner.cache_kernel.stack_positions`."""
    for layer in range(wanted.shape[1]):
        for t in range(wanted.shape[0]):
            asked = wanted[t, layer] > 0
            hit = asked[stack[layer]]
            if t >= first:
                positions[layer] += hit
            stack[layer] = np.concatenate([np.flatnonzero(asked), stack[layer][~hit]])
