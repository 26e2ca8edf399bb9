"""Mapping rules that hold for a whole kind of run, and figures that engines of a kind have by construction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner import calibration
from planner.accuracy_case import relevant
from tests.measured.measured_cases import HYBRID
from validation.measured.families import COPIERS, PAGEABLE, PROTOTYPES, SERVED_PATHS, STATED, served, stated
from validation.measured.mapping import LEAST_SLOTS, mapped

STREAMED = replace(
    HYBRID,
    model="moonshotai/Kimi-K2-Instruct",
    phase="prefill",
    regime="pcie_stream",
    system_family="sglang+kt-kernel",
    prefill_mode="layerwise_gpu_stream",
    stream_set="all experts",
    gpu_experts_per_layer=80.0,
    weight_bits=4.0,
    weight_bits_note="native INT4",
)
CACHED = replace(
    HYBRID,
    model="Qwen/Qwen3-30B-A3B",
    regime="gpu_expert_cache",
    system_family="imp",
    gpu="RTX 5090 32GB",
    gpu_experts_per_layer=None,
    weight_bits=4.5,
    weight_bits_note="NVFP4",
)


def test_a_form_that_the_label_names_is_stored_with_its_scales() -> None:
    assert mapped(STREAMED).scenario.policy.expert_format == "int4-g32"  # 4 bits and a scale per 32: 4.5


def test_layerwise_prefill_copies_the_experts_kept_for_decode_too() -> None:
    assert mapped(STREAMED).scenario.policy.gpu_experts_per_layer == 0
    assert mapped(replace(STREAMED, stream_set="")).scenario.policy.gpu_experts_per_layer == 80


def test_a_cache_of_unstated_size_is_not_taken_for_a_whole_model() -> None:
    found = mapped(CACHED)
    assert found.scenario.policy.gpu_experts_per_layer == LEAST_SLOTS * 8
    assert any("not stated" in text for text in found.assumed)
    assert mapped(replace(CACHED, cache_fraction=0.5)).scenario.policy.gpu_experts_per_layer == 64
    small = mapped(replace(CACHED, gpu="RTX 4080 16GB", weight_bits=16.0))
    assert small.scenario.policy.gpu_experts_per_layer is None  # memory is the limit, as many as fit


def test_static_offload_keeps_the_stated_share() -> None:
    run = replace(CACHED, regime="pcie_stream", system_family="vllm", cache_fraction=0.25)
    assert mapped(run).scenario.policy.gpu_experts_per_layer == 32
    assert mapped(replace(run, system_family="deepspeed")).scenario.policy.gpu_experts_per_layer == 0


@pytest.mark.parametrize("engine", PROTOTYPES)
def test_research_prototypes_launch_kernel_by_kernel(engine: str) -> None:
    assert mapped(replace(CACHED, system_family=engine)).scenario.policy.cuda_graphs is False
    assert mapped(CACHED).scenario.policy.cuda_graphs is True


def test_fp8_experts_of_kt_kernel_run_on_the_vector_units() -> None:
    run = replace(HYBRID, system_family="sglang+kt-kernel", model="MiniMaxAI/MiniMax-M2", weight_bits=8.0)
    fp8 = mapped(replace(run, weight_bits_note=""))
    assert fp8.scenario.system.overrides["cpu.bf16_flop_per_cycle"] == 1
    assert any("FP8" in text for text in fp8.assumed)
    int8 = mapped(replace(run, weight_bits_note="INT8"))
    assert "cpu.bf16_flop_per_cycle" not in int8.scenario.system.overrides


def test_stated_figures_are_in_the_shipped_calibration() -> None:
    families = calibration.shipped().families
    for s in (*STATED, *served()):
        for engine in s.engines:
            kept = families[engine][s.path]
            assert (kept.value, kept.rows) == (pytest.approx(s.value), 0)
            assert s.low <= s.value <= s.high
    assert {s.path for s in served()} == set(SERVED_PATHS)


def test_stated_figures_hold_in_their_regimes_alone() -> None:
    for engine in (*COPIERS, PAGEABLE):
        assert stated(engine, "pcie_stream")["pcie.host_crossings"] > 1
        assert "pcie.host_crossings" not in stated(engine, "all_gpu")
    assert not stated("freetoken", "pcie_stream")
    assert "cpu.thread_sync_s" in stated("llama.cpp", "cpu_only")
    assert not stated("sglang-cpu", "cpu_only")


def test_the_output_length_tells_cases_apart_end_to_end_alone() -> None:
    case = {"batch": 4.0, "output_tokens": 200.0}
    assert relevant(case, "e2e") == case
    assert relevant(case, "decode") == relevant(case, "prefill") == {"batch": 4.0}
