"""The futures of TriMoE together: off is off, nothing beats floors and bound, mixtures work, the simulation refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner import plan
from planner.bound import bound
from planner.errors import PlanError
from planner.evaluate import Evaluation, evaluate
from planner.layout.simulation import simulate
from planner.policies import get
from planner.policies.trimoe_futures import OPTIONS, SWITCHES
from planner.scenario import Scenario
from tests.engine.engine_laws import step_laws
from tests.engine.engine_scenarios import scenario

MODEL = "Qwen/Qwen3-30B-A3B"
# Two sockets, a CXL device and storage beside the machine of the paper: every switch can be set.
ALL: dict[str, float] = {
    "cpu.sockets": 2,
    "cxl.count": 1,
    "cpu.socket_link_bandwidth_bytes_per_s": 5e10,
    "storage.read_bandwidth_bytes_per_s": 1e10,
}
ON: dict[str, dict[str, Any]] = {
    "cxl": {"cold_units": "dimm+cxl"},
    "fp8": {"warm_format": "fp8-block"},
    "bf16": {"warm_format": "bf16"},
    "interleaved": {"numa": "interleaved"},
    "placed": {"numa": "placed"},
    "spare": {"ndp_failure": "hot-spare"},
    "during": {"ndp_failure": "re-homing", "failure_state": "during"},
    "after": {"ndp_failure": "re-homing", "failure_state": "after", "rebuild_from": "copy"},
}


def made(batch: int = 64, **options: Any) -> Scenario:
    return scenario(
        model__id=MODEL,
        system__id="trimoe-server",
        system__overrides=ALL,
        workload__batch=batch,
        routing__steps=3,
        policy__id="trimoe",
        policy__options=options,
    )


def holds(found: Evaluation) -> float:
    """Floors, identities and the bound; the step."""
    assert found.fits and found.decode is not None, found.reasons
    step_laws(found.decode.step)
    report = bound(found)
    assert report is not None and 0 < report.step_s <= found.decode.step.total_s * (1 + 1e-9)
    return found.decode.step.total_s


def test_named_defaults_are_the_published_machine() -> None:
    named = evaluate(made(**{o.name: o.default for o in OPTIONS}))
    plain = evaluate(made())
    assert named.decode is not None and plain.decode is not None
    assert named.decode.step == plain.decode.step
    assert type(named.placed) is type(plain.placed)
    told = plan(made(), with_ranges=False, with_marginals=False)
    assert told.details is not None and told.details.failure is None and not told.details.facts


@pytest.mark.parametrize("name", list(ON))
@pytest.mark.parametrize("batch", [1, 256])
def test_nothing_beats_floors_and_bound_and_each_switch_is_seen(name: str, batch: int) -> None:
    plain, switched = evaluate(made(batch)), evaluate(made(batch, **ON[name]))
    assert plain.decode is not None
    before, after = holds(plain), holds(switched)
    if name == "bf16":  # the format that it has already
        assert after == before
    elif batch > 1:
        assert after != before


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["dimm", "dimm+cxl"]),
    st.sampled_from(["as-stored", "fp8-block"]),
    st.sampled_from(["fitted", "interleaved", "placed"]),
    st.sampled_from(["none", "hot-spare", "re-homing"]),
    st.sampled_from(["before", "during", "after"]),
    st.sampled_from(["dimm", "copy"]),
    st.sampled_from(["published", "greedy"]),
    st.sampled_from(["padded", "scaled"]),
)
def test_all_switches_go_together(
    cold: str, warm: str, numa: str, failing: str, state: str, source: str, schedule: str, mapping: str
) -> None:
    found = evaluate(
        made(
            cold_units=cold,
            warm_format=warm,
            numa=numa,
            ndp_failure=failing,
            failure_state=state,
            rebuild_from=source,
            schedule=schedule,
            ndp_compute=mapping,
            failed_unit=3,
        )
    )
    holds(found)
    assert found.ready is not None and found.placed is not None and found.routing is not None
    told = found.policy.details(found.ctx, found.ready, found.placed, found.routing)
    assert told is not None
    named = {label for label, _ in told.facts}
    expected = {
        "Cold experts": cold != "dimm",
        "Warm experts": warm != "as-stored",
        "Sockets": numa != "fitted",
        "NDP failure": failing != "none",
    }
    assert named == {label for label, on in expected.items() if on}


def test_a_plan_of_all_of_them_is_whole() -> None:
    options = {"cold_units": "dimm+cxl", "warm_format": "fp8-block", "numa": "placed", "ndp_failure": "re-homing"}
    found = plan(made(**options))
    assert found.details is not None
    assert [label for label, _ in found.details.facts] == ["Cold experts", "Warm experts", "Sockets", "NDP failure"]
    report = found.details.failure
    assert report is not None and report.during_s is not None
    assert found.decode is not None and report.before_s == found.decode.total_s
    assert found.details.schedule is not None
    assert found.details.schedule.improved_s <= found.details.schedule.published_s * (1 + 1e-12)
    assert found.headline.intervals
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_a_time_table_of_all_sockets_is_no_time_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.policies.trimoe_futures.time_table", lambda ctx: object())
    with pytest.raises(PlanError, match="holds the times of all sockets together"):
        evaluate(made(numa="placed"))


@pytest.mark.parametrize("option", SWITCHES, ids=lambda o: o.name)
def test_the_simulation_over_steps_refuses_what_it_does_not_know(option: Any) -> None:
    with pytest.raises(PlanError, match=f"policy.options.{option.name} is .* the simulation over steps"):
        simulate(made(**{option.name: option.choices[1]}), 2)


def test_every_option_is_in_the_list_that_page_and_command_line_read() -> None:
    listed = {o.name for o in get("trimoe").options}
    assert {o.name for o in OPTIONS} <= listed
