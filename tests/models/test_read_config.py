"""Configs from strangers: read, or refused with one sentence that names the key; never guessed."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import models
from models.library import CATALOG
from models.parse import MAX_BYTES

CONFIGS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CATALOG.glob("*__*.json"))}
MIXTRAL = CONFIGS["mistralai__Mixtral-8x7B-v0.1"]
V3 = CONFIGS["deepseek-ai__DeepSeek-V3"]


def refused(config: Any) -> str:
    with pytest.raises(models.ModelError) as caught:
        models.read_config(config)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the sentence with which it refuses."""
    try:
        return call()
    except models.ModelError as error:
        return str(error)


def changed(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**config, **changes}


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != key}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_reads_as_pasted(name: str) -> None:
    arch = models.read_config(CONFIGS[name])
    assert models.parameters(arch).main > 0
    assert arch.num_layers == len(arch.layers)
    assert arch.moe_layers
    assert 1 <= arch.top_k <= arch.experts


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_survives_its_own_text(name: str) -> None:
    text = json.dumps(CONFIGS[name])
    parsed = models.parse_config_text(text)
    assert models.parse_config_text(text.encode()) == parsed
    json.dumps(parsed, allow_nan=False)
    first, second = models.read_config(parsed), models.read_config(CONFIGS[name])
    assert models.parameters(first) == models.parameters(second)
    assert models.checkpoint_bytes(first) == models.checkpoint_bytes(second)


def test_unknown_type_is_refused_with_the_nearest() -> None:
    sentence = refused(changed(MIXTRAL, model_type="mixtral_next"))
    assert "'mixtral_next'" in sentence
    assert "mixtral" in sentence.split("nearest")[1]


def test_dense_models_are_refused_as_not_moe() -> None:
    llama = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000}
    assert "dense model" in refused(llama)
    assert "dense model" in refused(changed(MIXTRAL, num_local_experts=1))
    qwen = CONFIGS["Qwen__Qwen3-30B-A3B"]
    assert "dense model" in refused(changed(qwen, mlp_only_layers=list(range(48))))
    assert "dense model" in refused({"model_type": "nemotron_h", "hybrid_override_pattern": "M*-M"})


def test_a_key_that_changes_the_structure_is_named() -> None:
    assert "moe_latent_depth" in refused(changed(MIXTRAL, moe_latent_depth=2))
    assert "attention_bias" in refused(changed(MIXTRAL, attention_bias=True))
    assert "index_topk_pattern" in refused(changed(CONFIGS["zai-org__GLM-5.2"], index_topk_pattern=[1, 2]))
    assert "quant_method" in refused(changed(MIXTRAL, quantization_config={"quant_method": "quip"}))
    assert "weight_block_size" in refused(
        changed(V3, quantization_config={"quant_method": "fp8", "weight_block_size": [64, 64]})
    )
    assert "moe_quant_algo" in refused(
        changed(V3, quantization_config={**V3["quantization_config"], "moe_quant_algo": "NVFP4"})
    )
    assert "'model.layers.3.thing'" in refused(
        changed(
            V3, quantization_config={**V3["quantization_config"], "modules_to_not_convert": ["model.layers.3.thing"]}
        )
    )


def test_a_key_that_is_switched_off_changes_nothing() -> None:
    plain = models.parameters(models.read_config(MIXTRAL))
    for value in (None, False, 0, [], {}, ""):
        assert models.parameters(models.read_config(changed(MIXTRAL, some_new_feature=value))) == plain


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_local_experts", "vocab_size"])
def test_a_missing_key_is_named(key: str) -> None:
    assert key in refused(without(MIXTRAL, key))
    assert "model_type" in refused(without(MIXTRAL, "model_type"))


