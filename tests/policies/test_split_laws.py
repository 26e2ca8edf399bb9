"""What holds for every policy that splits experts between HBM, link, CPU and near-data memory: laws and the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner import plan
from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.policies import get
from planner.policies.base import Option
from planner.policies.split import SplitPolicy
from planner.scenario import Scenario
from planner.split import CPU, HIT, STREAM
from tests.engine.engine_laws import fitting_laws, is_a_sentence, round_trip
from tests.policies.policy_cases import EXPERTS, LAYERS, W, case, tiny

POLICIES = ("fiddler", "hybrimoe", "daop", "dali", "freetoken", "pimoe", "cpu-experts", "monde")
HOST = ("fiddler", "hybrimoe", "daop", "dali", "freetoken", "cpu-experts")


def system_of(policy: str) -> str:
    return "h100-cxl-ndp" if policy in ("pimoe", "monde") else "desktop-rtx4090"


def real(policy: str, **workload: Any) -> Scenario:
    return Scenario.model_validate(
        {
            "model": {"id": "allenai/OLMoE-1B-7B-0924"},
            "system": {"id": system_of(policy)},
            "workload": {"batch": 4, "prompt_tokens": 256, "output_tokens": 64, **workload},
            "policy": {"id": policy, "gpu_experts_per_layer": 12},
        }
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_laws_and_bound_of_a_plan(policy: str) -> None:
    result = plan(real(policy), with_ranges=False)
    fitting_laws(result)
    round_trip(result)
    assert result.bound is not None and result.decode is not None
    assert result.bound.step_s <= result.decode.total_s
    assert result.headline.tpot_s == result.decode.total_s


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "fiddler": [{"overlap": "beside"}, {"crossover_tokens": 2}],
    "hybrimoe": [{"prefetch_layers": 0}, {"prefetch_layers": 1, "gate_accuracy": 0.0}, {"alpha": 1.0, "top_p": 1}],
    "daop": [{"first_predicted_layer": 1}, {"degradation": False}],
    "dali": [{"prefetch": 0, "swaps": 0}, {"prefetch": 4, "swap_every": 1, "swaps": 3}],
    "freetoken": [{"backend": "hybrid"}, {"backend": "offload"}],
    "pimoe": [{"rule": "sieve"}, {"ndp_compute": "padded"}],
    "cpu-experts": [{"hot_placement": "uniform"}, {"hot_placement": "front-loading"}],
    "monde": [{"hot_experts": 2}, {"residency": "any-resident"}],
}


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(POLICIES),
    st.integers(0, 1),
    st.sampled_from([1, 3, 40]),
    st.sampled_from([0, 1, 5, EXPERTS, None]),
    st.sampled_from(["gpu", "host"]),
    st.sampled_from([None, 4.0, 3.0]),
    st.sampled_from([1e9, 1e11]),
    st.integers(0, 3),
)
def test_nothing_beats_floors_or_bound(
    policy: str, which: int, batch: int, kept: int | None, kv: str, bits: float | None, link: float, seed: int
) -> None:
    over = {"pcie.bandwidth_bytes_per_s": link, "pcie.host_bandwidth_bytes_per_s": link, "cpu.vector_flop_per_s": 1e12}
    chosen: dict[str, Any] = {"gpu_experts_per_layer": kept, "weight_bits": bits, "kv_location": kv}
    scenario = tiny(policy, OPTIONS[policy][which], batch=batch, system=system_of(policy), over=over, **chosen)
    data = scenario.model_dump()
    data["routing"].update(seed=seed, sigma=1.5 * (seed % 2), steps=8)
    result = plan(Scenario.model_validate(data), with_ranges=False)
    if not result.headline.fits:
        assert result.headline.reasons
        return
    fitting_laws(result)
    assert result.decode is not None and result.bound is not None
    assert result.bound.step_s <= result.decode.total_s * (1 + 1e-9)


QUIET: dict[str, dict[str, Any]] = {"hybrimoe": {"prefetch_layers": 0}, "dali": {"prefetch": 0, "swaps": 0}}


@pytest.mark.parametrize("policy", [p for p in HOST if p != "cpu-experts"])
def test_each_expert_that_is_hit_is_read_once_where_it_is_computed(policy: str) -> None:
    """From HBM if the GPU computes it, over the host channels if it is sent or on the CPU; all FLOP are done."""
    c = case(tiny(policy, QUIET.get(policy), batch=6, gpu_experts_per_layer=3, over={"cpu.vector_flop_per_s": 1e11}))
    assert isinstance(c.policy, SplitPolicy)
    split = c.policy.split(c.ctx, c.ready, c.placed, c.routing)
    full, empty = (c.policy.decode(c.ctx, c.ready, c.placed, c.with_counts(n)).flows for n in (c.routing.counts, NONE))
    each = {code: float((split.place == code).sum()) / split.place.shape[0] for code in (HIT, STREAM, CPU)}
    assert each[HIT] + each[STREAM] + each[CPU] == pytest.approx(float((split.counts > 0).sum()) / len(split.counts))
    assert full.hbm_bytes - empty.hbm_bytes == pytest.approx((each[HIT] + each[STREAM]) * W)
    activations = 2.0 * (full.pcie_bytes - empty.pcie_bytes - each[STREAM] * W)
    assert full.dram_bytes - empty.dram_bytes == pytest.approx((each[STREAM] + each[CPU]) * W + activations)
    flop = full.gpu_flop + full.cpu_flop - empty.gpu_flop - empty.cpu_flop
    assert flop == pytest.approx(W * 6 * 2 * LAYERS)  # two FLOP for each weight of two bytes, two experts for a token


NONE = np.zeros((1, LAYERS, EXPERTS))


@pytest.mark.parametrize("policy", HOST)
def test_more_room_in_hbm_is_never_much_slower(policy: str) -> None:
    times = []
    for kept in (0, 2, 4, EXPERTS):
        found = evaluate(tiny(policy, gpu_experts_per_layer=kept))
        assert found.decode is not None
        times.append(found.decode.step.total_s)
    assert times[-1] == min(times)
    assert times[-1] < times[0]


@pytest.mark.parametrize("policy", HOST)
def test_slots_and_buffers_are_in_the_ledger(policy: str) -> None:
    """Three experts of each layer more in HBM: exactly their bytes more."""
    ledgers = [evaluate(tiny(policy, gpu_experts_per_layer=n)).ready for n in (1, 4)]
    assert ledgers[0] is not None and ledgers[1] is not None
    gpu = [r.ledger[0].fullest_bytes for r in ledgers if r]
    assert gpu[1] - gpu[0] == pytest.approx(3 * LAYERS * W)
    assert ledgers[0].ledger[0].items["streaming buffers"][0] == pytest.approx(2 * W)


@pytest.mark.parametrize("policy", POLICIES)
def test_bad_values_of_every_option_are_sentences(policy: str) -> None:
    def wrong(option: Option) -> list[Any]:
        if option.type == "bool":
            return [3, "yes"]
        if option.type == "choice":
            return ["nonsense", 1]
        return ["many", (option.low or 0.0) - 1.0, (option.high or 0.0) + 1.0, True]

    for option in get(policy).options:
        for value in wrong(option):
            with pytest.raises(PlanError) as caught:
                evaluate(tiny(policy, {option.name: value}, system=system_of(policy)))
            is_a_sentence(caught.value)
            assert option.name in str(caught.value)
    with pytest.raises(PlanError, match=r"9.*the model has 8 routed experts"):
        evaluate(tiny(policy, system=system_of(policy), gpu_experts_per_layer=9))


@pytest.mark.parametrize("policy", HOST)
def test_missing_parts_are_an_answer(policy: str) -> None:
    result = plan(tiny(policy, system="unified-memory-box"), with_ranges=False, with_marginals=False)
    assert result.headline.fits or result.headline.reasons


def test_history_is_ordered_and_longer_than_what_is_timed() -> None:
    for policy in ("hybrimoe", "dali", "freetoken"):
        found = evaluate(tiny(policy, gpu_experts_per_layer=2))
        plain = evaluate(tiny("fiddler", gpu_experts_per_layer=2))
        assert found.routing is not None and plain.routing is not None and found.decode is not None
        assert found.routing.counts.shape[0] == 3 * plain.routing.counts.shape[0] // 2
        assert found.decode.step.samples == plain.routing.counts.shape[0]
        assert np.array_equal(found.routing.profile, plain.routing.profile)
