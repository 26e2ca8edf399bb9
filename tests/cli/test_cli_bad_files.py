"""Files that somebody else wrote: whatever is in them, one sentence and exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.fields import MAX_BYTES, ScenarioError, scenario_from_json
from planner.scenario import Scenario

NOT_SCENARIOS = {
    "empty": (b"", "is empty"),
    "white space": (b" \n\t ", "is empty"),
    "cut off": (b'{"workload": {"batch": 3', "is not JSON"),
    "a comma too many": (b'{"workload": {"batch": 3,}}', "line 1, column 26"),
    "Python, not JSON": (b"{'workload': None}", "is not JSON"),
    "two documents": (b"{} {}", "is not JSON"),
    "a list": (b"[1, 2]", "is a list of 2; it takes an object"),
    "a number": (b"5", "is 5; it takes an object"),
    "null": (b"null", "is null; it takes an object"),
    "NaN alone": (b"NaN", "is not a number (NaN); it takes an object"),
    "text": (b'"x"', 'is "x"; it takes an object'),
    "binary": (b"\xff\xd8\xff\xe0\x00\x10JFIF", "is not text"),
    "broken UTF-8": (b'{"model": {"id": "\xc3("}}', "is not text"),
    "a name twice": (b'{"workload": {}, "workload": {}}', '"workload" is given twice'),
    "deep lists": (b"[" * 100_000, "nested too deep"),
    "deep objects": (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested too deep"),
    "deep inside a config": (b'{"model": {"config": ' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}}", "nested too deep"),
    "half a character": (b'{"model": {"id": "\\ud800"}}', "half a character"),
    "half a character in a name": (b'{"\\udfff": 1}', "half a character"),
    "huge": (b" " * (MAX_BYTES + 1), "is too large"),
    "many unknown fields": (b"{" + b",".join(b'"k%d":1' % i for i in range(50_000)) + b"}", "many more faults"),
}


@pytest.mark.parametrize("case", NOT_SCENARIOS)
def test_what_is_not_a_scenario(refused, engine, tmp_path: Path, case: str):
    content, words = NOT_SCENARIOS[case]
    file = tmp_path / "scenario.json"
    file.write_bytes(content)
    assert words in refused("plan", str(file))
    assert words in refused("plan", "-", stdin=content)
    assert engine.scenarios == []


@pytest.mark.parametrize("case", [name for name in NOT_SCENARIOS if "field" not in name and name != "a name twice"])
def test_what_is_not_a_config(refused, engine, tmp_path: Path, case: str):
    content, _ = NOT_SCENARIOS[case]
    file = tmp_path / "some.json"
    file.write_bytes(content)
    for flag in ("--config", "--model"):
        sentence = refused("plan", flag, str(file))
        assert "config" in sentence or "half a character" in sentence
    assert engine.scenarios == []


def test_what_reads_like_a_scenario_in_other_encodings(run, engine):
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"):
        assert run("plan", "-", stdin='{"model": {"id": "é/\U0001f4a5"}}'.encode(encoding)).code == 0
        assert engine.scenario.model.id == "é/\U0001f4a5"


def test_whole_numbers_may_be_written_as_floats_and_give_the_same_hash():
    one = scenario_from_json('{"workload": {"batch": 64.0, "draft_acceptance": 0}, "routing": {"sigma": 1}}')
    two = scenario_from_json('{"workload": {"batch": 64, "draft_acceptance": -0.0}, "routing": {"sigma": 1.0}}')
    assert one.content_hash() == two.content_hash()


def test_files_that_are_not_there(refused, engine, tmp_path: Path):
    (tmp_path / "scenario.json").write_text("{}")
    wrong = str(tmp_path / "scenaro.json")
    for arguments in (["plan", wrong], ["plan", "--config", wrong], ["plan", "--model", wrong]):
        sentence = refused(*arguments)
        assert sentence.startswith("There is no ")
        assert "scenaro.json" in sentence
        assert "the nearest is" in sentence
    assert "is a folder" in refused("plan", str(tmp_path))
    assert "is empty" in refused("plan", "")
    assert "cannot be read" in refused("plan", "a\0b")
    assert "There is no scenario file" in refused("plan", "x" * 200)
    assert "cannot be read" in refused("plan", "x" * 5000)


def read(text: str | bytes) -> Scenario | ScenarioError:
    """The scenario, or an error that is fit for people."""
    try:
        return scenario_from_json(text)
    except ScenarioError as caught:
        error = caught
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in (str(error), *error.sentences))
    assert len(error.sentences) == len(error.paths)
    return error


@given(st.binary(max_size=200))
def test_any_bytes_give_a_scenario_or_a_sentence(content: bytes):
    assert isinstance(read(content), (Scenario, ScenarioError))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SECTIONS = st.sampled_from(["model", "system", "workload", "routing", "policy", "economics", "schema_version", "x"])
NAMES = st.sampled_from(
    ["id", "config", "overrides", "options", "batch", "preset", "trace", "pue", "kv_format", "sigma"]
)


@given(st.dictionaries(SECTIONS, st.dictionaries(NAMES, JSON_VALUES, max_size=3) | JSON_VALUES, max_size=3))
def test_any_json_gives_a_scenario_that_survives_a_round_trip_or_a_sentence(data: dict):
    scenario = read(json.dumps(data))
    if isinstance(scenario, ScenarioError):
        return
    again = scenario_from_json(scenario.canonical_json())
    assert again == scenario
    assert again.content_hash() == scenario.content_hash()
    assert Scenario.model_validate_json(scenario.model_dump_json()).content_hash() == scenario.content_hash()
