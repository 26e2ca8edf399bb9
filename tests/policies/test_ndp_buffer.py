"""The buffer of an NDP DIMM: an expert is read again for each fill of it; compute, and other devices, do not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.bound import bound
from planner.evaluate import Evaluation, evaluate
from planner.physics import experts
from planner.physics.ndp import fills, rows_per_fill
from planner.scenario import Scenario
from tests.policies.policy_cases import EXPERTS, Case, W, case, every_layer, tiny

INSIDE = 8e9
ROW = 512.0  # bytes of a row: hidden 256 at 16 bit
DIMM: dict[str, float] = {
    "ndp.count": 2,
    "dram.dimms": 2,
    "dram.channels_per_socket": 2,
    "dram.dimms_per_channel": 1,
    "ndp.bandwidth_efficiency": 1,
    "ndp.compute_efficiency": 1,
    "ndp.overlap": 1,
    "ndp.command_s": 0,
    "ndp.flop_per_s": 1e15,  # bytes are the only limit
    "ndp.internal_bandwidth_bytes_per_s": INSIDE,
    "ndp.tile_rows": 1,
}


def dimms(buffer: float, policy: str = "monde", batch: int = 8, **options: Any) -> Scenario:
    return tiny(
        policy,
        options,
        batch=batch,
        system="trimoe-server",
        over={**DIMM, "ndp.buffer_bytes": buffer},
        gpu_experts_per_layer=0,
    )


def on_dimms(c: Case, row: list[int]) -> np.ndarray:
    """Seconds of each expert on its DIMM."""
    return experts.on_ndp(c.ctx, every_layer(row), c.placed.stored, "dimm_ndp", "gemv").seconds[0, 0]


def test_rows_of_a_fill_by_hand() -> None:
    assert rows_per_fill(262_144, 2 * 5120) == 25  # DeepSeek-V2: 25.6 rows
    assert rows_per_fill(262_144, 2 * 4096) == 32  # Qwen3-235B and GLM-4.5-Air: exactly 32
    assert rows_per_fill(100, 512) == rows_per_fill(0, 512) == 1  # a row goes through in any case
    assert fills([0, 1, 25, 26, 50, 51], 25).tolist() == [0, 1, 1, 2, 2, 3]
    assert fills([0, 1, 10**6], rows_per_fill(None, 512)).tolist() == [0, 1, 1]


def test_weights_are_read_once_for_each_fill() -> None:
    c = case(dimms(3 * ROW + 100))  # three rows
    assert on_dimms(c, [0, 1, 3, 4, 6, 7, 9, 10]) == pytest.approx(np.array([0, 1, 1, 2, 2, 3, 3, 4]) * W / INSIDE)


def test_compute_is_not_repeated() -> None:
    c = case(dimms(ROW))
    slow = replace(
        c.ctx,
        machine=replace(c.ctx.machine, dimm_ndp=replace(c.ctx.machine.dimm_ndp, flop_per_s=1e3)),  # type: ignore[type-var]
    )
    work = experts.on_ndp(slow, every_layer([5] * EXPERTS), c.placed.stored, "dimm_ndp", "gemv")
    assert work.compute_s == pytest.approx(2 * W / 2 * 5 / 1e3)
    assert work.seconds == pytest.approx(work.compute_s)
    assert work.bytes_s == pytest.approx(5 * W / INSIDE)


def test_bytes_of_the_step_are_those_that_are_read_and_so_is_the_energy() -> None:
    """Layers of six experts outside HBM with 1 to 7 tokens; the most loaded goes to the GPU, so it is not read here."""
    row = [1, 7, 3, 2, 2, 1, 0, 0]
    read = {}
    for rows in (1, 2, 100):
        c = case(dimms(rows * ROW, hot_experts=1))
        run = c.decode(every_layer(row))
        read[rows] = run.flows.ndp_bytes / (4 * W)
        assert run.flows.ndp_flop == pytest.approx(4 * 9 * W)  # 2 P = W a token
    assert read == pytest.approx({1: 1 + 3 + 2 + 2 + 1, 2: 1 + 2 + 1 + 1 + 1, 100: 5})


@pytest.mark.parametrize("policy", ["monde", "trimoe", "pimoe"])
def test_floors_and_the_bound_stay_below_the_step(policy: str) -> None:
    for buffer in (ROW, 3 * ROW, 262_144):
        found: Evaluation = evaluate(dimms(buffer, policy, batch=64))
        assert found.decode is not None, found.reasons
        step = found.decode.step
        assert step.byte_floor_s <= step.total_s * (1 + 1e-9)
        for domain in step.domains:
            assert (domain.achieved_share or 0.0) <= 1 + 1e-9, domain
        proven = bound(found)
        assert proven is not None and proven.step_s <= step.total_s * (1 + 1e-9)


@given(
    rows=st.integers(1, 40),
    more=st.integers(0, 40),
    tokens=st.lists(st.integers(0, 300), min_size=EXPERTS, max_size=EXPERTS),
)
@settings(max_examples=60, deadline=None)
def test_more_buffer_is_never_slower(rows: int, more: int, tokens: list[int]) -> None:
    c = case(dimms(rows * ROW))
    larger = replace(
        c.ctx,
        machine=replace(c.ctx.machine, dimm_ndp=replace(c.ctx.machine.dimm_ndp, buffer_bytes=(rows + more) * ROW)),  # type: ignore[type-var]
    )
    small, large = (
        experts.on_ndp(ctx, every_layer(tokens), c.placed.stored, "dimm_ndp", "gemv").seconds for ctx in (c.ctx, larger)
    )
    assert (large <= small).all()
    assert (large >= W / INSIDE * (every_layer(tokens) > 0) * (1 - 1e-12)).all()


def test_a_larger_buffer_never_slows_a_step_whose_assignment_is_fixed() -> None:
    steps = [
        evaluate(dimms(k * ROW, batch=200, hot_experts=1), quick=True).decode.step.total_s  # type: ignore[union-attr]
        for k in (1, 2, 5, 20, 400)
    ]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] > 5 * steps[-1]


def test_a_cxl_device_has_no_such_buffer() -> None:
    c = case(tiny("monde", {"hot_experts": 1}, batch=8, system="h100-cxl-ndp", gpu_experts_per_layer=0))
    assert c.ctx.machine.cxl_ndp is not None and c.ctx.machine.cxl_ndp.buffer_bytes is None
    run = c.decode(every_layer([1000, 7, 300, 2, 2, 1, 0, 0]))
    assert run.flows.cxl_bytes == pytest.approx(4 * 6 * W)  # five computed there, one read to be moved


def test_an_unknown_buffer_is_no_limit_and_the_plan_says_so() -> None:
    c = case(dimms(ROW))
    assert c.policy.plan_notes(c.ctx) == ()
    unknown = replace(
        c.ctx,
        machine=replace(c.ctx.machine, dimm_ndp=replace(c.ctx.machine.dimm_ndp, buffer_bytes=None)),  # type: ignore[type-var]
    )
    seconds = experts.on_ndp(unknown, every_layer([500] * EXPERTS), c.placed.stored, "dimm_ndp", "gemv").seconds
    assert seconds == pytest.approx(W / INSIDE)
    assert "not known" in c.policy.plan_notes(unknown)[0]
