"""Advice speaks where a scenario departs from a known practice, and only there."""

from __future__ import annotations

import re

import pytest

import planner
from planner.result import Result
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload

SMALL = "Qwen/Qwen3-30B-A3B"


def result(
    system: SystemChoice, policy: str = "cpu-experts", batch: int = 1, form: str = "gguf-q4_k", **work: object
) -> Result:
    scenario = Scenario(
        model=ModelChoice(id=SMALL, weight_format=form),
        system=system,
        policy=PolicyChoice(id=policy, expert_format=form),
        workload=Workload(batch=batch, prompt_tokens=512, output_tokens=64, **work),
    )
    return planner.plan(scenario, with_ranges=False, with_marginals=False)


def ids(found: Result) -> set[str]:
    return {item.id for item in found.advice}


def epyc(**overrides: float) -> SystemChoice:
    return SystemChoice(id="epyc-rtx5090", overrides={path.replace("__", "."): v for path, v in overrides.items()})


def test_a_cpu_without_amx_is_named_with_the_tokens_that_decide() -> None:
    found = result(epyc())
    item = next(item for item in found.advice if item.id == "amx")
    assert "EPYC" in item.text
    assert "1.0 tokens per step" in item.text
    assert item.certainty == "measured"
    assert "amx" not in ids(result(SystemChoice(id="h100-amx-server")))


def test_experts_on_gpus_alone_need_no_advice_on_the_cpu() -> None:
    assert not ids(result(SystemChoice(id="2x-h100-sxm"), "all-gpu", 64, slo_tpot_s=0.1)) & {
        "amx",
        "cores",
        "one_dimm_per_channel",
        "host_memory",
        "offline_batch",
    }


@pytest.mark.parametrize(("cores", "advised"), [(8, True), (15, True), (16, False), (32, False)])
def test_sixteen_physical_cores(cores: int, advised: bool) -> None:
    assert ("cores" in ids(result(epyc(cpu__cores_per_socket=cores)))) is advised


def test_two_modules_per_channel_lose_the_speed_that_the_catalog_says() -> None:
    system = SystemChoice(id="h100-amx-server", overrides={"dram.dimms_per_channel": 2.0})
    item = next(item for item in result(system).advice if item.id == "one_dimm_per_channel")
    assert "4,400 MT/s" in item.text
    assert "4,800" in item.text
    assert re.match(r"9\.?\d*\s%", item.worth)
    single = SystemChoice(id="h100-amx-server", overrides={"dram.dimms_per_channel": 1.0})
    assert "one_dimm_per_channel" not in ids(result(single))


def test_host_memory_below_the_models_need() -> None:
    assert "host_memory" in ids(result(epyc(dram__capacity_bytes=48e9)))
    assert "host_memory" not in ids(result(epyc(dram__capacity_bytes=64e9)))  # 61 GB as published


@pytest.mark.parametrize(
    ("batch", "work", "advised"),
    [
        (64, {}, True),
        (255, {}, True),
        (256, {}, False),
        (64, {"slo_tpot_s": 0.2}, False),
        (1, {}, False),  # one user, not a batch job
        (64, {"preset": "offline-batch"}, True),
    ],
)
def test_offline_work_on_a_hybrid_system_wants_a_large_batch(
    batch: int, work: dict[str, object], advised: bool
) -> None:
    assert ("offline_batch" in ids(result(epyc(), batch=batch, **work))) is advised


def test_a_plan_that_does_not_fit_has_neither_advice_nor_figures_to_watch() -> None:
    found = result(epyc(dram__capacity_bytes=8e9))
    assert not found.headline.fits
    assert found.advice == ()
    assert found.monitor == ()


def test_what_to_watch_repeats_the_plans_own_shares() -> None:
    found = result(epyc())
    watch = {item.id: item for item in found.monitor}
    assert found.decode is not None
    domains = {domain.id: domain for domain in found.decode.domains}
    assert watch["gpu_busy"].predicted == domains["gpu"].busy_share
    assert watch["gpu_busy"].met is (domains["gpu"].busy_share > 0.6)
    assert watch["threads"].target.startswith("32,")
    large = Scenario(
        model=ModelChoice(id="deepseek-ai/DeepSeek-V2"),
        system=SystemChoice(id="trimoe-server"),
        policy=PolicyChoice(id="trimoe"),
        workload=Workload(batch=256, prompt_tokens=64, output_tokens=32),
    )
    near = planner.plan(large, with_ranges=False, with_marginals=False)
    unit = next(item for item in near.monitor if item.id == "ndp_operations")
    assert unit.predicted is not None
    assert 0 < unit.predicted <= 1


@pytest.mark.parametrize(("system", "link"), [("gh200", "Link"), ("1x-h100-sxm", "PCIe")])
def test_a_link_that_is_not_pcie_is_not_called_so(system: str, link: str) -> None:
    found = planner.plan(
        Scenario(
            model=ModelChoice(id="deepseek-ai/DeepSeek-V2"),
            system=SystemChoice(id=system),
            policy=PolicyChoice(id="layer-streaming", weight_bits=4),
            workload=Workload(batch=1, prompt_tokens=64, output_tokens=8),
        ),
        with_ranges=False,
        with_marginals=False,
    )
    (watched,) = (item for item in found.monitor if item.id == "pcie_busy")
    assert watched.what == f"{link} utilisation, host to GPU"
