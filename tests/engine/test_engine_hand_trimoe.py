"""TriMoE on a tiny model, computed by hand: equations 1 to 4, greedy assignment, refinement, the makespan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from planner.evaluate import Evaluation
from tests.engine.engine_tiny import (
    CONTEXTS,
    EXPERT,
    EXPERT_BYTES,
    EXPERTS,
    LAYERS,
    PLAIN,
    PLAIN_DIMM_NDP,
    PLAIN_HOST,
    VECTOR_BYTES,
    Hand,
    cpu_expert,
    evaluated,
    mean,
    timed,
    tiny,
)

DIMMS = 2
MACHINE = {**PLAIN, **PLAIN_HOST, **PLAIN_DIMM_NDP, "ndp.count": DIMMS, "dram.dimms": DIMMS}
MACHINE |= {"dram.channels_per_socket": DIMMS, "dram.dimms_per_channel": 1, "dram.bandwidth_bytes_per_s": 1.6e10}
PCIE, HOST = MACHINE["pcie.bandwidth_bytes_per_s"], MACHINE["dram.bandwidth_bytes_per_s"]
CHANNEL = HOST / DIMMS
RANKS = MACHINE["dram.ranks_per_dimm"] * MACHINE["ndp.rank_bandwidth_bytes_per_s"]
GPU, CPU, NDP = range(3)


def costs(tokens: int, resident: bool, home: int, hand: Hand) -> tuple[float, float, float]:
    """Seconds of one expert on GPU, CPU and NDP (equations 1 to 4)."""
    t_dram = EXPERT_BYTES / (HOST if home < 0 else CHANNEL)
    gpu = hand.expert(tokens) if resident else max(hand.expert(tokens), EXPERT_BYTES / PCIE, t_dram)
    cpu = max(cpu_expert(tokens), t_dram)
    ndp = math.inf
    if home >= 0 and not resident:
        flop, inside = MACHINE["ndp.flop_per_s"], MACHINE["ndp.internal_bandwidth_bytes_per_s"]
        ndp = max(2 * EXPERT * tokens / flop, EXPERT_BYTES / inside)
    return gpu, cpu, ndp


class Layer:
    """One layer of one sampled step: its experts with tokens, and the makespan of an assignment of them."""

    def __init__(self, counts: np.ndarray, resident: np.ndarray, home: np.ndarray, hand: Hand, read: float) -> None:
        self.hit = [e for e in range(EXPERTS) if counts[e]]
        self.resident, self.home, self.read = resident, home, read
        self.cost = {e: costs(int(counts[e]), bool(resident[e]), int(home[e]), hand) for e in self.hit}

    def loads(self, where: dict[int, int]) -> list[float]:
        """Loads of GPU, CPU, each DIMM and the host channels."""
        gpu = sum(self.cost[e][GPU] for e in self.hit if where[e] == GPU)
        cpu = sum(self.cost[e][CPU] for e in self.hit if where[e] == CPU)
        dimms = [0.0] * DIMMS
        host = 0.0
        for e in self.hit:
            if where[e] == NDP:
                dimms[self.home[e]] += self.cost[e][NDP]
            elif where[e] == CPU or not self.resident[e]:  # read over the channels
                host += EXPERT_BYTES / HOST
                for d in range(DIMMS):
                    share = 1 / DIMMS if self.home[e] < 0 else float(self.home[e] == d)
                    dimms[d] += share * EXPERT_BYTES / self.read
        return [gpu, cpu, *dimms, host]

    def greedy(self) -> dict[int, int]:
        return {e: min(range(3), key=lambda d: (self.cost[e][d], d)) for e in self.hit}

    def by_layout(self) -> dict[int, int]:
        return {e: GPU if self.resident[e] else CPU if self.home[e] < 0 else NDP for e in self.hit}

    def makespan(self, where: dict[int, int]) -> float:
        return max(self.loads(where))


def layers_of(found: Evaluation, batch: int, read: float = RANKS) -> list[list[Layer]]:
    assert found.placed is not None and found.routing is not None
    resident, home = found.placed.resident, found.placed.home
    hand = Hand(batch)
    return [
        [Layer(layer, resident[i], home[i], hand, read) for i, layer in enumerate(sample)]
        for sample in found.routing.counts
    ]


def step_of(spans: list[list[float]], batch: int) -> float:
    """The whole step: head, attention, hand-over of the activations, the makespans."""
    hand = Hand(batch)
    hand_over = 2 * batch * VECTOR_BYTES / min(PCIE, HOST / 2)
    return mean(
        [
            hand.head() + sum(hand.attention(c) + hand_over + span for span in sample)
            for c in CONTEXTS
            for sample in spans
        ]
    )


def trimoe(batch: int, kept: int, **options: Any) -> Evaluation:
    return evaluated(
        tiny(
            "trimoe-server",
            MACHINE,
            batch,
            policy__id="trimoe",
            policy__gpu_experts_per_layer=kept,
            policy__options=options,
        )
    )


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("batch", [2, 9, 60])
def test_greedy_takes_the_least_of_equations_1_to_4(batch: int, kept: int) -> None:
    found = trimoe(batch, kept, schedule="greedy")
    spans = [[layer.makespan(layer.greedy()) for layer in sample] for sample in layers_of(found, batch)]
    assert timed(found)[1] == pytest.approx(step_of(spans, batch), rel=1e-12)


@pytest.mark.parametrize("kept", [0, 1])
def test_the_layout_start_runs_experts_where_they_lie(kept: int) -> None:
    found = trimoe(20, kept, schedule="greedy", start="layout")
    spans = [[layer.makespan(layer.by_layout()) for layer in sample] for sample in layers_of(found, 20)]
    assert timed(found)[1] == pytest.approx(step_of(spans, 20), rel=1e-12)


@pytest.mark.parametrize("excluded", [False, True])
def test_reads_for_the_host_occupy_dimms_at_rank_rate_or_exclude_them(excluded: bool) -> None:
    found = trimoe(9, 0, schedule="greedy", whole_dimm_exclusion=excluded)
    read = CHANNEL if excluded else RANKS
    spans = [[layer.makespan(layer.greedy()) for layer in sample] for sample in layers_of(found, 9, read)]
    assert timed(found)[1] == pytest.approx(step_of(spans, 9), rel=1e-12)


@pytest.mark.parametrize("start", ["greedy", "layout"])
def test_refinement_moves_the_costliest_of_the_bottleneck_until_nothing_helps(start: str) -> None:
    """Re-done here with plain dictionaries; no move is left that the published rule would make."""
    batch = 30
    found = trimoe(batch, 1, start=start)
    spans = []
    for sample in layers_of(found, batch):
        row = []
        for layer in sample:
            where = layer.greedy() if start == "greedy" else layer.by_layout()
            while (better := _move(layer, where)) is not None:
                where = better
            row.append(layer.makespan(where))
        spans.append(row)
    assert timed(found)[1] == pytest.approx(step_of(spans, batch), rel=1e-12)
    unrefined = timed(trimoe(batch, 1, start=start, schedule="greedy"))[1]
    assert timed(found)[1] <= unrefined


def _move(layer: Layer, where: dict[int, int]) -> dict[int, int] | None:
    loads = layer.loads(where)
    now = max(loads)
    worst = loads.index(now)  # GPU, CPU, the DIMMs in order, the host channels
    on_host = [e for e in layer.hit if where[e] == CPU or (where[e] == GPU and not layer.resident[e])]
    if worst in (GPU, CPU):
        there = [(layer.cost[e][worst], e) for e in layer.hit if where[e] == worst]
    elif worst < 2 + DIMMS:
        dimm = worst - 2
        there = [(layer.cost[e][NDP], e) for e in layer.hit if where[e] == NDP and layer.home[e] == dimm]
        if not there:  # contention alone: the reader that takes most bytes from it
            there = [
                (EXPERT_BYTES / (DIMMS if layer.home[e] < 0 else 1), e) for e in on_host if layer.home[e] in (-1, dimm)
            ]
    else:
        there = [(float(EXPERT_BYTES), e) for e in on_host]
    if not there:
        return None
    pick = max(there, key=lambda pair: (pair[0], -pair[1]))[1]
    moves = [{**where, pick: d} for d in range(3) if d != where[pick] and layer.cost[pick][d] < math.inf]
    best = min(moves, key=layer.makespan, default=where)
    return best if layer.makespan(best) < now * (1 - 1e-12) else None


def test_the_parts_of_the_step_are_the_loads_of_the_schedule() -> None:
    """Busy seconds by lane: sums of GPU and CPU, the worst DIMM, the host channels."""
    batch = 30
    found = trimoe(batch, 1, schedule="greedy")
    sums = np.zeros(4)
    rows = layers_of(found, batch)
    for sample in rows:
        for layer in sample:
            loads = layer.loads(layer.greedy())
            sums += [loads[0], loads[1], max(loads[2 : 2 + DIMMS]), loads[-1]]
    sums /= len(rows)
    assert found.decode is not None
    hand = Hand(batch)
    busy = dict.fromkeys(("gpu", "cpu", "ndp", "dram"), 0.0)
    for part in found.decode.step.parts:
        if part.lane in busy:
            busy[part.lane] += part.busy_s
    outside = hand.head() + LAYERS * mean([hand.attention(c) for c in CONTEXTS])
    assert busy["gpu"] == pytest.approx(outside + sums[0], rel=1e-12)
    assert [busy["cpu"], busy["ndp"], busy["dram"]] == pytest.approx(list(sums[1:]), rel=1e-12)


def test_every_hit_expert_is_computed_exactly_once() -> None:
    """FLOP of GPU, CPU and NDP add up to those of all token-expert pairs."""
    batch = 40
    found = trimoe(batch, 1)
    assert found.decode is not None and found.placed is not None
    flows = found.decode.flows
    dense = trimoe(batch, 1)
    assert dense.decode is not None
    routed_on_gpu = flows.gpu_flop - _flop_outside(batch)
    assert routed_on_gpu + flows.cpu_flop + flows.ndp_flop == pytest.approx(LAYERS * batch * 2 * 2 * EXPERT, rel=1e-9)


def _flop_outside(batch: int) -> float:
    from tests.engine.engine_tiny import ATTENTION_FLOP, HEAD, MIXER, ROUTER

    weights = LAYERS * (MIXER + ROUTER) + HEAD
    return batch * (2 * weights + LAYERS * ATTENTION_FLOP * mean(CONTEXTS))


def test_cold_experts_are_dealt_to_dimms_and_warm_ones_striped() -> None:
    found = trimoe(40, 1)
    assert found.placed is not None
    home, resident = found.placed.home, found.placed.resident
    assert (home[resident] == -1).all()
    localised = home >= 0
    for index in range(LAYERS):
        held = [int((home[index] == d).sum()) for d in range(DIMMS)]
        assert max(held) <= math.ceil(localised[index].sum() / DIMMS)
    # Tiers say the same: HBM, host (striped), DIMM-NDP (localised).
    assert (found.placed.tier[localised] == 2).all() and (found.placed.tier[resident] == 0).all()
    assert (found.placed.tier[~localised & ~resident] == 1).all()
