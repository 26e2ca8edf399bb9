"""PIMoE and SIEVE: which experts leave near-data memory in a pass."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.pim_schedule import moves, moves_reference
from planner.policies.pimoe import PiMoe
from planner.scenario import Scenario
from tests.policies.policy_cases import EXPERTS, LAYERS, W, case, every_layer, routed_s, tiny


def problem(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    passes, layers, experts = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 9))
    units = int(rng.integers(1, 5))
    tokens = rng.integers(0, 5, (passes, layers, experts))
    near = rng.random((passes, layers, experts)) * tokens
    home = np.full((layers, experts), -1) if seed % 2 else rng.integers(0, units, (layers, experts))
    return {
        "tokens": tokens,
        "near_s": near,
        "read_s": rng.random((layers, experts)) * 0.2,
        "home": home,
        "units": units,
        "link_s": rng.random((layers, experts)) * 0.5,
        "gpu_s": rng.random((passes, layers, experts)) * 0.2 * (tokens > 0),
        "base_s": rng.random((passes, layers)) * 0.5,
    }


def makespan(p: dict[str, Any], s: int, layer: int, moved: np.ndarray) -> float:
    """Literal: every unit, the GPU's lane, and the link with the compute of the largest expert moved."""
    hit, home, units = p["tokens"][s, layer] > 0, p["home"][layer], p["units"]
    own = np.where(hit, np.where(moved, p["read_s"][layer], p["near_s"][s, layer]), 0.0)
    on_unit = [
        sum(own[e] / units if home[e] < 0 else own[e] * (home[e] == u) for e in range(len(own))) for u in range(units)
    ]
    gpu = p["base_s"][s, layer] + p["gpu_s"][s, layer][moved].sum()
    link = p["link_s"][layer][moved].sum() + p["gpu_s"][s, layer][moved].max(initial=0.0)
    return float(max(*on_unit, gpu, link))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_kernel_and_twin_agree_and_never_lengthen_a_layer(seed: int, by_tokens: bool) -> None:
    p = problem(seed)
    found = moves(**p, by_tokens=by_tokens)
    assert np.array_equal(found, moves_reference(**p, by_tokens=by_tokens))
    assert not (found & (p["tokens"] == 0)).any()
    for s, layer in np.ndindex(found.shape[:2]):
        nothing = np.zeros(found.shape[2], bool)
        after, before = makespan(p, s, layer, found[s, layer]), makespan(p, s, layer, nothing)
        assert after <= before + 1e-12


def test_moves_by_hand() -> None:
    """One unit, 4 + 3 + 2 + 1 s near the data; a transfer takes 2 s and a fifth of a second of the unit."""
    near = np.array([[[1.0, 4.0, 2.0, 3.0]]])
    p: dict[str, Any] = {
        "tokens": near.astype(int),
        "near_s": near,
        "read_s": np.full((1, 4), 0.2),
        "home": np.zeros((1, 4), int),
        "units": 1,
        "link_s": np.full((1, 4), 2.0),
        "gpu_s": np.full((1, 1, 4), 0.1),
        "base_s": np.zeros((1, 1)),
    }
    # 10 -> move 4: max(6.2, 2.1); move 3: max(3.4, 4.1); move 2: max(1.6, 6.1) is longer.
    assert moves(**p, by_tokens=False)[0, 0].tolist() == [False, True, False, True]
    assert moves(**p, by_tokens=True)[0, 0].tolist() == [False, True, False, True]


def test_pimoe_takes_from_the_bottleneck_unit() -> None:
    """Unit 0 runs 3 + 3 s, unit 1 runs 4 s: the first to move is one of unit 0, although the 4 s run longer."""
    p: dict[str, Any] = {
        "tokens": np.array([[[3, 3, 4]]]),
        "near_s": np.array([[[3.0, 3.0, 4.0]]]),
        "read_s": np.zeros((1, 3)),
        "home": np.array([[0, 0, 1]]),
        "units": 2,
        "link_s": np.full((1, 3), 3.5),
        "gpu_s": np.zeros((1, 1, 3)),
        "base_s": np.zeros((1, 1)),
    }
    assert moves(**p, by_tokens=False)[0, 0].tolist() == [True, False, False]
    # SIEVE's order starts with the 4 s, which do not shorten the layer: it stops there.
    assert moves(**p, by_tokens=True)[0, 0].tolist() == [False, False, False]


