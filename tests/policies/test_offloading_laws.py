"""Laws of every policy that moves experts over the link: identities of step and memory, floors, bound, scaling."""

from __future__ import annotations

from functools import cache

import pytest

from hardware import load_system
from planner.bound import bound
from planner.evaluate import Evaluation, evaluate
from planner.planning import plan
from planner.policies import get
from planner.result import Details
from planner.scenario import Scenario
from tests.engine.engine_laws import fitting_laws, memory_laws, near, round_trip, step_laws
from tests.engine.engine_scenarios import changed, scenario

IDS = ("hobbit", "klotski", "moe-lightning", "moe-infinity", "fluxmoe", "wisp", "static-split")
MIXTRAL, LITE, QWEN = "mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-V2-Lite", "Qwen/Qwen3-30B-A3B"
CASES: dict[str, Scenario] = {
    "one user": scenario(model__id=MIXTRAL, system__id="h100-amx-server", workload__batch=1),
    "a real trace": scenario(
        model__id=LITE,
        system__id="desktop-rtx4090",
        workload__batch=4,
        routing__source="trace",
        routing__trace="deepseek-v2-lite-law",
    ),
    "a small card, drafting": scenario(
        model__id=QWEN,
        system__id="h100-amx-server",
        system__overrides={"gpu.memory_capacity_bytes": 24e9},
        workload__batch=16,
        workload__draft_tokens=2,
        policy__weight_bits=8.0,
    ),
    "two GPUs, micro-batches": scenario(
        model__id=MIXTRAL, system__id="2x-h100-sxm", workload__batch=40, policy__micro_batches=2
    ),
    "everything in HBM": scenario(model__id=LITE, system__id="1x-h100-sxm", workload__batch=8),
    "many sequences": scenario(model__id=LITE, system__id="gh200", workload__batch=300, workload__prompt_tokens=300),
}
RATES = (
    "gpu.bf16_flop_per_s",
    "gpu.fp8_flop_per_s",
    "gpu.int8_op_per_s",
    "gpu.fp4_flop_per_s",
    "gpu.memory_bandwidth_bytes_per_s",
    "cpu.bf16_flop_per_s",
    "cpu.vector_flop_per_s",
    "dram.bandwidth_bytes_per_s",
    "pcie.bandwidth_bytes_per_s",
    "pcie.host_bandwidth_bytes_per_s",
    "scaleup.bandwidth_bytes_per_s",
)


@cache
def found(policy: str, case: str) -> Evaluation:
    return evaluate(changed(CASES[case], policy__id=policy))


@pytest.mark.parametrize("policy", IDS)
@pytest.mark.parametrize("case", CASES)
def test_steps_add_up_and_nothing_beats_floors_and_bound(policy: str, case: str) -> None:
    e = found(policy, case)
    assert e.fits, e.reasons
    assert e.decode is not None and e.prefill is not None and e.ready is not None and e.placed is not None
    step_laws(e.decode.step)
    step_laws(e.prefill.timing.step)
    for tier in e.ready.ledger:
        assert tier.short_bytes <= 0
        assert all(value > 0 for value, _ in tier.items.values()), tier.items
    report = bound(e)
    assert report is not None
    assert 0 < report.share <= 1, (policy, case)


@pytest.mark.parametrize("policy", IDS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_told_is_true_of_the_plan(policy: str, case: str) -> None:
    e = found(policy, case)
    assert e.ready is not None and e.placed is not None and e.routing is not None and e.decode is not None
    details = e.policy.details(e.ctx, e.ready, e.placed, e.routing)
    assert isinstance(details, Details)
    assert all(sentence.endswith(".") for _, sentence in details.facts)
    text = e.policy.describe(e.ctx, e.ready, e.placed)
    assert text.endswith(".") and "{" not in text
    for report in details.caches:
        assert 0 <= report.hit_rate <= 1
        assert report.warm_up_steps + report.steps == len(e.routing.counts)
        assert report.slots_per_layer <= e.ctx.experts
    moved = sum(c.bytes_per_step for c in details.caches) / e.ctx.accepted_per_pass
    if policy in ("moe-infinity", "wisp"):  # nothing but missing experts crosses in decode, KV in HBM
        assert e.ready.kv_location == "gpu"
        assert e.decode.flows.pcie_bytes == pytest.approx(moved, rel=1e-9, abs=1.0)


@pytest.mark.parametrize("policy", IDS)
def test_scaling_every_rate_scales_all_but_fixed_time(policy: str) -> None:
    for case in ("one user", "two GPUs, micro-batches"):
        base = CASES[case]
        figures = load_system(base.system.id)
        twice = {p: 2 * value for p in RATES if (value := figures.get(p))}
        slow = found(policy, case).decode
        fast = evaluate(changed(base, policy__id=policy, system__overrides=twice)).decode
        assert slow is not None and fast is not None
        assert near(fast.step.total_s - fast.step.fixed_s, (slow.step.total_s - slow.step.fixed_s) / 2, 1e-6)
        assert near(fast.step.fixed_s, slow.step.fixed_s, 1e-6)


@pytest.mark.parametrize("policy", IDS)
def test_more_hbm_is_never_slower(policy: str) -> None:
    """More slots, residents or layers in HBM: fewer bytes over the link."""
    base = changed(CASES["a real trace"], policy__id=policy)
    if policy == "fluxmoe":  # residents would take the room of compressed ones
        base = changed(base, policy__options={"compressed_store": False})
    last = None
    for kept in (0, 8, 24, 48):
        e = evaluate(changed(base, policy__gpu_experts_per_layer=kept, system__overrides={"gpu.reserve_bytes": 0.0}))
        if not e.fits:
            assert any("HBM" in reason for reason in e.reasons)
            break
        assert e.decode is not None
        link = e.decode.flows.pcie_bytes
        if policy == "static-split":  # its CPU layers read host memory instead
            link = e.decode.flows.dram_bytes
        assert last is None or link <= last * (1 + 1e-9)
        last = link
    assert last is not None


@pytest.mark.parametrize("policy", IDS)
def test_whole_plan(policy: str) -> None:
    result = plan(changed(CASES["one user"], policy__id=policy), with_ranges=False, with_marginals=False)
    fitting_laws(result)
    round_trip(result)
    assert result.memory is not None
    memory_laws(result.memory)
    assert result.policy.source and result.policy.notes
    again = plan(changed(CASES["one user"], policy__id=policy), with_ranges=False, with_marginals=False)
    assert again.headline == result.headline


@pytest.mark.parametrize("policy", IDS)
def test_entry_says_what_a_person_needs(policy: str) -> None:
    entry = get(policy).entry()
    assert entry.id == policy and entry.name and entry.sentence.endswith(".")
    assert "arXiv" in entry.source or "github.com" in entry.source
    assert entry.needs == ("gpu", "host", "pcie")
    for option in entry.options:
        assert len(option.description) > 10
        if option.type in ("int", "float"):
            assert option.low is not None and option.high is not None
            assert option.low <= option.default <= option.high  # type: ignore[operator]
        if option.type == "choice":
            assert option.default in option.choices


def test_without_a_host_there_is_nothing_to_plan() -> None:
    for policy in IDS:
        e = evaluate(scenario(system__id="unified-memory-box", policy__id=policy, workload__batch=1))
        if not e.fits:
            assert all(reason.endswith(".") for reason in e.reasons)
