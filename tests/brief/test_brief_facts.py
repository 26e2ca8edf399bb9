"""The facts of a brief are those of the plan: nothing is computed a second time, and nothing is left out."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.brief import Brief, brief, reproduce, turns
from planner.brief.command import settings as settings_of
from planner.brief.frontier import batches
from planner.brief.options import OBJECTIVE, comparable, quick
from planner.cli.plan import build, scenario_parser
from planner.difference import flat
from planner.fields import set_path, set_paths
from planner.scenario import Scenario
from planner.sensitivities import flip_points
from tests.brief import brief_cases as cases
from tests.compare.compare_cases import BASE, MANY


def test_figures_are_the_results_own() -> None:
    found, result = cases.hostile(), cases.result_of(cases.TARGETS)
    assert found.headline == result.headline
    assert (found.energy, found.cost, found.capacity) == (result.energy, result.cost, result.capacity)
    assert sorted(a.path for a in found.assumptions) == sorted(a.path for a in result.assumptions)
    assert found.assumptions[0].edited and found.assumptions[0].value == 21_000
    assert result.cost is not None
    assert sum(line.total_usd for line in found.bill) == pytest.approx(result.cost.capex_usd)
    assert sum(line.count * line.unit_price_usd for line in found.bill) == pytest.approx(result.cost.capex_usd)
    assert Brief.model_validate_json(found.model_dump_json()) == found


def test_targets_are_judged_and_decided_on() -> None:
    found = cases.hostile()
    met = {target.key: target.met for target in found.targets}
    assert met == {"ttft_s": False, "tpot_s": True}
    assert found.decision.startswith("Not as asked") and "TTFT" in found.decision
    assert any("must fall by" in turn for turn in found.turns)
    fine = brief(set_paths(cases.TARGETS, {"workload.slo_ttft_s": 60}), planned=quick, with_flips=False)
    assert fine.decision.startswith("Run ") or "is the option to take" in fine.decision


def test_options_are_plans_and_the_cheapest_able_one_is_recommended() -> None:
    found = cases.rented()
    assert 2 <= len(found.options) <= 3
    assert sum(one.is_this for one in found.options) == 1
    able = []
    for one in found.options:
        head = quick(one.scenario).headline
        assert {key: getattr(head, key) for key in one.figures} == one.figures
        own = next(other for other in found.options if other.is_this)
        if one.fits and one.as_routed and (one.expert_bits or 0) >= (own.expert_bits or 0):
            able.append(one)
    best = min(able, key=lambda one: one.figures[OBJECTIVE])
    assert [one.name for one in found.options if one.recommended] == [best.name]


def test_compared_scenarios_are_the_options_when_given() -> None:
    found = brief(BASE, title="now", others=[("many", MANY), ("big", cases.UNFIT)], planned=quick, with_flips=False)
    assert [one.name for one in found.options] == ["now", "many", "big"]
    assert not found.options[2].fits and "Does not fit" in found.options[2].why
    assert found.options[1].scenario == MANY


def test_frontier_holds_the_chosen_point_and_follows_the_plan() -> None:
    found = cases.hostile().frontier
    assert found is not None
    chosen = [point for point in found.points if point.chosen]
    assert [point.batch for point in chosen] == [cases.TARGETS.workload.batch]
    assert found.least_tokens_per_s_user == pytest.approx(1 / 0.2)
    for point in found.points[:2]:
        head = quick(set_path(cases.TARGETS, "workload.batch", point.batch)).headline
        assert point.tokens_per_s_user == head.tokens_per_s_user


@given(st.integers(1, 65_536), st.integers(0, 65_536))
def test_batches_hold_one_the_chosen_and_the_largest(chosen: int, largest: int) -> None:
    found = batches(chosen, largest)
    assert {1, chosen, max(largest, chosen)} <= set(found)
    assert found == sorted(set(found)) and len(found) <= 10


def test_sensitivities_are_the_three_that_move_most() -> None:
    found, result = cases.hostile(), cases.result_of(cases.TARGETS)
    size = {a.path: max(map(abs, (*(a.moves_tpot or (0,)), *(a.moves_cost or (0,))))) for a in result.assumptions}
    ranged = {a.path for a in result.assumptions if a.low is not None}
    assert [s.path for s in found.sensitivities] == sorted(ranged, key=lambda p: -size[p])[:3]


def test_all_inputs_are_listed_and_changed_ones_marked() -> None:
    found = cases.hostile()
    assert {row.path for row in found.inputs} == set(flat(cases.TARGETS))
    marked = {row.path for row in found.inputs if row.changed}
    assert {"workload.slo_tpot_s", "system.overrides.gpu.price_usd", "model.id"} <= marked
    assert "economics.pue" not in marked


def test_a_plan_that_does_not_fit_has_a_brief_that_says_so() -> None:
    found = cases.unfit()
    assert found.decision.startswith("Do not build this as planned. Does not fit")
    assert found.options == () and found.frontier is None and found.cost is None
    assert any(turn.startswith("It would fit with") for turn in found.turns)


def read_back(command: str) -> Scenario:
    words = shlex.split(command.removeprefix("python -m planner brief "))
    parser = scenario_parser("brief")
    parser.add_argument("--out")
    return build(parser.read(words))


@settings(max_examples=60)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "model.id": st.text(max_size=40),
            "model.config": st.just({"a": [1.5, "x'y", None]}),
            "workload.batch": st.integers(1, 65_536),
            "workload.requests_per_s": st.one_of(st.none(), st.floats(0, 1e6)),
            "policy.cuda_graphs": st.booleans(),
            "policy.expert_parallel": st.one_of(st.none(), st.booleans()),
            "policy.weight_bits": st.floats(1, 16),
            "policy.options": st.dictionaries(
                st.sampled_from(["a", "b"]),
                st.one_of(st.booleans(), st.integers(-5, 5), st.floats(-1e9, 1e9), st.text(max_size=10)),
            ),
            "system.overrides": st.dictionaries(st.just("gpu.price_usd"), st.floats(0, 1e6)),
        },
    )
)
def test_command_describes_the_scenario_exactly(changes: dict[str, object]) -> None:
    scenario = set_paths(Scenario(), [(path, value) for path, value in changes.items() if not isinstance(value, str)])
    texts = {path: value for path, value in changes.items() if isinstance(value, str)}
    scenario = scenario.model_copy(
        update={"model": scenario.model.model_copy(update={"id": texts.get("model.id", "m")})}
    )
    assert read_back(reproduce(scenario)).content_hash() == scenario.content_hash()


def test_command_of_the_case_reads_back_and_a_huge_one_names_a_file() -> None:
    assert read_back(cases.hostile().command).content_hash() == cases.TARGETS.content_hash()
    assert settings_of(Scenario()) == []
    large = set_paths(BASE, {"model.config": {"x": "y" * 9000}})
    assert reproduce(large) == "python -m planner brief scenario.json --out brief.html"


def test_flip_points_are_those_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "FIGURES_TRIED", 0)  # batch and skew only: seconds instead of a minute
    found = brief(set_path(BASE, "workload.batch", 2), planned=quick)
    able = comparable(found.options)
    assert len(able) >= 2
    paths = turns.looked_at(found.scenario, found.assumptions)
    assert paths == ["workload.batch", "routing.sigma"]
    told = flip_points([one.scenario for one in able], OBJECTIVE, paths, names=[one.name for one in able])
    for flip in told.flips[: turns.FLIPS_SHOWN]:
        assert any(flip.sentence.rpartition(": ")[0] in turn for turn in found.turns), flip.sentence
    assert told.flips or any(turn.startswith("No value within its bounds") for turn in found.turns)


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="no-such"):
        brief(set_path(BASE, "system.id", "no-such"), planned=planner.plan)


def test_only_the_same_work_is_recommended_and_what_differs_is_said() -> None:
    model = set_path(BASE, "model.id", "deepseek-ai/DeepSeek-V2-Lite")
    sizes = set_path(BASE, "workload.prompt_tokens", 32)
    cheaper = set_path(BASE, "economics.life_years", 40)
    found = brief(BASE, title="now", others=[("model", model), ("sizes", sizes), ("cheaper", cheaper)], planned=quick,
                  with_flips=False)  # fmt: skip
    assert [one.name for one in found.options if one.recommended] == ["cheaper"]
    assert found.decision.endswith("per million output tokens; it differs in prices.")
    why = {one.name: one.why for one in found.options}
    assert "another model, whose answers are others" in why["model"].casefold()
    assert "requests of other sizes" in why["sizes"].casefold()
    assert not any(turn.startswith(("model", "sizes")) and "would be the cheaper" in turn for turn in found.turns)
    alone = brief(BASE, title="now", others=[("model", model)], planned=quick, with_flips=False)
    assert [one.name for one in alone.options if one.recommended] == ["now"]


def test_a_plan_that_does_not_fit_names_the_option_that_does() -> None:
    found = brief(cases.UNFIT, title="big", others=[("small", BASE)], planned=quick, with_flips=False)
    assert found.decision.startswith("Do not build this as planned.")
    assert "small is the option to take" in found.decision and found.decision.endswith("it differs in workload.")
    assert Brief.model_validate_json(found.model_dump_json()) == found


def test_names_of_options_are_short_and_no_two_alike() -> None:
    found = brief(BASE, title="x" * 10_000, author="y" * 10_000, others=[("x" * 9999, MANY), ("a", MANY), ("a", BASE)],
                  planned=quick, with_flips=False)  # fmt: skip
    assert len({one.name for one in found.options}) == 4
    assert max(len(text) for text in (found.title, found.author, *(one.name for one in found.options))) <= 200
    assert len(found.command) < 1000


def test_an_option_that_cannot_be_planned_stands_beside_the_others() -> None:
    lost = set_path(BASE, "system.id", "no-such")
    found = brief(BASE, title="now", others=[("lost", lost)], planned=quick, with_flips=False)
    assert [one.recommended for one in found.options] == [True, False]
    assert found.options[1].why.startswith("Cannot be planned: ") and "no-such" in found.options[1].why


def test_far_targets_are_told_without_false_rounding() -> None:
    far = set_paths(BASE, {"workload.slo_ttft_s": 3600.0, "workload.slo_tpot_s": 1e-6})
    found = brief(far, planned=quick, with_flips=False)
    told = " ".join([found.decision, *(target.sentence for target in found.targets), *found.turns])
    assert not re.search(r"\b100\W%", told) and "more than 99" in told and "times as much" in told
    assert "misses its target: per token (TPOT) " in found.decision
    assert found.frontier is not None and found.frontier.sentence.endswith("so does every other batch.")


def test_marks_of_direction_turn_no_text_around_them() -> None:
    name = "a\u202eb\u2069c"
    found = brief(BASE, title=name, author=name, others=[(name, MANY)], planned=quick, with_flips=False)
    for text in (found.title, found.author, *(one.name for one in found.options)):
        assert text.startswith("\u2068a\u202ebc") and text.count("\u2069") == 1
