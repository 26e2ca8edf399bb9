"""Every field of a scenario against every kind of bad value: exit code 2, one sentence that names the field."""

from __future__ import annotations

import json
import math

import pytest

from planner.fields import FieldSpec, fields

PLAIN = {"whole", "number", "yes_no", "choice", "text"}
SPECS = [spec for spec in fields().values() if spec.kind in PLAIN]


def bad_texts(spec: FieldSpec) -> list[str]:
    """What a person might type into ``--set path=`` that the field must refuse."""
    if spec.kind == "text":
        return ["x" * 1000] + ([] if spec.nullable else ['"half \\ud800"'])
    if spec.kind in ("choice", "yes_no"):
        bad = ["0.5", "-7", "nan", "inf", "1e999", "maybe", "[1]", '{"a": 1}', "x" * 10_000, "\x00", "\U0001f4a5"]
        return bad + ([] if spec.nullable else ["", "null", "none"])
    bad = ["-1", "-0.5", "nan", "-nan", "inf", "-inf", "1e400", "9" * 400, "9" * 5000, "abc", "true", "[1]", '{"a": 1}']
    bad += ["1,5,3", "0x10", "1e", "--5", "1 2", "\u0663\u0000", "12e3456"]
    bad += [] if spec.nullable else ["", "null", "none"]
    bad += ["0"] if (spec.minimum or 0) > 0 or spec.above is not None else []
    bad += ["0.5", "1e-9"] if spec.kind == "whole" else []
    bad += [repr(spec.maximum * 2)] if spec.maximum is not None else []
    return bad


def bad_values(spec: FieldSpec) -> list[object]:
    """What a file might hold in the place of the field: JSON values that it must refuse."""
    bad: list[object] = [[1], {"a": 1}, math.nan, math.inf, -math.inf, 10**30, -(10**30), 10**400]
    bad += [] if spec.nullable else [None]
    if spec.kind in ("whole", "number"):
        bad += [True, False, "32", "", -1, -0.5]
        bad += [0, 0.0, -0.0] if (spec.minimum or 0) > 0 or spec.above is not None else []
        bad += [0.5, 1e-9] if spec.kind == "whole" else []
        bad += [spec.maximum * 2] if spec.maximum is not None else []
        return [value for value in bad if not (spec.maximum is None and value in (10**30, 10**400))]
    bad += [0, 1, 0.5] + ([True] if spec.kind != "yes_no" else ["true", "yes"])
    if spec.kind == "choice":
        bad += ["", "maybe", spec.choices[0] + " "]
    if spec.kind == "text":
        bad += ["x" * 1000]
    return bad


def test_the_table_has_every_kind_of_field_and_every_section():
    assert {spec.kind for spec in SPECS} == PLAIN
    assert {spec.section for spec in SPECS} == {"model", "system", "workload", "routing", "policy", "economics"}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.path)
def test_a_bad_value_that_was_typed(refused, engine, spec: FieldSpec):
    for text in bad_texts(spec):
        sentence = refused("plan", "--set", f"{spec.path}={text}")
        if "half a character" not in sentence:
            assert sentence.startswith(f"{spec.path} is "), (text, sentence)
            assert f"; it takes {spec.accepts}" in sentence, (text, sentence)
    assert engine.scenarios == []


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.path)
def test_a_bad_value_in_a_file(refused, engine, spec: FieldSpec):
    for value in bad_values(spec):
        text = json.dumps({spec.section: {spec.name: value}})
        sentence = refused("plan", "-", stdin=text.encode())
        assert sentence.startswith(f"{spec.path} is "), (value, sentence)
        assert f"; it takes {spec.accepts}" in sentence, (value, sentence)
    assert engine.scenarios == []


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.kind in ("whole", "number")], ids=lambda s: s.path)
def test_the_ends_of_the_range_are_accepted(run, engine, spec: FieldSpec):
    for end in (spec.minimum, spec.maximum):
        if end is not None:
            assert run("plan", "--set", f"{spec.path}={end!r}").code == 0
            value = engine.scenario.model_dump()[spec.section][spec.name]
            assert value == end
            assert type(value) is (int if spec.kind == "whole" else float)


FLAGS = {
    "--batch": "workload.batch",
    "--prompt-tokens": "workload.prompt_tokens",
    "--output-tokens": "workload.output_tokens",
    "--weight-bits": "policy.weight_bits",
    "--seed": "routing.seed",
    "--model": "model.id",
    "--system": "system.id",
    "--policy": "policy.id",
    "--trace": "routing.trace",
}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_bad_value_of_a_flag_names_the_field(refused, engine, flag: str):
    for text in bad_texts(fields()[FLAGS[flag]]):
        for arguments in ([f"{flag}={text}"], [flag, text]):
            assert f"{FLAGS[flag]} is " in (sentence := refused("plan", *arguments)) or "half" in sentence


