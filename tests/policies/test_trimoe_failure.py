"""An NDP unit that fails: homes, steps before, during and after, and the rebuild, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner import plan
from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.policies.trimoe_failure import rehomed
from planner.result import FailureReport
from tests.engine.engine_scenarios import scenario
from tests.engine.engine_tiny import EXPERT_BYTES, EXPERTS, LAYERS, tiny
from tests.policies.trimoe_hand import (
    CHANNEL,
    DIMMS,
    HOST,
    MACHINE,
    PCIE,
    RANKS,
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

BATCH = 6


def ways(home: np.ndarray, *, units: int, host: float, channel: float, rank: float, inside: float, dead: int = -1,
         dead_rate: float = 0.0, channels: int = 4) -> Ways:  # fmt: skip
    """Equations 1 to 4 where units, rates and one dead unit differ; nothing is resident in HBM."""
    from tests.engine.engine_tiny import Hand

    def of(tokens: int, layer: int, expert: int) -> tuple[Way, Way, Way]:
        at = int(home[layer, expert])
        rate = host if at < 0 else dead_rate if at == dead else channel
        by = [("host", 1 / host)]
        by += [(f"dimm {d}", 1 / rank / (units if at < 0 else 1)) for d in range(units) if at in (-1, d)]
        gpu = max(Hand(BATCH).expert(tokens), EXPERT_BYTES / PCIE, EXPERT_BYTES / rate)
        cpu = max(cpu_compute(tokens), EXPERT_BYTES / rate)
        near = impossible() if at < 0 or at == dead else Way(f"dimm {at}", near_s(tokens, inside=inside))
        return Way("gpu", gpu, EXPERT_BYTES, tuple(by)), Way("cpu", cpu, EXPERT_BYTES, tuple(by)), near

    return of


def report(over: dict[str, float] | None = None, **options: object) -> FailureReport:
    made = tiny(
        "trimoe-server",
        {**MACHINE, **(over or {})},
        BATCH,
        policy__id="trimoe",
        policy__gpu_experts_per_layer=0,
        policy__options={"schedule": "greedy", **options},
    )
    found = plan(made, with_ranges=False, with_marginals=False)
    assert found.details is not None and found.details.failure is not None
    return found.details.failure


def test_experts_of_the_failed_unit_go_to_the_least_loaded_one_by_one() -> None:
    """Unit 0 has 5 and 2; unit 1 has 3, unit 2 has 4. The 5 goes to unit 1 (then 8), the 2 to unit 2."""
    home = np.array([[0, 0, 1, 2, -1]], np.int16)
    seconds = np.array([[2.0, 5.0, 3.0, 4.0, 9.0]])
    assert rehomed(home, seconds, 0, 3).tolist() == [[2, 1, 1, 2, -1]]
    assert rehomed(home, seconds, 1, 3).tolist() == [[0, 0, 2, 2, -1]]


def test_after_re_homing_the_step_is_that_of_the_other_units() -> None:
    found = trimoe(BATCH, MACHINE, ndp_failure="re-homing", failure_state="after", failed_unit=1)
    home = future(found).home
    assert not (home == 1).any() and (home >= 0).any()
    plain = ways(home, units=DIMMS, host=HOST, channel=CHANNEL, rank=RANKS, inside=8e9)
    assert step_s(found) == pytest.approx(greedy_step(found, BATCH, plain), rel=1e-12)


def test_during_rebuild_the_dead_units_experts_are_read_beside_it() -> None:
    """Rebuild takes half of the dead DIMM's channel, 2 GB/s: twice that of the host channels (read and written), and
    a third of it from the ranks of each of the three other units."""
    found = trimoe(BATCH, MACHINE, ndp_failure="re-homing", failure_state="during", failed_unit=0)
    placed = future(found)
    assert placed.dead == 0 and (placed.home == 0).any()
    rate = 0.5 * CHANNEL
    host = HOST - 2 * rate
    free = 1 - rate / 3 / RANKS
    during = ways(
        placed.home, units=DIMMS, host=host, channel=host / 4, rank=RANKS * free, inside=8e9 * free, dead=0,
        dead_rate=CHANNEL - rate,
    )  # fmt: skip
    # The hand-over crosses the channels that rebuild leaves; at this batch PCIE is the narrower.
    assert min(PCIE, host / 2) == PCIE
    assert step_s(found) == pytest.approx(greedy_step(found, BATCH, during), rel=1e-12)


def test_a_lost_dimm_takes_its_channel_and_its_stripes() -> None:
    found = trimoe(BATCH, MACHINE, ndp_failure="re-homing", failure_state="after", rebuild_from="copy")
    home = future(found).home
    assert 0 <= home.max() <= DIMMS - 2
    host = HOST * 3 / 4
    lost = ways(home, units=DIMMS - 1, host=host, channel=host / 3, rank=RANKS, inside=8e9)
    assert step_s(found) == pytest.approx(greedy_step(found, BATCH, lost), rel=1e-12)


def test_a_hot_spare_idles_before_and_replaces_after() -> None:
    before = trimoe(BATCH, MACHINE, ndp_failure="hot-spare")
    after = trimoe(BATCH, MACHINE, ndp_failure="hot-spare", failure_state="after")
    assert 0 <= future(before).home.max() <= DIMMS - 2
    assert not (future(after).home == 0).any() and (future(after).home == DIMMS - 1).any()
    assert step_s(after) == step_s(before)
    plain = ways(future(before).home, units=DIMMS, host=HOST, channel=CHANNEL, rank=RANKS, inside=8e9)
    assert step_s(before) == pytest.approx(greedy_step(before, BATCH, plain), rel=1e-12)


@pytest.mark.parametrize("response", ["hot-spare", "re-homing"])
def test_the_report_has_all_three_states_whatever_the_plan_shows(response: str) -> None:
    shown = {s: report(ndp_failure=response, failure_state=s) for s in ("before", "during", "after")}
    assert shown["before"] == shown["during"] == shown["after"]
    found = shown["before"]
    assert found.before_s == step_s(trimoe(BATCH, MACHINE, ndp_failure=response))
    assert found.during_s == step_s(trimoe(BATCH, MACHINE, ndp_failure=response, failure_state="during"))
    assert found.after_s == step_s(trimoe(BATCH, MACHINE, ndp_failure=response, failure_state="after"))
    assert found.experts > 0
    assert found.bytes == found.experts * EXPERT_BYTES
    assert found.bytes_per_s == 0.5 * CHANNEL
    assert found.recover_s == pytest.approx(found.experts * EXPERT_BYTES / (0.5 * CHANNEL))


def test_rebuild_from_a_copy_or_from_storage() -> None:
    """The memory is lost too: a quarter of what is striped must come back with what lay there. A copy is read from the
    three channels left, and written to the spare's; storage is slower than either."""
    before = future(trimoe(BATCH, MACHINE, ndp_failure="hot-spare")).home
    lost = (before == 0).sum() * EXPERT_BYTES + (before < 0).sum() * EXPERT_BYTES / DIMMS
    copy = report(ndp_failure="hot-spare", rebuild_from="copy", rebuild_share=0.25)
    assert copy.bytes == pytest.approx(lost)
    assert copy.bytes_per_s == pytest.approx(0.25 * CHANNEL)
    over = {"storage.read_bandwidth_bytes_per_s": 1e9}
    slow = report(over, ndp_failure="hot-spare", rebuild_from="storage")
    assert slow.during_s is None
    assert slow.recover_s == pytest.approx(lost / 1e9)


