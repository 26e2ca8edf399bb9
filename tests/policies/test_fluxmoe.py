"""FluxMoE: paged experts from two stores, and the controller of the resident share."""

from __future__ import annotations

import numpy as np
import pytest

from planner.errors import PlanError
from tests.policies.cache_cases import (
    B_HBM,
    B_LINK,
    LOAD_S,
    READ_S,
    W,
    decode_step,
    head_s,
    parts,
    prefill_s,
    tiny,
    weights_s,
    written,
)

ONE = np.array([[[1, 0, 0, 0], [0, 1, 0, 0]]] * 2, np.int32)
HOST_ONLY = {"compressed_store": False}


def flux(resident: int | None = 0, machine: dict[str, float] | None = None, experts: int = 4, **options: object):  # type: ignore[no-untyped-def]
    return tiny("fluxmoe", experts=experts, gpu_experts_per_layer=resident, machine=machine, options=options)


def test_step_from_host_memory_by_hand() -> None:
    for resident in (0, 1, 3):
        step = decode_step(flux(resident, **HOST_ONLY), written(ONE))
        # whole layers are paged, hit or not
        assert step.total_s == pytest.approx(2 * (4 - resident) * LOAD_S + head_s(), rel=1e-12)
    step = decode_step(flux(4, **HOST_ONLY), written(ONE))
    assert step.total_s == pytest.approx(2 * (weights_s() + READ_S) + head_s(), rel=1e-12)


def test_step_from_both_stores_by_hand() -> None:
    """Split by bandwidth: HBM unpacks W in 1.8 W / B_hbm, so of 64 experts one comes over the link."""
    machine = {"pcie.bandwidth_bytes_per_s": 1e10}
    scenario = flux(0, machine, experts=64)
    counts = np.zeros((2, 2, 64), np.int32)
    counts[:, :, 5] = 1
    ready = parts(scenario, written(counts))[2]
    b_store = B_HBM / 1.8
    inside = round(64 * b_store / (b_store + B_LINK))
    assert ready.in_hbm == inside == 63  # type: ignore[attr-defined]
    step = decode_step(scenario, written(counts))
    unpack = inside * 1.8 * W / B_HBM
    gpu = unpack + READ_S + weights_s() + 2.0 * 60 * 1024 / B_HBM  # a wider router than in the small model
    assert step.total_s == pytest.approx(2 * max(gpu, LOAD_S) + head_s(), rel=1e-9)


def test_compressed_store_takes_what_hbm_has() -> None:
    small = {"gpu.memory_capacity_bytes": 2.2e9, "gpu.reserve_bytes": 0.0}
    counts = np.zeros((1, 2, 64), np.int32)
    counts[:, :, 5] = 1
    ready = parts(flux(0, small, experts=64), written(counts))[2]
    gpu, host = ready.ledger
    inside = ready.in_hbm  # type: ignore[attr-defined]
    assert 0 < inside < 63
    assert gpu.items["experts, compressed"][0] == pytest.approx(0.8 * W * inside * 2)
    assert gpu.items["streaming buffers"][0] == 2 * 64 * W
    assert host.items["experts"][0] == (64 - inside) * W * 2
    assert 0 <= -gpu.short_bytes < 0.8 * W * 2


def test_narrow_weights_have_no_compressed_store() -> None:
    scenario = tiny("fluxmoe", weight_bits=8.0, gpu_experts_per_layer=0)
    assert parts(scenario, written(ONE))[2].in_hbm == 0  # type: ignore[attr-defined]


def test_controller_keeps_the_least_that_keeps_up() -> None:
    """t_compute is attention and one expert; t_load is (4 - r) transfers: r is the least with rho >= 0.9."""
    compute = weights_s() + READ_S
    for wanted in (1, 2, 3):
        # rho = compute / ((4 - r) t): 0.95 at the wanted number
        t = compute / 0.95 / (4 - wanted)
        machine = {"pcie.bandwidth_bytes_per_s": W / t, "dram.bandwidth_bytes_per_s": 1e14}
        ready = parts(flux(None, machine, **HOST_ONLY), written(ONE))[2]
        assert ready.resident_per_layer == wanted
        assert ready.rho == pytest.approx(0.95)  # type: ignore[attr-defined]
    fast = {"pcie.bandwidth_bytes_per_s": 1e13, "dram.bandwidth_bytes_per_s": 1e14}
    assert parts(flux(None, fast, **HOST_ONLY), written(ONE))[2].resident_per_layer == 0


def test_controller_is_told() -> None:
    ctx, policy, ready, placed = parts(flux(1, **HOST_ONLY), written(ONE))
    details = policy.details(ctx, ready, placed, written(ONE))
    assert details is not None
    facts = dict(details.facts)
    assert facts["Residency"].startswith("alpha = 0.25: of each layer's 4 experts 1 stay in HBM, 0 lie compressed")
    assert "below the dead zone" in facts["Controller"]
    ctx, policy, ready, placed = parts(flux(4, **HOST_ONLY), written(ONE))
    assert "Controller" not in dict(policy.details(ctx, ready, placed, written(ONE)).facts)  # type: ignore[union-attr]


def test_prefill_pages_every_layer_once() -> None:
    routing = written(ONE, prefill=np.array([[[50, 50, 0, 0], [100, 0, 0, 0]]]))
    head = 1000 * 1024 * 2 / B_HBM
    assert prefill_s(flux(0, **HOST_ONLY), routing, "stream") == pytest.approx(2 * 4 * LOAD_S + head, rel=1e-6)


def test_micro_batches_share_one_loading() -> None:
    one = tiny("fluxmoe", batch=4, gpu_experts_per_layer=0, options=HOST_ONLY)
    two = tiny("fluxmoe", batch=4, micro_batches=2, gpu_experts_per_layer=0, options=HOST_ONLY)
    four = np.array([[[4, 0, 0, 0], [4, 0, 0, 0]]], np.int32)
    halves = np.array([[[2, 0, 0, 0], [2, 0, 0, 0]]], np.int32)
    once, twice = decode_step(one, written(four)).total_s, decode_step(two, written(halves)).total_s
    assert twice == pytest.approx(once + head_s(), rel=1e-12)


def test_bad_input() -> None:
    for chosen, word in (({"options": {"saving": 0.9}}, "from 0 to 0.5"), ({"gpu_experts_per_layer": 9}, "4 routed")):
        with pytest.raises(PlanError, match=word):
            parts(tiny("fluxmoe", **chosen), written(ONE))
