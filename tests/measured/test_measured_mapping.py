"""What a measured run becomes: one scenario, without anything that the run found out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.measured.measured_cases import HYBRID, SERVED
from validation.measured.families import family
from validation.measured.machine import UnmappableError
from validation.measured.mapping import mapped
from validation.measured.predict import in_unit, predict


def test_a_hybrid_run_is_cpu_experts_on_its_own_machine() -> None:
    scenario = mapped(HYBRID).scenario
    assert scenario.policy.id == "cpu-experts"
    assert scenario.policy.gpu_experts_per_layer == 0
    assert scenario.policy.expert_format == "gguf-q4_k"  # as labelled; 4.8 bits are its mix with others
    assert scenario.system.gpu == "rtx-4090d-24gb"
    assert scenario.system.cpu == "xeon-6454s"
    assert scenario.system.overrides["dram.bandwidth_bytes_per_s"] == pytest.approx(307.2e9)
    assert scenario.workload.batch == 1
    assert scenario.workload.prompt_tokens == 500


def test_llama_cpp_splits_by_layers() -> None:
    run = replace(HYBRID, system_family="llama.cpp", gpu_layers_with_experts=18.0)
    scenario = mapped(run).scenario
    assert scenario.policy.id == "static-split"
    assert scenario.policy.options["cpu_layers"] == 40


def test_depth_of_a_prefill_is_found_in_the_cache() -> None:
    scenario = mapped(replace(HYBRID, phase="prefill", input_len=512.0, context_depth=1536.0)).scenario
    assert scenario.workload.prompt_tokens == 2048
    assert scenario.workload.prefix_hit_share == pytest.approx(0.75)


def test_two_sockets_without_numa_count_as_one() -> None:
    aware = mapped(replace(HYBRID, sockets=2, numa_mode="aware", mem_GBps_theoretical=614.4)).scenario
    unaware = mapped(replace(HYBRID, sockets=2, numa_mode="unaware", mem_GBps_theoretical=614.4)).scenario
    assert aware.system.overrides["cpu.sockets"] == 2
    assert aware.system.overrides["dram.bandwidth_bytes_per_s"] == pytest.approx(614.4e9)
    assert unaware.system.overrides["cpu.sockets"] == 1
    assert unaware.system.overrides["dram.bandwidth_bytes_per_s"] == pytest.approx(307.2e9)


def test_outcomes_are_no_inputs() -> None:
    for run in (HYBRID, SERVED):
        other = replace(run, tokens_per_s=1.0, ttft_ms=1.0, tpot_ms=1.0)
        assert mapped(other).scenario == mapped(run).scenario


def test_fewer_experts_per_token_change_the_config() -> None:
    scenario = mapped(replace(HYBRID, top_k_used=6)).scenario
    assert scenario.model.config is not None
    assert scenario.model.config["num_experts_per_tok"] == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpu": "RTX 4090 25GB"}, "nearest"),
        ({"cpu": "Xeon Gold 6454"}, "nearest"),
        ({"model": "DeepSeek-V33"}, "nearest"),
        ({"regime": "abacus"}, "abacus"),
        ({"gpu": None, "cpu": None}, "neither"),
    ],
)
def test_what_cannot_be_mapped_says_why(change: dict[str, object], words: str) -> None:
    with pytest.raises(UnmappableError, match=words):
        mapped(replace(HYBRID, **change))  # type: ignore[arg-type]


def test_a_family_is_the_engine_and_its_generation() -> None:
    assert family(SERVED) == "vllm"
    assert family(replace(SERVED, system_version="vLLM 0.7.4.dev181")) == "vllm-early"
    assert family(replace(SERVED, system_version="vLLM 0.11.2")) == "vllm"
    assert family(replace(SERVED, system_version="vLLM (ROCm, early 2025)")) == "vllm-early"
    assert family(HYBRID) == "ktransformers"


def test_rates_are_of_what_the_run_counts() -> None:
    workload = mapped(SERVED).scenario.workload
    figures = {
        "tokens_per_s_end_to_end": 1600.0,
        "tokens_per_s_system": 2000.0,
        "prefill_tokens_per_s": 9000.0,
        "tpot_s": 0.008,
    }
    assert in_unit(SERVED, figures, 0.1, workload) == pytest.approx(1600.0)
    assert in_unit(replace(SERVED, per="request"), figures, 0.1, workload) == pytest.approx(100.0)
    both = replace(SERVED, tokens_counted="input+output")
    assert in_unit(both, figures, 0.1, workload) == pytest.approx(1600.0 * 1200 / 200)
    assert in_unit(replace(SERVED, phase="prefill", per="request"), figures, 0.1, workload) == pytest.approx(10_000.0)


def test_more_requests_than_the_cache_holds_wait() -> None:
    found, case = predict(replace(SERVED, concurrency=20_000.0, input_len=8000.0))
    assert case is not None
    assert case.scenario.workload.batch == found.running < 20_000
    assert any("run at once" in note for note in found.notes)


def test_an_early_engine_has_the_coefficients_of_its_generation() -> None:
    early = replace(SERVED, system_version="vLLM 0.7.4")
    assert mapped(early).scenario.policy.engine == "vllm-early"
    assert mapped(SERVED).scenario.policy.engine == "vllm"
    assert mapped(replace(SERVED, system_family="an engine of one's own")).scenario.policy.engine is None
