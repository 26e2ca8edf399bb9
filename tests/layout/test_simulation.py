"""The simulation over steps: against the plan, against sampling noise, mechanism by mechanism."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.layout import Simulation, SimulationOptions, ablation, loads, simulate
from planner.layout.predictor import next_average, prediction_error
from planner.layout.simulation import Run, prepare
from planner.layout.state import begin
from planner.routing import Sequence
from planner.scenario import ModelChoice, PolicyChoice, RoutingChoice, Scenario, SystemChoice, Workload

STILL = {"prefetch": False, "relayout": False, "rebalance": False}
STEPS = 24


def scenario(
    options: dict[str, bool | int | float | str] | None = None,
    routing: RoutingChoice | None = None,
    overrides: dict[str, float] | None = None,
    policy: dict[str, object] | None = None,
    **workload: object,
) -> Scenario:
    load = {"batch": 64, "prompt_tokens": 200, "output_tokens": 100, **workload}
    return Scenario(
        model=ModelChoice(id="deepseek-ai/DeepSeek-V2-Lite"),
        system=SystemChoice(id="trimoe-server", overrides=overrides or {}),
        workload=Workload(**load),  # type: ignore[arg-type]
        routing=routing or RoutingChoice(sigma=1.0, sigma_request=0, sigma_phase=0),
        policy=PolicyChoice(id="trimoe", options=options or {}, **{"gpu_experts_per_layer": 4, **(policy or {})}),  # type: ignore[arg-type]
    )


def of(counts: np.ndarray) -> Sequence:
    return Sequence(counts, np.zeros(counts.shape[0], np.int32), int(counts[0, 0].sum()), "given", None, None, None)


@pytest.fixture(scope="module")
def moving() -> tuple[Scenario, Sequence]:
    chosen = scenario({"start": "layout"})
    return chosen, loads(chosen, 60, SimulationOptions(drift_share=0.4))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"options": {"start": "layout"}},
        {"options": {"start": "layout", "whole_dimm_exclusion": True, "ndp_compute": "padded"}},
        {"policy": {"kv_location": "host"}},
        {"policy": {"kv_location": "host", "attention_device": "gpu"}},
        {"policy": {"weight_bits": 4.5}},
        {"policy": {"micro_batches": 2}},
        {"draft_tokens": 2},
        {"overrides": {"gpu.count_per_node": 2}},
    ],
    ids=str,
)
def test_with_all_background_work_off_the_steps_are_those_of_the_plan(change) -> None:
    chosen = scenario(**change)
    found = evaluate(chosen)
    assert found.decode is not None
    assert found.routing is not None
    simulated = simulate(chosen, options=SimulationOptions(**STILL), sequence=of(found.routing.counts.copy()))
    np.testing.assert_allclose(simulated.series.step_s, found.decode.total_s.mean(axis=0), rtol=1e-9)
    assert simulated.mean_step_s == pytest.approx(found.decode.step.total_s, rel=1e-9)
    assert simulated.utilisation.cpu * simulated.mean_step_s == pytest.approx(found.decode.cpu_busy_s, rel=1e-9)
    assert simulated.utilisation.gpu * simulated.mean_step_s == pytest.approx(found.decode.gpu_busy_s, rel=1e-9)
    busiest = (
        np.mean(simulated.series.ndp_max_s)
        * simulated.mean_step_s
        / np.mean(np.array(simulated.series.experts_s) + simulated.fixed_s)
    )
    assert busiest == pytest.approx(found.decode.ndp_busy_s, rel=1e-9)
    assert sum(simulated.bytes_per_step.values()) == 0
    assert simulated.decision_accuracy is None


def test_without_drift_the_prediction_error_is_the_sampling_noise_of_the_average() -> None:
    chosen = scenario(batch=512)
    sequence = loads(chosen, 150, SimulationOptions(drift_share=0.0))
    late = sequence.counts[50:].astype(float)
    around_mean = np.abs(late - late.mean(axis=0)).sum(axis=2) / late.sum(axis=2)
    for alpha in (0.1, 0.3, 0.9):
        found = simulate(chosen, options=SimulationOptions(alpha=alpha, **STILL), sequence=sequence)
        # variance of an EMA of independent draws: alpha / (2 - alpha) of one draw, added to that of the step itself
        noise = around_mean.mean() * np.sqrt(1 + alpha / (2 - alpha))
        assert np.mean(found.series.prediction_error[50:]) == pytest.approx(noise, rel=0.03)
    drifting = loads(chosen, 150, SimulationOptions(drift_share=0.8, step_correlation=0.8))
    worse = simulate(chosen, options=SimulationOptions(**STILL), sequence=drifting)
    assert np.mean(worse.series.prediction_error[50:]) > 2 * noise


def test_prediction_and_its_error_by_hand() -> None:
    assert next_average(np.array([[10.0, 0.0]]), np.array([[0, 10]]), 0.3).tolist() == [[7.0, 3.0]]
    assert prediction_error(np.array([[7.0, 3.0], [5, 5]]), np.array([[0, 10], [5, 5]])) == pytest.approx(0.7)
    assert prediction_error(np.array([[10.0, 0]]), np.array([[0, 10]])) == 2


def test_moving_experts_with_the_load_makes_steps_faster_and_its_cost_is_counted(moving) -> None:
    chosen, sequence = moving
    still = simulate(chosen, options=SimulationOptions(**STILL), sequence=sequence)
    found = simulate(chosen, options=SimulationOptions(), sequence=sequence)
    assert found.mean_step_s < still.mean_step_s
    assert found.tokens_per_s == pytest.approx(64 / found.mean_step_s)
    assert all(value > 0 for value in found.bytes_per_step.values())
    assert 0.4 < (found.decision_accuracy or 0) <= 1
    assert found.hidden_s <= found.window_s
    assert 0 < found.exposed_share < 0.2
    series = found.series
    assert sum(series.decisions) == found.decisions
    assert series.tasks_done[0] == series.decisions[0] == 0, "the first step finds the layout of the plan"
    assert len(series.step_s) == 60
    for name in ("gpu", "cpu", "ndp", "pcie", "mean"):
        assert 0 < getattr(found.utilisation, name) <= 1, name
    assert found.utilisation.gpu_working <= found.utilisation.gpu
    longest = np.max([series.gpu_s, series.cpu_s, series.ndp_mean_s, series.host_s], axis=0)
    assert (np.array(series.experts_s) >= longest * (1 - 1e-12)).all()


def test_each_mechanism_moves_only_its_own_bytes(moving) -> None:
    chosen, sequence = moving
    for name in STILL:
        found = simulate(chosen, options=SimulationOptions(**{**STILL, name: True}), sequence=sequence)
        assert {kind for kind, value in found.bytes_per_step.items() if value > 0} == {name}


def test_the_layout_stays_whole_and_within_its_memory(moving) -> None:
    chosen, sequence = moving
    setting = prepare(chosen, SimulationOptions())
    run = Run(setting, sequence)
    state, sizes = run.state, setting.sizes
    assert (state.resident.sum(axis=1) <= sizes.slots).all()
    assert (state.home != setting.placed.home).any()
    assert (begin(state.resident, state.home, sizes).held <= sizes.dimm_bytes * (1 + 1e-9)).all()
    assert (state.held <= sizes.dimm_bytes * (1 + 1e-9)).all()


def test_the_same_loads_give_the_same_simulation(moving) -> None:
    chosen, sequence = moving
    first, again = (simulate(chosen, options=SimulationOptions(), sequence=sequence) for _ in range(2))
    assert first == again
    assert Simulation.model_validate_json(first.model_dump_json()) == first


def test_a_shorter_shadow_leaves_more_transfers_late_or_lengthens_the_step(moving) -> None:
    chosen, sequence = moving
    wide = simulate(chosen, options=SimulationOptions(window_s=1e-3), sequence=sequence)
    narrow = simulate(chosen, options=SimulationOptions(window_s=1e-6), sequence=sequence)
    none = simulate(chosen, options=SimulationOptions(window_s=0), sequence=sequence)
    charged = simulate(chosen, options=SimulationOptions(window_s=1e-6, late="charge"), sequence=sequence)
    assert narrow.tasks_late_mean > wide.tasks_late_mean
    assert narrow.window_s == pytest.approx(26e-6)
    assert narrow.hidden_s <= narrow.window_s * (1 + 1e-9)
    assert sum(none.bytes_per_step.values()) == 0
    assert charged.tasks_late_mean == 0
    assert charged.exposed_share > 2 * wide.exposed_share


def test_a_chain_of_dimms_carries_less_than_direct_links(moving) -> None:
    chosen, sequence = moving
    direct, chain = (
        simulate(chosen, options=SimulationOptions(window_s=2e-5, links=links), sequence=sequence)
        for links in ("direct", "chain")
    )
    assert chain.bytes_per_step["relayout"] + chain.bytes_per_step["rebalance"] < (
        direct.bytes_per_step["relayout"] + direct.bytes_per_step["rebalance"]
    )


def test_a_domain_that_is_switched_off_computes_nothing(moving) -> None:
    chosen, sequence = moving
    no_cpu = simulate(chosen, options=SimulationOptions(cpu=False), sequence=sequence)
    no_ndp = simulate(chosen, options=SimulationOptions(ndp=False), sequence=sequence)
    both = simulate(chosen, options=SimulationOptions(), sequence=sequence)
    assert max(no_cpu.series.cpu_s) == 0
    assert no_cpu.bytes_per_step["relayout"] == no_ndp.bytes_per_step["relayout"] == 0
    assert both.mean_step_s < min(no_cpu.mean_step_s, no_ndp.mean_step_s)
    shares = {c.name: c.expert_share for c in no_ndp.classes if c.supported}
    assert shares["cold (DIMM)"] == 0
    assert shares["warm (CPU)"] > 0


def test_better_schedules_are_never_slower(moving) -> None:
    chosen, sequence = moving
    short = of(sequence.counts[:4].copy())
    first, refined, improved = (
        simulate(chosen, options=SimulationOptions(schedule=name, **STILL), sequence=short).mean_step_s
        for name in ("greedy", "published", "improved")
    )
    assert first > refined >= improved * (1 - 1e-12)


def test_the_ablation_adds_one_mechanism_after_another(moving) -> None:
    chosen, _ = moving
    rows = ablation(chosen, STEPS)
    assert [row.name for row in rows] == ["GPU + NDP", "+ AMX CPU", "+ refinement", "+ relayout"]
    assert [row.published for row in rows] == [None, 1.75, 1.28, 1.16]
    for before, row in itertools.pairwise(rows):
        assert row.ratio == pytest.approx(row.tokens_per_s / before.tokens_per_s)
    full = simulate(chosen, STEPS)
    assert rows[-1].mean_step_s == pytest.approx(full.mean_step_s, rel=1e-12)
    more = ablation(chosen, STEPS, hot_share=0.5)
    assert more[0].mean_step_s != rows[0].mean_step_s
    assert "0.5 of the active ones" in more[0].what
    # what the scenario's own option says does not take refinement out of the row that adds it
    assert ablation(scenario({"start": "layout", "schedule": "greedy"}), STEPS)[2].ratio == rows[2].ratio


def test_a_trace_is_simulated_in_its_own_order() -> None:
    chosen = scenario(routing=RoutingChoice(source="trace", trace="deepseek-v2-lite-summary"), batch=8)
    found = simulate(chosen, 30)
    assert "second halves" in found.source
    assert found.mean_step_s > 0
    assert 0 < found.prediction_error < 2


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(PlanError, match=r"policy\.id is 'all-gpu'; a simulation over steps needs 'trimoe'"):
        simulate(Scenario())
    with pytest.raises(PlanError, match="cpu and ndp are both off"):
        simulate(scenario(), options=SimulationOptions(cpu=False, ndp=False))
    with pytest.raises(PlanError, match="does not fit, so its steps cannot be simulated: "):
        simulate(scenario(policy={"gpu_experts_per_layer": 64}, batch=4096, prompt_tokens=20_000))
    with pytest.raises(PlanError, match="needs NDP DIMMs"):
        simulate(scenario().model_copy(update={"system": SystemChoice(id="2x-h100-sxm")}))
    with pytest.raises(PlanError, match="layers and experts"):
        simulate(scenario(), sequence=of(np.ones((1, 2, 3), np.int32)))


def test_the_command_prints_a_summary_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    from planner.cli.main import main

    flags = [
        "simulate", "--model", "deepseek-ai/DeepSeek-V2-Lite", "--system", "trimoe-server", "--policy", "trimoe",
        "--batch", "16", "--steps", "12", "--set", "policy.gpu_experts_per_layer=4",
    ]  # fmt: skip
    assert main([*flags, "--ablation", "--set", "simulation.alpha=0.5"]) == 0
    text = capsys.readouterr().out
    for word in ("tokens/s of the system", "hidden in", "Classes by", "+ refinement", "1.28"):
        assert word in text
    assert main([*flags, "--json", "--set", "simulation.prefetch=off"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["options"]["prefetch"] is False
    assert found["steps"] == 12
    assert main([*flags, "--ablation", "--json", "--hot-share", "0.1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["ablation"]) == 4
    assert found["simulation"]["steps"] == 12
    for bad, sentence in (
        (["--set", "simulation.alpha=2"], "simulation.alpha is 2; it should be less than or equal to 1"),
        (["--set", "simulation.alhpa=1"], 'There is no option "simulation.alhpa"; the nearest is simulation.alpha.'),
        (["--set", "simulation.late=never"], "simulation.late is \"never\"; it should be 'wait' or 'charge'"),
        (["--steps", "0"], "--steps is \"0\"; it takes a whole number from 1 to 4,096."),
        (["--hot-share", "x"], "--hot-share is \"x\"; it takes a share above 0"),
        (["--policy", "all-gpu"], "policy.id is 'all-gpu'; a simulation over steps needs 'trimoe'."),
    ):  # fmt: skip
        assert main([*flags, *bad]) == 2
        output = capsys.readouterr()
        assert sentence in output.err
        assert output.out == ""
