"""No policy of the registry beats its floors or the bound, whatever the machine, batch, skew and options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner import bound as bound_module
from planner import plan
from planner.bound import bound, lower_bound_s
from planner.computed_work import computed_work
from planner.errors import PlanError
from planner.evaluate import Evaluation, evaluate
from planner.policies import catalog
from tests.engine.engine_scenarios import CAPABLE, POLICIES, options_of, scenario
from tests.policies.policy_cases import tiny

MODEL = "allenai/OLMoE-1B-7B-0924"
NATURAL = {
    "dimm_ndp": ("trimoe-server",),
    "cxl_ndp": ("h100-cxl-ndp",),
    "ndp": ("trimoe-server", "h100-cxl-ndp"),
    "host": ("desktop-rtx4090", "h100-amx-server"),
    "gpu": ("8x-h100-sxm",),
}
GRID = ((1, 0.0), (1, 2.0), (16, 0.7), (300, 2.0), (4096, 0.0), (4096, 0.7))


def machines(policy: str) -> list[str]:
    """The machines that a policy was made for, from what it needs, and the first and last on which it can run."""
    needs = next(e.needs for e in catalog() if e.id == policy)
    first = next((NATURAL[n] for n in ("dimm_ndp", "cxl_ndp", "ndp", "host", "gpu") if n in needs), ())
    able = CAPABLE[policy]
    return list(dict.fromkeys([*(m for m in first if m in able), able[0], able[-1]]))


def nothing_beats(found: Evaluation) -> float:
    """The bound's share of the step, once floors and bound hold."""
    assert found.decode is not None
    step, report = found.decode.step, bound(found)
    assert report is not None
    where = (found.policy.id, found.ctx.machine.figures.system.id, found.ctx.scenario.workload.batch)
    assert 0 < report.step_s <= step.total_s * (1 + 1e-9), where
    assert step.byte_floor_s <= step.total_s * (1 + 1e-9), where
    assert step.flop_floor_s <= step.total_s * (1 + 1e-9), where
    return report.share


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_beats_floors_and_bound(policy: str) -> None:
    fitted = 0
    for number, machine in enumerate(machines(policy)):
        for batch, sigma in GRID[number % 2 :: 2] if number else GRID:
            found = evaluate(
                scenario(
                    model__id=MODEL,
                    system__id=machine,
                    workload__batch=batch,
                    workload__prompt_tokens=64,
                    workload__output_tokens=16,
                    routing__sigma=sigma,
                    routing__steps=8,
                    policy__id=policy,
                )
            )
            if found.fits:
                fitted += 1
                nothing_beats(found)
    assert fitted >= 4


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_nothing_beats_the_bound_whatever_the_options(data: st.DataObject) -> None:
    """On a machine without fixed times, where plans come close to the bound."""
    policy = data.draw(st.sampled_from(POLICIES))
    able = [m for m in machines(policy) if m != "8x-h100-sxm"] or machines(policy)
    link = data.draw(st.sampled_from((1e9, 1e11)))
    chosen: dict[str, Any] = {"gpu_experts_per_layer": data.draw(st.sampled_from((None, 0, 3, 8)))}
    if data.draw(st.booleans()):
        chosen["micro_batches"] = 3
    made = tiny(
        policy,
        data.draw(options_of(policy)),
        batch=data.draw(st.sampled_from((1, 2, 5, 64))),
        system=data.draw(st.sampled_from(able)),
        over={"pcie.bandwidth_bytes_per_s": link, "pcie.host_bandwidth_bytes_per_s": link},
        **chosen,
    )
    few = made.model_copy(update={"routing": made.routing.model_copy(update={"steps": 8})})
    try:
        found = evaluate(few)
    except PlanError:
        return  # options that contradict each other
    if found.fits:
        nothing_beats(found)


def test_a_policy_that_skips_is_held_to_what_it_computes() -> None:
    """HOBBIT with both thresholds at 0 computes one of a token's four experts: a quarter of the work."""
    made = tiny("hobbit", {"t1": 0.0, "t2": 0.0}, config={"num_experts_per_tok": 4}, weight_bits=8.0)
    found = evaluate(made)
    assert found.decode is not None and found.routing is not None and found.placed is not None
    work = computed_work(found)
    assert work.share == 0.25 and work.exchanged == 0.0
    assert "75.0% of the token-expert pairs" in work.sentence and "output changes" in work.sentence
    report = bound(found)
    assert report is not None and report.computed_share == 0.25 and "skipped" in report.sentence
    nothing_beats(found)
    # Counted as routed, the same plan would beat its bound: the work is what makes the difference.
    least, bits = float(found.placed.stored.bytes.min()), float(found.placed.stored.bits.min())
    routed = found.routing.counts[-len(work.counts) :]
    whole = lower_bound_s(found.ctx, routed, least, bits)[0]
    assert whole > found.decode.step.total_s >= report.step_s


def test_a_policy_that_exchanges_experts_says_so() -> None:
    found = evaluate(tiny("daop", {"first_predicted_layer": 1}, gpu_experts_per_layer=3))
    work = computed_work(found)
    assert found.routing is not None
    changed = np.abs(work.counts.astype(int) - found.routing.counts).sum() / 2
    assert work.share == 1.0 and work.exchanged == changed / found.routing.counts.sum() > 0
    report = bound(found)
    assert report is not None and report.exchanged_share == work.exchanged and "other experts" in report.sentence


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_computed_as_routed_is_not_labelled(policy: str) -> None:
    whole: dict[str, dict[str, Any]] = {"hobbit": {"t2": 1.0}, "daop": {"degradation": False}}
    found = evaluate(tiny(policy, whole.get(policy), batch=3, system=machines(policy)[0]))
    assert computed_work(found).as_routed
    report = bound(found)
    assert report is not None and "output" not in report.sentence
    told = plan(found.ctx.scenario, with_ranges=False, with_marginals=False).details
    assert told is None or "Not as routed" not in dict(told.facts)


def test_the_label_is_in_the_facts() -> None:
    result = plan(tiny("hobbit", {"t1": 0.0, "t2": 0.5}), with_ranges=False, with_marginals=False)
    assert result.details is not None and "skipped" in dict(result.details.facts)["Not as routed"]


def test_several_passes_merge_into_one_step_of_the_batch() -> None:
    counts = np.array([[[1, 0, 2]], [[0, 3, 0]], [[1, 1, 1]]])
    assert bound_module._merged(counts, 2.0).tolist() == [[[1, 3, 2]]]
    assert bound_module._merged(counts, 6.0).tolist() == [[[4, 8, 6]]]