def test_a_larger_share_for_rebuild_recovers_sooner_and_decodes_slower() -> None:
    little = report(ndp_failure="re-homing", rebuild_share=0.1)
    much = report(ndp_failure="re-homing", rebuild_share=0.8)
    assert much.recover_s < little.recover_s
    assert little.during_s is not None and much.during_s is not None
    assert much.during_s >= little.during_s
    assert much.after_s == little.after_s


def test_what_a_failure_needs_is_kept_in_memory() -> None:
    def items(**options: object) -> dict[str, float]:
        found = trimoe(BATCH, MACHINE, **options)
        assert found.ready is not None
        return {name: total for name, (total, _) in found.ready.ledger[1].items.items()}

    assert "room for a failed unit" not in items()
    # Three units work beside a spare, so one of them has at most ceil(4 / 3) = 2 experts of each layer.
    assert items(ndp_failure="hot-spare")["room for a failed unit"] == 2 * LAYERS * EXPERT_BYTES
    copied = items(ndp_failure="re-homing", rebuild_from="copy")
    assert copied["second copies of experts"] == EXPERTS * LAYERS * EXPERT_BYTES


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ndp_failure": "hot-spare", "failed_unit": 15}, "it takes 0 to 14"),
        ({"ndp_failure": "re-homing", "failed_unit": 16}, "it takes 0 to 15"),
        ({"ndp_failure": "re-homing", "rebuild_from": "storage"}, "storage.read_bandwidth_bytes_per_s is missing"),
        ({"ndp_failure": "re-homing", "rebuild_share": 1.0}, "from 0.01 to 0.9"),
        ({"ndp_failure": "both"}, "none, hot-spare, re-homing"),
    ],
)
def test_impossible_failures_are_refused_in_a_sentence(options: dict[str, object], words: str) -> None:
    made = scenario(system__id="trimoe-server", policy__id="trimoe", policy__options=options)
    with pytest.raises(PlanError, match=words):
        evaluate(made)


def test_no_step_runs_while_storage_reloads() -> None:
    over = {"storage.read_bandwidth_bytes_per_s": 1e10}
    options = {"ndp_failure": "re-homing", "rebuild_from": "storage", "failure_state": "during"}
    made = scenario(system__id="trimoe-server", system__overrides=over, policy__id="trimoe", policy__options=options)
    with pytest.raises(PlanError, match="no step runs while experts reload"):
        evaluate(made)
