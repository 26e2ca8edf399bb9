"""Intervals, what moves them, assumptions and marginal values."""

from __future__ import annotations

import dataclasses
import math

import pytest

from hardware import catalog, path_schema
from planner import plan
from planner.evaluate import evaluate
from planner.ranges import ranged, ranges
from planner.result import Result
from planner.scenario import Scenario
from tests.engine.engine_scenarios import changed, named, ordinary, scenario

# Few samples and a small model: what is tested holds for any.
BASE = scenario(
    model__id="deepseek-ai/DeepSeek-V2-Lite",
    system__id="h100-amx-server",
    policy__id="cpu-experts",
    workload__batch=4,
    routing__steps=1,
)


@pytest.fixture(scope="module")
def full() -> Result:
    return plan(BASE)


def test_intervals_contain_their_values_and_cover_every_figure(full: Result) -> None:
    intervals = full.headline.intervals
    assert intervals is not None
    for key, (low, high) in intervals.items():
        value = getattr(full.headline, key)
        assert 0 < low <= value <= high, key
    assert {"ttft_s", "tpot_s", "energy_j_per_output_token", "usd_per_million_output_tokens"} <= set(intervals)
    assert intervals["tpot_s"][0] < intervals["tpot_s"][1]


def test_an_interval_of_a_rate_is_that_of_its_time_turned_round(full: Result) -> None:
    intervals = full.headline.intervals
    assert intervals is not None
    low, high = intervals["tpot_s"]
    assert intervals["tokens_per_s_user"] == pytest.approx((1 / high, 1 / low), rel=1e-9)
    assert intervals["tokens_per_s_system"] == pytest.approx((4 / high, 4 / low), rel=1e-9)


@pytest.mark.parametrize("chosen", [ordinary()[0], ordinary()[6]], ids=named)
def test_intervals_contain_their_values_under_other_policies(chosen: Scenario) -> None:
    few = changed(chosen, routing__steps=1)
    found = evaluate(few)
    spread = ranges(found)
    for key, value in found.figures().items():
        low, high = spread.intervals[key]
        assert low <= value <= high and math.isfinite(high), key


def test_the_moves_combine_as_independent_ones() -> None:
    found = evaluate(BASE)
    spread = ranges(found)
    up = down = 0.0
    for moves in spread.moves.values():
        logs = [math.log1p(change) for change in moves["tpot_s"]]
        up += max(0.0, *logs) ** 2
        down += min(0.0, *logs) ** 2
    value = found.figures()["tpot_s"]
    expected = (value * math.exp(-math.sqrt(down)), value * math.exp(math.sqrt(up)))
    assert spread.intervals["tpot_s"] == pytest.approx(expected, rel=1e-12)


def test_a_wider_range_of_an_input_widens_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluate(BASE)
    path = "dram.read_efficiency"
    low, high = ranged(found)[path]
    narrow = ranges(found).intervals["tpot_s"]
    system = found.ctx.machine.figures.system
    figure = system.figures[path]
    assert figure.value is not None
    wider = dataclasses.replace(figure, low=low * 0.7, high=min(1.0, high * 1.1))
    figures = {**system.figures, path: wider}
    monkeypatch.setattr(found.ctx.machine.figures, "system", dataclasses.replace(system, figures=figures))
    wide = ranges(found).intervals["tpot_s"]
    assert wide[0] < narrow[0] <= narrow[1] < wide[1]


def _from_inputs(result: Result) -> tuple[float, float]:
    """Interval of TPOT from the ranges of the inputs alone, s."""
    assert result.accuracy is not None
    [part] = [part for part in result.accuracy.parts if part.key == "tpot_s"]
    assert part.inputs is not None
    return part.inputs


def test_a_figure_that_the_user_set_is_taken_as_exact(full: Result) -> None:
    path = "dram.read_efficiency"
    value = evaluate(BASE).ctx.machine.figures.system.value(path)
    edited = changed(BASE, system__overrides={path: value})
    found = evaluate(edited)
    assert path in ranged(evaluate(BASE)) and path not in ranged(found)
    result = plan(edited)
    assert result.headline.tpot_s == full.headline.tpot_s
    before, after = _from_inputs(full), _from_inputs(result)
    assert after[1] - after[0] < before[1] - before[0]
    listed = next(a for a in result.assumptions if a.path == f"system.overrides.{path}")
    assert listed.edited and (listed.low, listed.high) == (None, None)
    assert listed.moves_tpot in (None, (0.0, 0.0))
    assert result.assumptions[0].edited  # the user's own edits come first
    assert result.system.edited == (path,)


def test_a_figure_that_a_paper_system_states_keeps_its_own_range() -> None:
    """307.2 GB/s of TriMoE's server follow from nothing else, and were measured as 260 elsewhere."""
    found = evaluate(scenario(system__id="trimoe-server", policy__id="trimoe", workload__batch=4), quick=True)
    chosen = ranged(found)
    assert chosen["dram.bandwidth_bytes_per_s"] == (260e9, 307.2e9)
    assert chosen["ndp.internal_bandwidth_bytes_per_s"] == (76.8e9, 153.6e9)


def test_what_a_figure_follows_from_is_varied_instead_of_it() -> None:
    found = evaluate(BASE, quick=True)
    chosen = ranged(found)
    system = found.ctx.machine.figures.system
    assert all(system.figures[path].kind != "derived" for path in chosen)


def test_prices_move_money_and_not_time(full: Result) -> None:
    money = [a for a in full.assumptions if a.path.endswith("price_usd")]
    assert money
    for assumption in money:
        assert assumption.moves_tpot == (0.0, 0.0)
        assert assumption.moves_cost is not None
        low, high = assumption.moves_cost
        assert low <= 0 <= high and low < high


def test_every_assumption_has_a_source_and_says_what_it_is(full: Result) -> None:
    assert len({a.path for a in full.assumptions}) == len(full.assumptions)
    known = {f"system.overrides.{spec.path}" for spec in path_schema()}
    for assumption in full.assumptions:
        assert assumption.label and assumption.source and assumption.kind
        assert assumption.path in known or not assumption.path.startswith("system.")
    assert "routing.sigma" in {a.path for a in full.assumptions}
    plain = plan(changed(BASE, routing__source="uniform"), with_marginals=False)
    assert "routing.sigma" not in {a.path for a in plain.assumptions}


def test_marginal_values_have_the_right_sign(full: Result) -> None:
    """One more unit of anything that this plan uses never slows it, and of what bounds it speeds it up."""
    by_path = {m.resource: m for m in full.marginals}
    assert set(by_path) <= {spec.path for spec in path_schema()}
    for marginal in full.marginals:
        assert marginal.tpot_change <= 1e-12, marginal
        assert marginal.tokens_per_s_system_change >= -1e-12
        assert (1 + marginal.tpot_change) * (1 + marginal.tokens_per_s_system_change) == pytest.approx(1.0, rel=1e-9)
    assert full.headline.bound_by == "dram"
    assert by_path["dram.bandwidth_bytes_per_s"].tpot_change < -0.01
    assert list(full.marginals) == sorted(full.marginals, key=lambda m: m.tpot_change)


def test_figures_of_parts_that_are_not_there_are_no_assumptions(full: Result) -> None:
    assert not [a.path for a in full.assumptions if ".ndp." in a.path or ".cxl." in a.path]
    assert len(catalog.bills()) > 0