@pytest.mark.parametrize("version", [0, -1, 1.0, 1.5, True, False, None, "1", [1], {}, 2, 999, 10**40])
def test_a_version_that_is_not_ours(refused, version: object):
    sentence = refused("plan", "-", stdin=json.dumps({"schema_version": version, "later": 1}).encode())
    assert "schema_version is " in sentence
    newer = not isinstance(version, bool) and isinstance(version, int) and version > 1
    assert ("newer Tierline" in sentence) == newer


@pytest.mark.parametrize("section", ["model", "system", "workload", "routing", "policy", "economics"])
def test_a_section_that_is_no_object(refused, section: str):
    for value in (None, 0, [], [1], "x", True):
        assert refused("plan", "-", stdin=json.dumps({section: value}).encode()).startswith(f"{section} is ")
        assert refused("plan", "--set", f"{section}={json.dumps(value)}").startswith(f"{section} is ")


@pytest.mark.parametrize(
    ("path", "bad"),
    [
        ("system.overrides.gpu.tdp_w", ["abc", "nan", "inf", "true", "[1]", "9" * 5000]),
        ("system.overrides", ["5", "[1]", "x", '{"a": "b"}', '{"a": true}', '{"a": NaN}', '{"a": null}', "{"]),
        ("policy.options.rows", ["nan", "inf", "9" * 40, "-1e999"]),
        ("policy.options", ["5", "[1]", "x", '{"a": [1]}', '{"a": NaN}', '{"a": null}', '{"a": {"b": 1}}', '{"a"']),
        ("model.config", ["5", "[1]", "x", "true", '{"a": 1', '{"a": 1, "a": 2}']),
    ],
)
def test_fields_that_hold_more_than_one_value(refused, engine, path: str, bad: list[str]):
    for text in bad:
        sentence = refused("plan", "--set", f"{path}={text}")
        assert path in sentence or "value" in sentence or "given twice" in sentence, (text, sentence)


def test_several_faults_are_one_sentence_that_names_each_field(refused):
    sentence = refused("plan", "-", stdin=b'{"workload": {"batch": 0, "prompt_tokens": -1}, "economics": {"pue": 0}}')
    assert sentence.startswith("workload.batch is 0; it takes a whole number from 1 to 65,536")
    assert "workload.prompt_tokens" in sentence
    assert "economics.pue" in sentence


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("workload.bacth", "workload.batch"),
        ("batch", "workload.batch"),
        ("prompt_token", "workload.prompt_tokens"),
        ("econmics.pue", "economics.pue"),
        ("system.override", "system.overrides"),
        ("policy.option.x", "policy.options"),
        ("routing.sede", "routing.seed"),
        ("id", "model.id, system.id or policy.id"),
    ],
)
def test_an_unknown_path_is_answered_with_the_nearest(refused, path: str, near: str):
    sentence = refused("plan", "--set", f"{path}=1")
    assert f"There is no field {path}; the nearest is {near}" in sentence


@pytest.mark.parametrize("path", ["", ".", "workload.", ".batch", "a.b.c", "\x1b[31m", "x" * 5000, "system.overrides."])
def test_a_path_that_is_nothing(refused, path: str):
    sentence = refused("plan", "--set", f"{path}=1")
    assert sentence.startswith(("There is no field", "--set is"))
    assert "\x1b" not in sentence


def test_unknown_fields_in_a_file(refused):
    assert "no field workload.bacth; the nearest is workload.batch" in refused(
        "plan", "-", stdin=b'{"workload": {"bacth": 1}}'
    )
    assert "no field worklod; the nearest is workload" in refused("plan", "-", stdin=b'{"worklod": {}}')
    assert "\x1b" not in refused("plan", "-", stdin=b'{"\\u001b[31m": 1}')


def test_a_choice_is_answered_with_the_nearest(refused):
    assert refused("plan", "--set", "model.kv_format=fp16").endswith("bf16, fp8, int8 or int4 (the nearest is bf16).")
    assert "(the nearest is generated)" in refused("plan", "--set", "routing.source=generate")


def test_fields_that_contradict_each_other(refused):
    assert "routing: routing.trace names a shipped trace exactly when routing.source is 'trace'." in refused(
        "plan", "--set", "routing.source=trace"
    )
    both = refused("plan", "--set", "workload.requests_per_s=1", "--set", "workload.output_tokens_per_day=1")
    assert both.startswith("workload: requests_per_s and output_tokens_per_day")


def test_a_value_is_shortened(refused):
    sentence = refused("plan", "--set", f"workload.batch={'z' * 100_000}")
    assert "(100,000 characters)" in sentence
    assert len(sentence) < 200
