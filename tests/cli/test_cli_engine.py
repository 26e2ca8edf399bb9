"""The command line with the real engine behind it: the same figures as ``planner.plan``, and its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import planner
from planner.cli.plan import build, scenario_parser
from planner.scenario import Scenario

FIGURES = ("ttft_s", "tpot_s", "tokens_per_s_system", "usd_per_million_output_tokens", "systems_needed", "bound_by")


def test_the_command_gives_the_figures_of_the_engine_and_again_from_its_own_scenario(run, tmp_path: Path):
    ran = run("plan", "--batch", "8", "--seed", "3", "--json")
    assert (ran.code, ran.err) == (0, "")
    answer = json.loads(ran.out)
    scenario = build(scenario_parser("plan").read(["--batch", "8", "--seed", "3"]))
    direct = planner.plan(scenario)
    assert answer == json.loads(direct.model_dump_json())
    assert answer["scenario_hash"] == scenario.content_hash()
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(answer["scenario"], indent=3))
    again = json.loads(run("plan", str(file), "--json").out)
    assert (again["scenario_hash"], again["headline"]) == (answer["scenario_hash"], answer["headline"])


def test_the_headline_keeps_its_own_arithmetic(run):
    head = json.loads(run("plan", "--json").out)["headline"]
    assert head["fits"] is True
    assert head["reasons"] == []
    assert all(head[key] is not None for key in FIGURES)
    assert head["tokens_per_s_user"] == pytest.approx(1 / head["tpot_s"])
    assert head["tokens_per_s_system"] == pytest.approx(32 / head["tpot_s"])
    for key, (low, high) in (head["intervals"] or {}).items():
        assert low <= head[key] <= high, key


def test_text_and_json_say_the_same(run):
    head = json.loads(run("plan", "--json").out)["headline"]
    text = run("plan").out
    assert text.startswith("Fits.")
    assert f"{1e3 * head['tpot_s']:.3g} ms" in text
    assert f"{head['energy_j_per_output_token']:.3f} J per output token" in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--model", "deepseek-ai/DeepSeek-V3"], "HBM"),
        (["--policy", "trimoe"], "NDP"),
        (["--prompt-tokens", "10000000"], "HBM"),
    ],
)
def test_what_does_not_fit_or_lacks_parts_is_an_answer(run, arguments, reason):
    ran = run("plan", *arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    head = json.loads(ran.out)["headline"]
    assert head["fits"] is False
    assert any(reason in sentence for sentence in head["reasons"])
    assert all(value is None for key, value in head.items() if key not in ("fits", "reasons"))
    assert run("plan", *arguments).out.startswith("Does not fit")


@pytest.mark.parametrize(
    ("flag", "value", "given", "words"),
    [
        ("--model", "mistralai/Mixtral-8x7B", "mistralai/Mixtral-8x7B", "mistralai/Mixtral-8x7B-v0.1"),
        ("--model", "facebook/nllb-moe-54b", "nllb-moe-54b", "encoder-decoder"),
        ("--system", "2x-h100", "2x-h100", "2x-h100-sxm"),
        ("--policy", "trimo", "trimo", "trimoe"),
        ("--trace", "gpt-oss-20b", "gpt-oss-20b", "gpt-oss-20b-decode"),
        ("--trace", "gpt-oss-20b-decode", "gpt-oss-20b-decode", "openai/gpt-oss-20b"),
        ("--set", "model.weight_format=fp9", "fp9", "model.weight_format"),
        ("--set", "policy.expert_format=q4", "q4", "policy.expert_format"),
        ("--set", "system.overrides.gpu.power_limit=3", "gpu.power_limit", "gpu.power_limit_w"),
        ("--set", "system.overrides.gpu.power_limit_w=-3", "-3", "gpu.power_limit_w"),
        ("--set", "policy.options.foo=1", "foo", "takes"),
        ("--set", "policy.tensor_parallel=64", "64", "2 GPUs"),
    ],
)
def test_what_only_the_catalogs_know_is_refused_with_the_nearest(refused, flag, value, given, words):
    sentence = refused("plan", flag, value)
    assert given in sentence
    assert words in sentence


EXTREMES = [
    ["workload.batch=65536"],
    ["workload.batch=1", "workload.prompt_tokens=1", "workload.output_tokens=1", "workload.prefix_hit_share=1"],
    ["workload.output_tokens=1000000", "policy.prefill_chunk_tokens=16"],
    ["workload.requests_per_s=1e9", "workload.target_utilisation=0.001", "workload.slo_tpot_s=1e-300"],
    ["workload.requests_per_s=0", "workload.slo_ttft_s=1e308", "economics.electricity_usd_per_kwh=0"],
    ["routing.sigma=4", "routing.sigma_request=4", "routing.sigma_phase=4", "routing.seed=2147483647"],
    ["policy.micro_batches=256", "policy.weight_bits=1"],
    ["economics.life_years=0.01", "economics.busy_share=0.001", "economics.other_usd_per_month=1e12"],
]


@pytest.mark.parametrize("settings", EXTREMES, ids=lambda settings: settings[0])
def test_the_ends_of_the_ranges_give_an_answer_or_a_sentence(run, settings):
    ran = run("plan", *(f"--set={setting}" for setting in settings), "--json")
    assert ran.code in (0, 2), ran.err
    assert ran.err.count("\n") == (1 if ran.code else 0)
    if ran.code == 0:
        json.loads(ran.out, parse_constant=pytest.fail)  # no NaN and no infinity anywhere


def test_a_config_file_plans_like_its_catalog_model(run):
    import models

    file = Path(models.__file__).parent / "catalog" / "mistralai__Mixtral-8x7B-v0.1.json"
    by_file = json.loads(run("plan", "--config", str(file), "--model", Scenario().model.id, "--json").out)
    by_id = json.loads(run("plan", "--json").out)
    assert by_file["headline"]["tpot_s"] == pytest.approx(by_id["headline"]["tpot_s"])
    again = run("plan", "-", "--json", stdin=json.dumps(by_file).encode())
    assert json.loads(again.out)["headline"] == by_file["headline"]
