"""Results with invented numbers whose sums hold: a large plan, a small one, one that does not fit, one that cannot run.

They stand in for the engine while the pages are tested; nothing here is a figure of any real machine.
"""

from __future__ import annotations

from functools import cache

from planner.result import Change, Headline, Marginal, Memory, Prefill, Result
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from tests.ui.fixture_parts import ASSUMPTIONS, money, placement, result, step, tier


@cache
def large() -> Result:
    """59 layers x 160 experts in three domains, batch 512."""
    scenario = Scenario(
        model=ModelChoice(id="deepseek-ai/DeepSeek-V2"),
        system=SystemChoice(id="trimoe-server"),
        workload=Workload(preset="offline-batch", batch=512, prompt_tokens=512, output_tokens=256, slo_tpot_s=1.0),
        policy=PolicyChoice(id="trimoe", weight_bits=8.0),
    )
    decode = step(
        [
            ("attention", "gpu", 0.031, 0.031),
            ("dense_shared", "gpu", 0.014, 0.014),
            ("routed_gpu", "gpu", 0.268, 0.0),
            ("routed_cpu", "cpu", 0.513, 0.513),
            ("routed_ndp", "ndp", 0.431, 0.0),
            ("link", "link", 0.222, 0.010),
            ("overhead", "overhead", 0.014, 0.014),
        ],
        "dram",
        512,
    )
    prefill = step(
        [
            ("attention", "gpu", 0.9, 0.9),
            ("dense_shared", "gpu", 0.6, 0.6),
            ("routed_gpu", "gpu", 1.5, 0.4),
            ("link", "link", 2.1, 1.18),
            ("overhead", "overhead", 0.02, 0.02),
        ],
        "link",
        8192,
    )
    tpot = decode.total_s
    return result(
        scenario,
        59,
        160,
        "deepseek-ai/DeepSeek-V2",
        6,
        headline=Headline(
            fits=True,
            ttft_s=3.1,
            tpot_s=tpot,
            tokens_per_s_user=1 / tpot,
            tokens_per_s_system=512 / tpot,
            tokens_per_s_end_to_end=402.0,
            prefill_tokens_per_s=2640.0,
            energy_j_per_output_token=0.72,
            usd_per_million_input_tokens=0.357,
            usd_per_million_output_tokens=1.19,
            usd_per_month=1660.0,
            systems_needed=1,
            bound_by="dram",
            intervals={
                "ttft_s": (2.6, 3.9),
                "tpot_s": (0.49, 0.70),
                "tokens_per_s_system": (731.0, 1040.0),
                "energy_j_per_output_token": (0.6, 0.86),
                "usd_per_million_output_tokens": (0.95, 1.52),
            },
        ),
        placement=placement(
            59,
            160,
            512 * 6.0,
            [
                ("gpu", 16, "bf16", 0.05),
                ("host", 8, "int8", 0.275),
                ("dimm_ndp", 8, "int8", 0.225),
                ("dimm_ndp", 4, "int4", 0.45),
            ],
            3,
        ),
        decode=decode,
        prefill=Prefill(
            step=prefill,
            mode="stream",
            tokens_per_pass=8192,
            passes_per_prompt=1,
            prompt_s=3.1,
            alternatives={"stream": 3.1, "cpu": 9.4, "gpu": None},
        ),
        memory=Memory(
            tiers=(
                tier(
                    "GPU HBM",
                    "gpu",
                    85.9,
                    [
                        ("attention", 17.9),
                        ("dense and shared", 8.1),
                        ("experts on GPU", 22.3),
                        ("KV cache", 27.2),
                        ("activations", 1.9),
                        ("reserve", 3.2),
                    ],
                ),
                tier(
                    "Host DIMMs",
                    "host",
                    2200.0,
                    [("experts on CPU", 61.3), ("experts on NDP", 102.0), ("reserve", 44.0)],
                ),
            ),
            largest_batch=611,
            largest_context_tokens=917,
        ),
        **money(0.72, 1.19),
        assumptions=ASSUMPTIONS,
        marginals=(
            Marginal(
                resource="dram",
                unit="one more memory channel",
                tpot_change=-0.048,
                tokens_per_s_system_change=44.0,
                usd_change=310.0,
            ),
            Marginal(
                resource="gpu",
                unit="one more GPU",
                tpot_change=-0.004,
                tokens_per_s_system_change=3.5,
                usd_change=28_000.0,
            ),
        ),
        warnings=("NDP rates are published simulation: outside what was validated.",),
    )