def test_sieve_is_optimal_among_prefixes_and_near_the_best_set() -> None:
    """Experts of one size, sharded: the scan stops at the best prefix, which here is the best set of all."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        tokens = np.sort(rng.integers(1, 12, (1, 1, 7)))[..., ::-1].copy()
        p: dict[str, Any] = {
            "tokens": tokens,
            "near_s": np.maximum(tokens * 0.3, 0.5),
            "read_s": np.full((1, 7), 0.05),
            "home": np.full((1, 7), -1),
            "units": 4,
            "link_s": np.full((1, 7), 0.21),
            "gpu_s": np.full((1, 1, 7), 0.01),
            "base_s": np.zeros((1, 1)),
        }
        chosen = moves(**p, by_tokens=True)[0, 0]
        best = min(
            makespan(p, 0, 0, np.isin(np.arange(7), group)) for n in range(8) for group in combinations(range(7), n)
        )
        assert makespan(p, 0, 0, chosen) == pytest.approx(best, rel=1e-9)


NEAR = {
    "pcie.bandwidth_bytes_per_s": 10e9,
    "pcie.host_bandwidth_bytes_per_s": 10e9,
    "cxl.port_bandwidth_bytes_per_s": 10e9,
    "cxl.port_efficiency": 1.0,
    "cxl.internal_bandwidth_bytes_per_s": 100e9,
    "cxl.bandwidth_efficiency": 1.0,
    "cxl.compute_efficiency": 1.0,
    "cxl.flop_per_s": 1e11,
    "cxl.overlap": 1.0,
    "cxl.tile_rows": 1.0,
    "cxl.doorbell_s": 0.0,
    "cxl.completion_s": 0.0,
}


def near(options: dict[str, Any] | None = None, **chosen: Any) -> Scenario:
    return tiny("pimoe", options, batch=8, system="h100-cxl-ndp", over=NEAR, **chosen)


@pytest.mark.parametrize("rule", ["pimoe", "sieve"])
def test_pass_by_hand(rule: str) -> None:
    """A token takes 15.7 us near the data, a transfer 157 us: 20 tokens move, 2 + 1 + 1 stay."""
    c = case(near({"rule": rule}))
    token_s, link_s = 2.0 * (W / 2) / 1e11, W / 10e9
    step = c.step(every_layer([20, 2, 1, 1, 0, 0, 0, 0]))
    stays = max(2 * token_s, W / 100e9) + 2 * max(token_s, W / 100e9) + W / 100e9  # and the moved one is read out
    sent = 4 * 512 / 10e9  # activations of the tokens that stay, there and back
    assert routed_s(step) == pytest.approx(LAYERS * max(link_s + W / 1e12 + sent, stays + 2 * sent), rel=1e-6)


def test_details_and_ledger() -> None:
    c = case(near(gpu_experts_per_layer=1))
    facts = dict(PiMoe().details(c.ctx, c.ready, c.placed, c.routing).facts)
    assert "active experts of a layer" in facts["Moved to the GPU"]
    gpu, device = c.ready.ledger
    assert gpu.items["experts"][0] == pytest.approx(LAYERS * W)
    assert device.items["experts"][0] == pytest.approx(LAYERS * EXPERTS * W)


def test_sharding_evens_out_units() -> None:
    """On NDP DIMMs SIEVE's even shards are at least as fast as whole experts on uneven units, before anything moves."""
    base = {"model": {"id": "Qwen/Qwen3-30B-A3B"}, "system": {"id": "trimoe-server"}, "workload": {"batch": 64}}
    times = {}
    for rule in ("pimoe", "sieve"):
        found = evaluate(Scenario.model_validate({**base, "policy": {"id": "pimoe", "options": {"rule": rule}}}))
        assert found.decode is not None
        times[rule] = found.decode.step.total_s
    assert times["sieve"] < times["pimoe"]


def test_a_format_that_the_units_cannot_compute_is_one_sentence() -> None:
    with pytest.raises(PlanError, match="near-data processors cannot compute"):
        evaluate(near(expert_format="gguf-iq2_xs"))