@pytest.mark.parametrize(
    "value",
    [0, -1, 4096.0, 4096.5, "4096", True, [4096], {}, 10**12, 10**5000, math.nan, math.inf],
    ids=lambda value: type(value).__name__,
)
def test_a_size_that_is_no_size_is_refused(value: Any) -> None:
    assert "hidden_size" in refused(changed(MIXTRAL, hidden_size=value))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (changed(MIXTRAL, num_experts_per_tok=9), "only 8 experts"),
        (changed(MIXTRAL, num_key_value_heads=5), "multiple"),
        (changed(MIXTRAL, num_attention_heads=24, num_key_value_heads=8), "do not divide"),
        (changed(MIXTRAL, num_experts=16), "must agree"),
        (changed(MIXTRAL, is_encoder_decoder=True), "is_encoder_decoder"),
        (changed(MIXTRAL, num_hidden_layers=2000, hidden_size=32 * 8192, intermediate_size=900_000), "parameters"),
        (changed(V3, mlp_layer_types=["sparse"] * 61), "does not agree"),
        (changed(V3, qk_head_dim=100), "qk_nope_head_dim"),
        (changed(V3, index_n_heads=64, index_head_dim=128, index_topk=2048, q_lora_rank=None), "q_lora_rank"),
        (changed(CONFIGS["openai__gpt-oss-20b"], layer_types=["full_attention"]), "24 layers"),
        (changed(CONFIGS["openai__gpt-oss-20b"], layer_types=["chunky"] * 24), "chunky"),
        (changed(CONFIGS["xai-org__grok-1"], ffn_hidden_size_derived=1), "ffn_hidden_size_derived"),
        (changed(CONFIGS["MiniMaxAI__MiniMax-M1-80k"], attn_type_list=[2] * 80), "attn_type_list"),
        (changed(CONFIGS["ai21labs__AI21-Jamba-Mini-1.5"], attn_layer_offset=9), "attn_layer_offset"),
    ],
)
def test_contradictions_are_refused(config: dict[str, Any], said: str) -> None:
    assert said in refused(config)


def test_nested_contradictions_are_refused() -> None:
    qwen = copy.deepcopy(CONFIGS["Qwen__Qwen3.5-35B-A3B"])
    qwen["text_config"]["tie_word_embeddings"] = True
    assert "tie_word_embeddings" in refused(qwen)
    kimi = copy.deepcopy(CONFIGS["moonshotai__Kimi-K3"])
    kimi["text_config"]["linear_attn_config"]["full_attn_layers"] = [1]
    assert "full_attn_layers" in refused(kimi)
    assert "text_config" in refused(without(CONFIGS["Qwen__Qwen3.5-35B-A3B"], "text_config"))
    assert "text_config" in refused(changed(CONFIGS["Qwen__Qwen3.5-35B-A3B"], text_config=[1]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("not json", "not JSON"),
        ('{"a": 1,}', "not JSON"),
        ("[1, 2]", "a list"),
        ('"text"', "a text"),
        ("3", "single value"),
        ("null", "single value"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too long"),
        ('{"a": 1, "a": 2}', "twice"),
        (b"\xff\xfe\x00", "UTF-8"),
        ("[" * 100_000, "nested deeper"),
        ('{"a":' * 50 + "1" + "}" * 50, "nested deeper"),
        (" " * (MAX_BYTES + 1), "2 MB"),
        (b"x" * 50_000_000, "50.0 MB"),
    ],
    ids=lambda part: str(part[:12]),
)
def test_texts_that_are_no_config(text: str | bytes, said: str) -> None:
    with pytest.raises(models.ModelError, match=said) as caught:
        models.parse_config_text(text)
    assert "\n" not in str(caught.value)


def test_brackets_inside_strings_are_no_nesting() -> None:
    assert models.parse_config_text('{"a": "' + "[" * 100 + '\\"{"}') == {"a": "[" * 100 + '"{'}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    good = tmp_path / "config.json"
    good.write_text(json.dumps(MIXTRAL), encoding="utf-8")
    assert models.parse_config_file(good)["model_type"] == "mixtral"
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(50_000_000)
    for path, said in (
        (tmp_path / "none.json", "no file"),
        (tmp_path, "directory"),
        (huge, "too large"),
        ("a\0b", "valid"),
    ):
        with pytest.raises(models.ModelError, match=said):
            models.parse_config_file(path)


@pytest.mark.parametrize("thing", [None, [], "config", 3, True])
def test_things_that_are_no_mapping(thing: Any) -> None:
    refused(thing)


def test_deep_values_inside_a_mapping_are_refused_or_ignored() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    refused(changed(MIXTRAL, hidden_size=deep))
    refused(changed(MIXTRAL, quantization_config=deep))
    models.read_config(changed(MIXTRAL, rope_scaling=deep))


def test_unknown_id_names_the_nearest() -> None:
    with pytest.raises(models.ModelError, match=r"mistralai/Mixtral-8x7B-v0\.1"):
        models.load("mixtral-8x7b")
    with pytest.raises(models.ModelError):
        models.load("../../etc/passwd")


def test_siblings_and_vendor_formats_are_found() -> None:
    ids = {entry.id for entry in models.catalog()}
    assert {"deepseek-ai/DeepSeek-V3 (inference format)", "deepseek-ai/DeepSeek-R1-0528", "xai-org/grok-1"} <= ids
    assert len([1 for entry in models.catalog() if entry.group == "DeepSeek"]) >= 10


def test_loading_is_fast_and_light() -> None:
    script = (
        "import sys, time, models\n"
        "heavy = [m for m in ('pandas', 'streamlit', 'sqlalchemy', 'plotly', 'numba') if m in sys.modules]\n"
        "assert not heavy, heavy\n"
        "models.load('mistralai/Mixtral-8x7B-v0.1')\n"
        "start = time.process_time()\n"
        "models.work(models.load('moonshotai/Kimi-K3'))\n"
        "print(time.process_time() - start)\n"
    )
    root = Path(models.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=root)
    assert float(done.stdout) < 0.1  # about 10 ms on one core; generous for a loaded machine


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.integers(0, 200),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(-2, 130), st.text(max_size=3), st.none()), max_size=70),
    st.dictionaries(st.text(max_size=6), st.integers(), max_size=3),
    st.sampled_from(["full_attention", "linear_attention", "dense", "sparse", "moe", "auto", "fp4", "bfloat16"]),
)


