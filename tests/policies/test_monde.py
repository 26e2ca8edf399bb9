"""MoNDE: how many experts move to the GPU, and what residents change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.policies.near_data import moved_hot
from planner.scenario import Scenario
from tests.policies.policy_cases import EXPERTS, Case, case, every_layer, tiny


def monde(options: dict[str, Any] | None = None, kept: int | None = None, **over: float) -> Scenario:
    """Link 32 GB/s beside near-data memory of 512 GB/s: one of 17 active experts moves, at least one."""
    figures = {
        "pcie.bandwidth_bytes_per_s": 32e9,
        "pcie.host_bandwidth_bytes_per_s": 32e9,
        "cxl.port_bandwidth_bytes_per_s": 32e9,
        "cxl.internal_bandwidth_bytes_per_s": 512e9,
        **over,
    }
    return tiny("monde", options, batch=8, system="h100-cxl-ndp", over=figures, gpu_experts_per_layer=kept)


def moved(c: Case, row: list[int], kept: list[int]) -> list[int]:
    resident = c.resident(kept).resident
    return moved_hot(c.ctx, every_layer(row), resident, "cxl_ndp")[0, 0].astype(int).tolist()


ROW = [1, 7, 3, 2, 2, 1, 0, 0]


def test_h_from_bandwidths_is_at_least_one() -> None:
    assert moved(case(monde()), ROW, [0] * EXPERTS) == [0, 1, 0, 0, 0, 0, 0, 0]
    even = case(monde(**{"cxl.internal_bandwidth_bytes_per_s": 32e9}))  # half of the six active ones
    assert moved(even, ROW, [0] * EXPERTS) == [0, 1, 1, 1, 0, 0, 0, 0]


def test_active_residents_count_and_inactive_ones_do_not() -> None:
    c = case(monde({"hot_experts": 3}))
    assert moved(c, ROW, [0, 1, 0, 0, 0, 0, 0, 1]) == [0, 0, 1, 1, 0, 0, 0, 0]
    assert moved(c, ROW, [0, 0, 0, 0, 0, 0, 1, 1]) == [0, 1, 1, 1, 0, 0, 0, 0]


def test_any_resident_that_is_active_is_enough() -> None:
    c = case(monde({"hot_experts": 3, "residency": "any-resident"}))
    assert moved(c, ROW, [0, 1, 0, 0, 0, 0, 0, 0]) == [0] * EXPERTS
    assert moved(c, ROW, [0, 0, 0, 0, 0, 0, 1, 1]) == [0, 1, 1, 1, 0, 0, 0, 0]


def test_residents_are_the_most_loaded_of_the_calibration_run() -> None:
    c = case(monde(kept=2))
    top = np.argsort(-c.routing.profile, axis=1, kind="stable")[:, :2]
    assert np.take_along_axis(c.placed.resident, top, axis=1).all()
    assert c.placed.resident.sum() == 2 * c.placed.resident.shape[0]


def test_residency_orders_decode() -> None:
    """Moving less is faster here: none, then residents that count, then one of them is enough."""
    times = [
        case(monde({"hot_experts": 3, "residency": residency}, kept)).step(every_layer(ROW)).total_s
        for residency, kept in (("none", 0), ("static", 3), ("any-resident", 3))
    ]
    assert times[0] > times[1] >= times[2]


def test_none_with_residents_is_one_sentence() -> None:
    with pytest.raises(PlanError, match=r"residency is 'none', but policy\.gpu_experts_per_layer is 2"):
        evaluate(monde({"residency": "none"}, 2))


def test_details_count_what_moves() -> None:
    c = case(monde({"hot_experts": 3}))
    details = c.policy.details(c.ctx, c.ready, c.resident([0, 1, 0, 0, 0, 0, 0, 1]), c.with_counts(every_layer(ROW)))
    assert details is not None
    assert details.facts[0][1].startswith("2.00 of 6.00 active experts of a layer, mean over passes; 1.00 are in HBM")
