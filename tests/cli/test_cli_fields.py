"""The field table and the ways in that the page shares with the command line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from planner.fields import (
    ScenarioError,
    explain,
    faults,
    fields,
    get_path,
    nearest,
    scenario_from_json,
    set_path,
    set_paths,
    shown,
)
from planner.scenario import Scenario

SCENARIO = Scenario()


def test_a_field_knows_its_bounds_default_choices_and_meaning():
    batch, target = fields()["workload.batch"], fields()["workload.slo_tpot_s"]
    assert (batch.kind, batch.minimum, batch.maximum, batch.default, batch.nullable) == ("whole", 1, 65536, 32, False)
    assert (target.kind, target.above, target.minimum, target.maximum) == ("number", 0, None, None)
    assert target.accepts == "a number above 0, or null"
    assert fields()["economics.pue"].accepts == "a number from 1 to 5"
    assert fields()["policy.weight_bits"].accepts == "a number from 1 to 16, or null"
    assert fields()["model.kv_format"].choices == ("bf16", "fp8", "int8", "int4")
    assert batch.description == "sequences decoding at once in the whole system"


@pytest.mark.parametrize("path", list(fields()))
def test_setting_the_default_changes_nothing(path: str):
    assert set_path(SCENARIO, path, fields()[path].default) == SCENARIO
    assert get_path(SCENARIO, path) == fields()[path].default


@given(st.sampled_from([spec for spec in fields().values() if spec.kind in ("whole", "number")]), st.data())
def test_any_value_within_the_bounds_is_taken_and_read_back(spec, data):
    low = spec.minimum if spec.minimum is not None else spec.above
    high = spec.maximum if spec.maximum is not None else 1e6
    if spec.kind == "whole":
        value = data.draw(st.integers(int(low), int(high)))
    else:
        value = data.draw(st.floats(low, high, exclude_min=spec.above is not None)) + 0.0
    if spec.path == "schema_version":
        return
    as_value, as_text = set_path(SCENARIO, spec.path, value), set_path(SCENARIO, spec.path, repr(value))
    assert as_value == as_text
    assert get_path(as_value, spec.path) == value
    assert scenario_from_json(as_value.canonical_json()) == as_value


def test_the_scenario_that_is_changed_stays_as_it_was():
    before = Scenario(system={"id": "gh200", "overrides": {"gpu.tdp_w": 700.0}})
    after = set_paths(before, {"system.overrides.gpu.tdp_w": 500, "workload.batch": 4})
    assert before.system.overrides == {"gpu.tdp_w": 700.0}
    assert before.workload.batch == 32
    assert get_path(after, "system.overrides.gpu.tdp_w") == 500.0
    assert get_path(after, "system.overrides.gpu.count") is None


def test_array_scalars_are_numbers():
    changed = set_paths(SCENARIO, {"workload.batch": np.int64(8), "routing.sigma": np.float64(0.5)})
    assert (changed.workload.batch, changed.routing.sigma) == (8, 0.5)
    assert changed.content_hash() == set_paths(SCENARIO, {"workload.batch": 8, "routing.sigma": 0.5}).content_hash()


@pytest.mark.parametrize("read", [get_path, lambda scenario, path: set_path(scenario, path, 1)])
def test_an_unknown_path_is_a_scenario_error_with_its_path(read):
    with pytest.raises(ScenarioError, match=r"no field workload\.bach; the nearest is workload\.batch") as caught:
        read(SCENARIO, "workload.bach")
    assert caught.value.paths == ("workload.bach",)


def test_one_key_of_a_config_cannot_be_set_alone():
    with pytest.raises(ScenarioError, match=r"model\.config takes a whole config\.json"):
        set_path(SCENARIO, "model.config.hidden_size", 4096)


def test_any_validation_error_of_the_schema_is_explained():
    with pytest.raises(ValidationError) as caught:
        Scenario(workload={"batch": 0, "bach": 1}, policy={"options": {"a": [1]}}, economics=3)
    assert explain(caught.value) == [
        "workload.batch is 0; it takes a whole number from 1 to 65,536.",
        "There is no field workload.bach; the nearest is workload.batch.",
        "policy.options.a is a list of 1; it takes true or false, a number, or text.",
        "economics is 3; it takes an object with the fields mode, life_years, busy_share, "
        "electricity_usd_per_kwh and others.",
    ]
    assert faults(caught.value)[1].path == "workload.bach"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0.0, "0"),
        (1e300, "1e+300"),
        (float("nan"), "not a number (NaN)"),
        (10**50, "a whole number of about 51 digits"),
        ("\x1b[31m", '"\\u001b[31m"'),
        ("Größe 数", '"Größe 数"'),
        ('a"b\\c\u202e', '"a\\"b\\\\c\\u202e"'),
        ("x" * 60, f'"{"x" * 60}"'),
        ("x" * 61, f'"{"x" * 55}..." (61 characters)'),
        ("\x00" * 11, '"' + r"\u0000" * 9 + '..." (11 characters)'),
        ({}, "an object of 0 entries"),
        (object(), "of type object"),
    ],
)
def test_values_are_shown_short_and_safe(value: object, text: str):
    assert shown(value) == text


def test_nearest_finds_typing_errors_other_capitals_and_parts():
    models = ["mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1", "Qwen/Qwen3-30B-A3B"]
    assert nearest("mistralai/mixtral-8x7b", models) == [models[0]]
    assert nearest("qwen3", models) == [models[2]]
    assert nearest("zzz", models) == []
    assert nearest("mixtral", models, count=2) == models[:2]


def test_a_number_too_long_to_print_is_still_shown():
    assert shown(10**5000) == "a whole number of about 5001 digits"