def _paths(config: dict[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in config.items():
        found.append((*prefix, key))
        if isinstance(value, dict) and len(prefix) < 3:
            found += _paths(value, (*prefix, key))
    return found


@st.composite
def _mutated(draw: st.DrawFn) -> dict[str, Any]:
    config = copy.deepcopy(CONFIGS[draw(st.sampled_from(sorted(CONFIGS)))])
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(_paths(config)))
        place: Any = config
        for key in path[:-1]:
            place = place.get(key)
            if not isinstance(place, dict):
                break
        if not isinstance(place, dict):
            continue
        action = draw(st.sampled_from(["replace", "delete", "add", "scale"]))
        old = place.get(path[-1])
        if action == "delete":
            place.pop(path[-1], None)
        elif action == "add":
            place[draw(st.text(max_size=10))] = draw(_LEAVES)
        elif action == "scale" and isinstance(old, int):
            place[path[-1]] = draw(st.sampled_from([old - 1, old + 1, old * 2, old * 1000, -old, old // 2]))
        elif action == "scale" and isinstance(old, list):
            place[path[-1]] = draw(st.sampled_from([old[:-1], old * 2, old[::-1], []]))
        else:
            place[path[-1]] = draw(_LEAVES)
    return config


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(_mutated())
def test_any_change_gives_positive_finite_numbers_or_one_sentence(config: dict[str, Any]) -> None:
    arch = outcome(lambda: models.read_config(config))
    if isinstance(arch, str):
        assert "\n" not in arch
        assert len(arch) < 700
        return
    counts = models.parameters(arch)
    assert 0 < counts.active <= counts.main <= counts.total <= 10**15
    assert min(counts.by_component.values()) > 0
    work = models.work(arch)
    assert (work.expert_parameters[work.is_moe] > 0).all()
    assert (work.top_k <= work.experts).all()
    sizes = models.checkpoint_bytes(arch)
    assert all(math.isfinite(size) and size > 0 for size in sizes.values())
    for context in (1.0, 1000.0):
        for values in (models.kv_bytes_held(arch, "bf16", context), models.attention_flops(arch, context)):
            assert values.min() >= 0
            assert math.isfinite(values.sum())
    assert math.isfinite(models.kv_bytes_per_token(arch, "int4"))
    json.dumps(models.show(arch), allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_any_text_gives_an_object_or_one_sentence(text: str | bytes) -> None:
    found = outcome(lambda: models.parse_config_text(text))
    assert isinstance(found, dict) or "\n" not in found


def test_a_large_hostile_config_is_answered_quickly() -> None:
    start = time.process_time()
    refused(changed(MIXTRAL, num_hidden_layers=2001))
    models.read_config(changed(MIXTRAL, num_hidden_layers=2000, hidden_size=1024, intermediate_size=64))
    with pytest.raises(models.ModelError):
        models.parse_config_text("[" * (MAX_BYTES - 1))
    assert time.process_time() - start < 5
