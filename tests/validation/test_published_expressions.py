"""The small language of predictions, its scenarios and its figures."""

from __future__ import annotations

import pytest

from planner.scenario import Scenario
from validation.published import UnfitError
from validation.published.calibrations import calibration, identifiers, patch
from validation.published.expressions import Run
from validation.published.figures import FIGURES
from validation.published.scenarios import merged, setup, table


class Counted(Run):
    """A run whose plans are numbers: the name's length, plus the batch that changes ask for."""

    def _leaf(self, expression, changes):
        return float(len(expression["of"]) + sum(c["workload"]["batch"] for c in changes if c))


LEAF = {"figure": "tokens_per_s", "of": "abc"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (2, 2.0),
        (LEAF, 3.0),
        ({"divide": [6, LEAF]}, 2.0),
        ({"subtract": [1, LEAF]}, -2.0),
        ({"times": [2, LEAF, 5]}, 30.0),
        ({"most": [1, LEAF, 2]}, 3.0),
        ({"least": [1, LEAF, 2]}, 1.0),
        ({"most": LEAF, "over": [{"workload": {"batch": 4}}, {"workload": {"batch": 1}}]}, 7.0),
        ({"least": {"divide": [12, LEAF]}, "over": [{"workload": {"batch": 1}}, {"workload": {"batch": 3}}]}, 2.0),
        ({"range": [1, LEAF, 2]}, (1.0, 3.0)),
        ({"range": LEAF, "over": [{"workload": {"batch": 4}}, {"workload": {"batch": 1}}]}, (4.0, 7.0)),
        ({"most": {"figure": "tokens_per_s", "of": "x{0}"}, "over": ["a", "bbb"]}, 4.0),
    ],
)
def test_expressions_by_hand(expression, expected):
    assert Counted().value(expression) == expected


def test_correlation_is_of_ranks():
    pair = {"figure": "tokens_per_s", "of": "{0}"}
    rising = {"correlation": [pair, {"times": [pair, pair]}], "over": ["a", "bb", "cccc"]}
    falling = {"correlation": [pair, {"divide": [1, pair]}], "over": ["a", "bb", "cccc"]}
    assert Counted().value(rising) == pytest.approx(1.0)
    assert Counted().value(falling) == pytest.approx(-1.0)


def test_later_changes_win_and_nothing_given_is_altered():
    base = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merged(base, {"a": {"b": 5}}, {"d": None, "a": {"e": 6}}) == {"a": {"b": 5, "c": 2, "e": 6}, "d": None}
    assert base == {"a": {"b": 1, "c": 2}, "d": 3}


def test_a_scenario_inherits_and_a_change_wins_over_the_calibration():
    found = setup("p1-8x22b-2bit", ({"system": {"overrides": {"pcie.efficiency": 0.5}}},))
    assert found.calibration == "P1"
    scenario = found.scenario
    assert scenario.policy.weight_bits == 2 and scenario.policy.gpu_experts_per_layer == 2
    assert scenario.workload.output_tokens == 2048
    assert scenario.system.overrides["pcie.efficiency"] == 0.5
    assert scenario.system.overrides["cxl.bandwidth_efficiency"] == calibration("P1").values()["eta"]
    assert scenario.routing.sigma == calibration("P1").values()["sigma"]


@pytest.mark.parametrize("name", sorted(table()))
def test_every_scenario_is_valid(name):
    assert isinstance(setup(name).scenario, Scenario)


@pytest.mark.parametrize("name", ["default-8x22b-monde", "server-qwen3", "default-8x7b-2048"])
def test_without_a_calibration_no_constant_of_a_paper_is_set(name):
    found = setup(name)
    assert found.calibration is None and not found.simulation
    assert found.scenario.system.overrides == {}
    assert found.scenario.routing == Scenario().routing


def test_calibrations_set_only_fields_of_scenarios_and_simulations():
    for name in identifiers():
        for constant in calibration(name).constants:
            assert constant.path[0] in {*Scenario.model_fields, "simulation"}
            assert constant.kind in {"fitted", "selected", "stated", "assumed"}
            assert (constant.kind == "fitted") == bool(constant.fitted_on)


def test_a_constant_of_one_policy_reaches_only_that_policy():
    assert patch(calibration("R1"), "klotski")["policy"] == {"options": {"batches": 4}}
    assert "policy" not in patch(calibration("R1"), "trimoe")
    assert setup("r1-glm-klotski").scenario.workload.batch == 512 * 4
    assert setup("r1-glm-trimoe").simulation == {"drift_share": 0.2, "step_correlation": 0.97}


def test_a_plan_that_does_not_fit_says_so():
    change = {"policy": {"gpu_experts_per_layer": 8}}
    with pytest.raises(UnfitError, match="p1-8x22b-3bit does not fit: GPU HBM"):
        Run().value({"figure": "tokens_per_s", "of": {"plan": "p1-8x22b-3bit", "change": change}})


def test_unknown_names_say_what_there_is():
    with pytest.raises(KeyError, match="no figure 'speed'"):
        Run().value({"figure": "speed", "of": "p1-8x22b-3bit"})
    with pytest.raises(KeyError, match="no scenario 'p2'"):
        Run().value({"figure": "tokens_per_s", "of": "p2"})
    with pytest.raises(KeyError, match="no calibration 'P9'"):
        calibration("P9")


def test_an_evaluation_is_made_once_in_a_run(monkeypatch):
    from validation.published import expressions

    made = []
    real = expressions.evaluate
    monkeypatch.setattr(expressions, "evaluate", lambda s: made.append(s) or real(s))
    run = Run()
    rate = run.value({"figure": "tokens_per_s", "of": "p1-8x22b-3bit"})
    assert run.value({"divide": [{"figure": "tokens_per_s", "of": "p1-8x22b-3bit"}, 1]}) == rate
    assert len(made) == 1 and run.calibrations == {"P1"}


def test_every_figure_is_described():
    assert len(FIGURES) > 20
    assert all(name == reader.__name__ for name, reader in FIGURES.items())