@cache
def small() -> Result:
    """32 layers x 8 experts, all of them in HBM at 16 bit."""
    scenario = Scenario()
    decode = step(
        [
            ("attention", "gpu", 0.0041, 0.0041),
            ("dense_shared", "gpu", 0.0004, 0.0004),
            ("routed_gpu", "gpu", 0.0152, 0.0152),
            ("collective", "network", 0.0013, 0.0009),
            ("overhead", "overhead", 0.0006, 0.0006),
        ],
        "hbm",
        32,
    )
    tpot = decode.total_s
    return result(
        scenario,
        32,
        8,
        "mistralai/Mixtral-8x7B-v0.1",
        2,
        headline=Headline(
            fits=True,
            ttft_s=0.061,
            tpot_s=tpot,
            tokens_per_s_user=1 / tpot,
            tokens_per_s_system=32 / tpot,
            tokens_per_s_end_to_end=1190.0,
            prefill_tokens_per_s=16_800.0,
            energy_j_per_output_token=1.05,
            usd_per_million_input_tokens=0.05,
            usd_per_million_output_tokens=0.88,
            usd_per_month=3410.0,
            systems_needed=1,
            bound_by="hbm",
        ),
        placement=placement(32, 8, 64.0, [("gpu", 16, "bf16", 1.0)], 5),
        decode=decode,
        memory=Memory(
            tiers=(
                tier(
                    "GPU HBM",
                    "gpu",
                    171.8,
                    [
                        ("attention", 2.9),
                        ("dense and shared", 0.6),
                        ("experts on GPU", 90.2),
                        ("KV cache", 5.4),
                        ("activations", 1.2),
                        ("reserve", 6.4),
                    ],
                    2,
                ),
            ),
            largest_batch=390,
            largest_context_tokens=15_600,
        ),
        **money(1.05, 0.88),
        assumptions=ASSUMPTIONS[1:],
    )


@cache
def unfit() -> Result:
    """56 layers x 8 experts on CXL-NDP; the KV cache does not fit into HBM."""
    scenario = Scenario(
        model=ModelChoice(id="mistralai/Mixtral-8x22B-v0.1"),
        system=SystemChoice(id="h100-cxl-ndp"),
        workload=Workload(batch=64, prompt_tokens=4096, output_tokens=1024),
        policy=PolicyChoice(id="context-aware", weight_bits=3.0),
    )
    return result(
        scenario,
        56,
        8,
        "mistralai/Mixtral-8x22B-v0.1",
        2,
        headline=Headline(fits=False, reasons=("GPU HBM needs 91.9 GB and has 85.9 GB.",)),
        placement=placement(
            56,
            8,
            128.0,
            [("cxl_ndp", 4, "gptq4", 0.22), ("cxl_ndp", 3, "gptq3", 0.57), ("cxl_ndp", 2, "gptq2", 0.21)],
            7,
        ),
        memory=Memory(
            tiers=(
                tier(
                    "GPU HBM",
                    "gpu",
                    85.9,
                    [
                        ("attention", 9.9),
                        ("dense and shared", 0.8),
                        ("expert buffer", 1.2),
                        ("KV cache", 75.2),
                        ("activations", 1.6),
                        ("reserve", 3.2),
                    ],
                ),
                tier("CXL-NDP", "cxl_ndp", 512.0, [("experts on CXL-NDP", 50.8)]),
            ),
            first_unfit="the KV cache",
            largest_batch=58,
            largest_context_tokens=4690,
            changes=(
                Change(
                    text="Batch 58 instead of 64",
                    set={"workload.batch": 58},
                    fits=True,
                    tier_used_bytes=84.8e9,
                    tier_capacity_bytes=85.9e9,
                    tpot_s=0.118,
                    tokens_per_s_system=492.0,
                    usd_per_million_output_tokens=1.74,
                ),
                Change(
                    text="KV cache FP8 instead of BF16",
                    set={"model.kv_format": "fp8"},
                    fits=True,
                    tier_used_bytes=54.3e9,
                    tier_capacity_bytes=85.9e9,
                    tpot_s=0.104,
                    tokens_per_s_system=615.0,
                    usd_per_million_output_tokens=1.39,
                ),
                Change(
                    text="Weights on the GPU in INT4 instead of BF16",
                    set={"model.weight_format": "int4-g128"},
                    fits=False,
                ),
            ),
        ),
        assumptions=ASSUMPTIONS[1:3],
    )


@cache
def lacking() -> Result:
    """A policy whose parts the system lacks: an answer without ledger, step or cost."""
    scenario = Scenario(policy=PolicyChoice(id="trimoe"))
    return result(
        scenario,
        32,
        8,
        "mistralai/Mixtral-8x7B-v0.1",
        2,
        headline=Headline(fits=False, reasons=("TriMoE needs NDP on the DIMMs, which 2 × H100 SXM does not have.",)),
    )
