"""``show``: the counts of a model by id or by config.json, and its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import models

CATALOG = Path(models.__file__).parent / "catalog"
MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"
BYTES = {"native", "16", "8", "4", "3", "2", "1"}


def test_json_has_the_keys_of_the_contract(run):
    ran = run("show", MIXTRAL, "--json")
    assert (ran.code, ran.err) == (0, "")
    shown = json.loads(ran.out)
    assert {"total", "main", "active", "by_component"} <= set(shown["parameters"])
    assert set(shown["bytes"]) >= BYTES
    assert shown["parameters"]["total"] == sum(shown["parameters"]["by_component"].values()) == 46_702_792_704
    assert shown["kv_bytes_per_token"] == 131_072


def test_a_config_file_counts_like_the_catalog_and_is_named_after_its_file(run):
    by_id = json.loads(run("show", MIXTRAL, "--json").out)
    file = CATALOG / "mistralai__Mixtral-8x7B-v0.1.json"
    by_file = json.loads(run("show", str(file), "--json").out)
    by_pipe = json.loads(run("show", "-", "--json", stdin=file.read_bytes()).out)
    for key in ("parameters", "bytes", "kv_bytes_per_token"):
        assert by_id[key] == by_file[key] == by_pipe[key]
    assert by_file["name"] == "mistralai__Mixtral-8x7B-v0.1"


def test_text_has_the_numbers_in_full(run):
    text = run("show", MIXTRAL).out
    for words in ("46,702,792,704", "131,072", "by component", "native", "4 bit"):
        assert words in text
    assert "None" not in text


def test_every_model_of_the_catalog_can_be_shown(run):
    for row in json.loads(run("models", "--json").out):
        shown = json.loads(run("show", row["id"], "--json").out)
        assert shown["parameters"]["total"] > shown["parameters"]["active"] > 0


@pytest.mark.parametrize("model", ["mistralai/Mixtral-8x7B", "mixtral-8x7b-v0.1"])
def test_an_unknown_model_is_answered_with_the_nearest(refused, model):
    sentence = refused("show", model)
    assert model in sentence
    assert MIXTRAL in sentence


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (b'{"model_type": "llama", "num_hidden_layers": 2}', "llama"),
        (b'{"model_type": "mixtral"}', "hidden_size"),
        (b"{}", "model_type"),
        (b"[]", "a list"),
        (b"{", "not JSON"),
        (b"", "empty"),
        (b"\xff\xfe\xfd", "UTF-8"),
        (b'{"hidden_size": NaN}', "NaN"),
    ],
)
def test_a_config_that_is_no_model(refused, tmp_path: Path, config: bytes, words: str):
    file = tmp_path / "config.json"
    file.write_bytes(config)
    assert words in refused("show", str(file))


def test_a_config_that_is_not_there(refused, tmp_path: Path):
    (tmp_path / "mine.json").write_text("{}")
    assert "nearest" in refused("show", str(tmp_path / "mime.json"))
