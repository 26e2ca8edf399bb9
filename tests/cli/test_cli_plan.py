"""``plan``: the contract of its JSON, its text, and how file, flags and --set combine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.result import Result
from planner.scenario import Scenario

# The names that the issue promises, written out: the code must not be able to rename them unnoticed.
HEADLINE_KEYS = {
    "fits",
    "reasons",
    "ttft_s",
    "tpot_s",
    "tokens_per_s_user",
    "tokens_per_s_system",
    "tokens_per_s_end_to_end",
    "prefill_tokens_per_s",
    "energy_j_per_output_token",
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
    "usd_per_month",
    "systems_needed",
    "bound_by",
    "intervals",
}


def test_json_has_exactly_the_headline_of_the_contract(run, engine):
    ran = run("plan", "--json")
    assert (ran.code, ran.err) == (0, "")
    answer = json.loads(ran.out)
    assert set(answer["headline"]) == HEADLINE_KEYS
    assert answer["schema_version"] == 1
    assert answer["scenario"]["schema_version"] == 1


def test_json_is_the_whole_result_exactly(run, engine):
    ran = run("plan", "--batch", "7", "--json")
    assert Result.model_validate_json(ran.out) == engine(engine.scenario)
    assert ran.out.isascii()


def test_without_arguments_the_default_scenario_is_planned(run, engine):
    assert run("plan").code == 0
    assert engine.scenario == Scenario()


def test_the_scenario_of_an_answer_gives_the_same_hash_and_headline(run, engine, tmp_path: Path):
    first = json.loads(
        run(
            "plan", "--batch", "7", "--set", "routing.sigma=0.1", "--set", "system.overrides.gpu.tdp_w=1e3", "--json"
        ).out
    )
    (tmp_path / "again.json").write_text(json.dumps(first["scenario"]))
    second = json.loads(run("plan", str(tmp_path / "again.json"), "--json").out)
    assert second["scenario_hash"] == first["scenario_hash"]
    assert second["headline"] == first["headline"]


def test_a_whole_answer_is_read_as_the_scenario_in_it(run, engine):
    first = run("plan", "--batch", "7", "--json")
    second = run("plan", "-", "--json", stdin=first.out.encode())
    assert second == first


def test_a_plan_that_does_not_fit_is_an_answer(run, engine):
    engine.fits = False
    ran = run("plan", "--json")
    assert (ran.code, ran.err) == (0, "")
    headline = json.loads(ran.out)["headline"]
    assert headline["fits"] is False
    assert headline["reasons"]
    assert all(value is None for key, value in headline.items() if key not in ("fits", "reasons"))


def test_text_of_a_plan_that_does_not_fit_says_why_and_what_would(run, engine):
    engine.fits = False
    ran = run("plan")
    assert ran.code == 0
    assert ran.out.startswith("Does not fit")
    assert "the KV cache takes 200 GB and 160 GB are there" in ran.out
    assert "Batch 16 instead of 32" in ran.out
    assert "Headline" not in ran.out


def test_text_has_verdict_figures_units_ranges_time_memory_cost_and_assumptions(run, engine):
    text = run("plan").out
    assert text.startswith("Fits.")
    figures = {line.partition("  ")[0]: " ".join(line.split()) for line in text.splitlines()}
    assert figures["time per output token"] == "time per output token 10.7 ms 8.5 – 13.9"
    assert figures["time to first token"] == "time to first token 0.250 s"
    assert figures["energy at the wall"] == "energy at the wall 0.720 J per output token"
    assert "per million" in figures["input tokens"]
    assert "per month" in figures["cost of the load"]
    for title in ("A decode step: 10.7 ms", "Memory", "Cost (owned)", "What this rests on", "Notes"):
        assert title in text
    assert "\u202f" not in text
    assert "\u00a0" not in text


def test_flags_apply_on_top_of_the_file_and_set_on_top_of_the_flags(run, engine, tmp_path: Path):
    file = tmp_path / "scenario.json"
    file.write_text('{"workload": {"batch": 4, "prompt_tokens": 5, "output_tokens": 6}, "policy": {"id": "monde"}}')
    run("plan", str(file), "--prompt-tokens", "50", "--output-tokens=60", "--set", "workload.output_tokens=600")
    load = engine.scenario.workload
    assert (load.batch, load.prompt_tokens, load.output_tokens) == (4, 50, 600)
    assert engine.scenario.policy.id == "monde"


def test_every_flag_sets_its_field(run, engine):
    run(
        *("plan", "--model", "a/b", "--system", "gh200", "--policy", "trimoe", "--batch", "2", "--prompt-tokens", "3"),
        *("--output-tokens", "4", "--weight-bits", "4.16", "--trace", "gpt-oss-20b-decode", "--seed", "5"),
    )
    scenario = engine.scenario
    assert (scenario.model.id, scenario.system.id, scenario.policy.id) == ("a/b", "gh200", "trimoe")
    load = scenario.workload
    assert (load.batch, load.prompt_tokens, load.output_tokens) == (2, 3, 4)
    assert scenario.policy.weight_bits == 4.16
    routing = scenario.routing
    assert (routing.source, routing.trace, routing.seed) == ("trace", "gpt-oss-20b-decode", 5)


def test_weight_bits_win_over_a_named_format_of_the_file(run, engine):
    file = b'{"policy": {"expert_format": "mxfp4"}}'
    run("plan", "-", "--weight-bits", "8", stdin=file)
    assert (engine.scenario.policy.weight_bits, engine.scenario.policy.expert_format) == (8.0, None)


def test_no_trace_returns_to_the_generator(run, engine):
    file = b'{"routing": {"source": "trace", "trace": "gpt-oss-20b-decode"}}'
    run("plan", "-", "--trace", "none", stdin=file)
    assert (engine.scenario.routing.source, engine.scenario.routing.trace) == ("generated", None)


def test_preset_fills_the_workload_and_flags_go_on_from_there(run, engine):
    from planner.presets import presets

    entry = presets()[0]
    run("plan", "--preset", entry.id, "--batch", "3")
    load = engine.scenario.workload
    assert (load.preset, load.batch, load.slo_ttft_s) == (entry.id, 3, entry.slo_ttft_s)
    assert load.prompt_tokens == entry.workload["prompt_tokens"]


CONFIG = '{"model_type": "mixtral", "time_step_limit": [0.0, Infinity]}'


@pytest.mark.parametrize("flags", [("--model",), ("--config",)])
def test_a_config_file_is_taken_as_the_model(run, engine, tmp_path: Path, flags):
    file = tmp_path / "my-model.json"
    file.write_text(CONFIG)
    ran = run("plan", *flags, str(file), "--json")
    model = engine.scenario.model
    assert model.id == "my-model"
    assert model.config == {"model_type": "mixtral", "time_step_limit": [0.0, "Infinity"]}
    again = run("plan", "-", "--json", stdin=ran.out.encode())
    assert json.loads(again.out)["scenario_hash"] == json.loads(ran.out)["scenario_hash"]


def test_a_file_called_config_is_shown_under_its_folder_or_the_name_given(run, engine, tmp_path: Path):
    folder = tmp_path / "Some-MoE"
    folder.mkdir()
    (folder / "config.json").write_text(CONFIG)
    run("plan", "--config", str(folder / "config.json"))
    assert engine.scenario.model.id == "Some-MoE"
    run("plan", "--config", str(folder / "config.json"), "--model", "ours/v2")
    assert engine.scenario.model.id == "ours/v2"
    assert engine.scenario.model.config is not None


def test_a_model_flag_replaces_a_pasted_config(run, engine):
    run("plan", "-", "--model", "a/b", stdin=b'{"model": {"id": "mine", "config": {"x": 1}}}')
    assert (engine.scenario.model.id, engine.scenario.model.config) == ("a/b", None)


def test_set_takes_json_figures_with_dots_options_and_null(run, engine):
    run(
        *("plan", "--set", 'system.overrides={"gpu.tdp_w": 500, "cpu.cores": 32}', "--set", "workload.slo_tpot_s=0.05"),
        *("--set", "system.overrides.gpu.tdp_w=400", "--set", "system.overrides.cpu.cores=null"),
        *("--set", "policy.options.ndp_compute=gemv", "--set", "policy.options.exact=true"),
        *("--set", "policy.options.groups=3", "--set", "workload.slo_tpot_s=none", "--set", "workload.batch=1,024"),
    )
    scenario = engine.scenario
    assert scenario.system.overrides == {"gpu.tdp_w": 400.0}
    assert scenario.policy.options == {"ndp_compute": "gemv", "exact": True, "groups": 3}
    assert scenario.workload.slo_tpot_s is None
    assert scenario.workload.batch == 1024


def test_fields_that_need_each_other_can_be_set_in_either_order(run, engine):
    pair = ["--set", "routing.source=trace", "--set", "routing.trace=x"]
    for settings in (pair, [*pair[2:], *pair[:2]]):
        assert run("plan", *settings).code == 0
        assert engine.scenario.routing.trace == "x"
