"""Two sockets under TriMoE: interleaved and placed, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.planning import _details
from planner.policies.trimoe_numa import socket_of_unit
from tests.engine.engine_scenarios import scenario
from tests.engine.engine_tiny import EXPERT_BYTES, Hand
from tests.policies.trimoe_hand import (
    CHANNEL,
    DIMMS,
    HOST,
    PCIE,
    RANKS,
    TWO_SOCKETS,
    Way,
    Ways,
    cpu_compute,
    future,
    greedy_step,
    impossible,
    near_s,
    step_s,
    trimoe,
)

LINK = "cpu.socket_link_bandwidth_bytes_per_s"
BATCH = 12
SLOW_NDP = 2e9
MACHINE = {**TWO_SOCKETS, "ndp.flop_per_s": SLOW_NDP}  # most experts are warm


def interleaved(home: np.ndarray, link: float) -> Ways:
    """Both sockets compute each expert; a quarter of a striped one crosses in each direction, half of a localised."""

    def of(tokens: int, layer: int, expert: int) -> tuple[Way, Way, Way]:
        at = int(home[layer, expert])
        rate, crossing = (HOST, EXPERT_BYTES / 4) if at < 0 else (CHANNEL, EXPERT_BYTES / 2)
        by = [("host", 1 / HOST)]
        by += [(f"dimm {d}", 1 / RANKS / (DIMMS if at < 0 else 1)) for d in range(DIMMS) if at in (-1, d)]
        gpu = max(Hand(BATCH).expert(tokens), EXPERT_BYTES / PCIE, EXPERT_BYTES / rate)
        cpu = max(cpu_compute(tokens, 2.0), EXPERT_BYTES / rate, crossing / link)
        near = impossible() if at < 0 else Way(f"dimm {at}", near_s(tokens))
        return Way("gpu", gpu, EXPERT_BYTES, tuple(by)), Way("cpu", cpu, EXPERT_BYTES, tuple(by)), near

    return of


def placed(home: np.ndarray, socket: np.ndarray) -> Ways:
    """Each expert on the cores and the two channels of one socket; DIMMs 0 and 1 hang on socket 0, 2 and 3 on 1."""

    def of(tokens: int, layer: int, expert: int) -> tuple[Way, Way, Way]:
        at, on = int(home[layer, expert]), int(socket[layer, expert])
        assert at < 0 or on == at // 2
        rate = HOST / 2 if at < 0 else CHANNEL
        by = [(f"host {on}", 1 / (HOST / 2))]
        dimms = (2 * on, 2 * on + 1) if at < 0 else (at,)
        by += [(f"dimm {d}", 1 / RANKS / len(dimms)) for d in dimms]
        gpu = max(Hand(BATCH).expert(tokens), EXPERT_BYTES / PCIE, EXPERT_BYTES / rate)
        cpu = max(cpu_compute(tokens), EXPERT_BYTES / rate)
        near = impossible() if at < 0 else Way(f"dimm {at}", near_s(tokens, flop=SLOW_NDP))
        return Way("gpu", gpu, EXPERT_BYTES, tuple(by)), Way(f"cpu {on}", cpu, EXPERT_BYTES, tuple(by)), near

    return of


@pytest.mark.parametrize("link", [1e12, 3e9])
def test_interleaved_experts_wait_for_channels_or_for_the_link(link: float) -> None:
    found = trimoe(BATCH, {**TWO_SOCKETS, LINK: link}, numa="interleaved")
    home = future(found).home
    assert (home < 0).any() and (home >= 0).any()
    assert step_s(found) == pytest.approx(greedy_step(found, BATCH, interleaved(home, link)), rel=1e-12)


def test_placed_experts_run_on_one_socket_and_the_later_one_sets_the_time() -> None:
    found = trimoe(BATCH, MACHINE, numa="placed")
    where = future(found)
    assert set(where.socket[where.home < 0].tolist()) == {0, 1}
    assert step_s(found) == pytest.approx(greedy_step(found, BATCH, placed(where.home, where.socket)), rel=1e-12)


def test_the_link_matters_only_where_experts_are_interleaved() -> None:
    slow, fast = ({**MACHINE, LINK: rate} for rate in (2e9, 1e12))
    assert step_s(trimoe(BATCH, slow, numa="placed")) == step_s(trimoe(BATCH, fast, numa="placed"))
    assert step_s(trimoe(BATCH, slow, numa="interleaved")) > step_s(trimoe(BATCH, fast, numa="interleaved"))
    # Behind a slow link placing wins; behind a fast one nothing is gained by placing, balance can only be lost.
    assert step_s(trimoe(BATCH, slow, numa="placed")) < step_s(trimoe(BATCH, slow, numa="interleaved"))
    few = {**fast, "ndp.internal_bandwidth_bytes_per_s": 1e6}
    assert step_s(trimoe(1, few, numa="placed")) >= step_s(trimoe(1, few, numa="interleaved"))


def test_the_fitted_share_of_two_sockets_is_no_part_of_either() -> None:
    for mode in ("interleaved", "placed"):
        half = trimoe(BATCH, {**MACHINE, LINK: 5e10, "cpu.numa_efficiency": 0.5}, numa=mode)
        whole = trimoe(BATCH, {**MACHINE, LINK: 5e10}, numa=mode)
        assert step_s(half) == pytest.approx(step_s(whole), rel=1e-12)


def test_dimms_belong_to_sockets_in_order() -> None:
    assert socket_of_unit(4).tolist() == [0, 0, 1, 1]
    assert socket_of_unit(5).tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("over", "numa", "words"),
    [
        ({}, "placed", "needs 2 CPU sockets; this system has 1"),
        ({"cpu.sockets": 2, "ndp.count": 32}, "interleaved", "no measurement of the link between two sockets"),
    ],
)
def test_what_is_not_known_or_not_there_is_refused(over: dict[str, float], numa: str, words: str) -> None:
    made = scenario(
        system__id="trimoe-server", system__overrides=over, policy__id="trimoe", policy__options={"numa": numa}
    )
    with pytest.raises(PlanError, match=words):
        evaluate(made)


def test_the_report_says_what_crosses_and_how_even_the_sockets_are() -> None:
    facts = {}
    for mode in ("interleaved", "placed"):
        told = _details(trimoe(BATCH, {**MACHINE, LINK: 5e10}, numa=mode), False)
        assert told is not None
        facts[mode] = dict(told.facts)["Sockets"]
    assert "cross the link between them in each direction, at 50 GB/s" in facts["interleaved"]
    assert "the later socket computes for" in facts["placed"] and "50 GB/s" in facts["placed"]
    unknown = _details(trimoe(BATCH, MACHINE, numa="placed"), False)
    assert unknown is not None and "not known for this CPU, and not needed" in dict(unknown.facts)["Sockets"]
