"""TriMoE's futures by hand, on the tiny model and a plain machine: plain loops, nothing of the engine's physics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.evaluate import Evaluation
from planner.policies.trimoe_futures import FuturePlaced
from tests.engine.engine_tiny import (
    CONTEXTS,
    EXPERT,
    EXPERT_BYTES,
    EXPERTS,
    PLAIN,
    PLAIN_DIMM_NDP,
    PLAIN_HOST,
    VECTOR_BYTES,
    Hand,
    evaluated,
    mean,
    tiles,
    tiny,
)

DIMMS, CHANNELS, HOST = 4, 4, 1.6e10
NDP_FLOP = 3e10
# One DIMM on each of four channels; some experts are warm, some cold.
MACHINE: dict[str, float] = {
    **PLAIN,
    **PLAIN_HOST,
    **PLAIN_DIMM_NDP,
    "ndp.count": DIMMS,
    "ndp.flop_per_s": NDP_FLOP,
    "dram.dimms": DIMMS,
    "dram.channels_per_socket": CHANNELS,
    "dram.dimms_per_channel": 1,
    "dram.bandwidth_bytes_per_s": HOST,
}
# The same channels on two sockets; CPU rates are of one socket, the host rate of both.
TWO_SOCKETS: dict[str, float] = {**MACHINE, "cpu.sockets": 2, "dram.channels_per_socket": 2}
CHANNEL = HOST / CHANNELS
PCIE = MACHINE["pcie.bandwidth_bytes_per_s"]
RANKS = MACHINE["dram.ranks_per_dimm"] * MACHINE["ndp.rank_bandwidth_bytes_per_s"]
GPU, CPU, NDP = range(3)


@dataclass(frozen=True)
class Way:
    """One way to run an expert: its seconds on a resource, and bytes read with the seconds of a byte on others."""

    resource: str
    seconds: float
    reads: float = 0.0
    by: tuple[tuple[str, float], ...] = ()


Ways = Callable[[int, int, int], tuple[Way, Way, Way]]  # (tokens, layer, expert) -> GPU, CPU, near data


def near_s(tokens: int, size: float = EXPERT_BYTES, flop: float = NDP_FLOP, inside: float = 8e9) -> float:
    return max(2 * EXPERT * tokens / flop, size / inside)


def cpu_compute(tokens: int, share: float = 1.0) -> float:
    """On ``share`` of one socket's rates in the table (2 = both sockets of the pair)."""
    vector = 2 * EXPERT * tokens / (PLAIN_HOST["cpu.vector_flop_per_s"] * share)
    matrix = 2 * EXPERT * tiles(tokens) / (PLAIN_HOST["cpu.bf16_flop_per_s"] * share)
    return min(vector, matrix) if tokens <= 4 else matrix


def greedy_makespan(counts: np.ndarray, layer: int, ways: Ways) -> float:
    loads: dict[str, float] = {}
    for e in range(EXPERTS):
        if not counts[e]:
            continue
        way = min(ways(int(counts[e]), layer, e), key=lambda w: w.seconds)  # ties to the lower domain
        loads[way.resource] = loads.get(way.resource, 0.0) + way.seconds
        for name, seconds in way.by:
            loads[name] = loads.get(name, 0.0) + way.reads * seconds
    return max(loads.values(), default=0.0)


def greedy_step(
    found: Evaluation, batch: int, ways: Ways, between: Callable[[np.ndarray, int], float] | None = None
) -> float:
    """The whole step: head, attention, hand-over, greedy makespans, and ``between`` for each layer."""
    assert found.routing is not None
    hand = Hand(batch)
    hand_over = 2 * batch * VECTOR_BYTES / min(PCIE, HOST / 2)
    steps = []
    for sample in found.routing.counts:
        spans = sum(
            greedy_makespan(layer, i, ways) + hand_over + (between(layer, i) if between else 0.0)
            for i, layer in enumerate(sample)
        )
        steps += [hand.head() + sum(hand.attention(c) for _ in sample) + spans for c in CONTEXTS]
    return mean(steps)


def trimoe(batch: int, machine: dict[str, float], kept: int = 0, **options: Any) -> Evaluation:
    return evaluated(
        tiny(
            "trimoe-server",
            machine,
            batch,
            policy__id="trimoe",
            policy__gpu_experts_per_layer=kept,
            policy__options={"schedule": "greedy", **options},
        )
    )


def step_s(found: Evaluation) -> float:
    assert found.decode is not None
    return found.decode.step.total_s


def future(found: Evaluation) -> FuturePlaced:
    assert isinstance(found.placed, FuturePlaced)
    return found.placed


def impossible() -> Way:
    return Way("none", math.inf)
