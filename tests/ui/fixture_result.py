"""Results with invented numbers whose sums hold: a large plan, a small one, one that does not fit, one that cannot run.

They stand in for the engine while the pages are tested; nothing here is a figure of any real machine.
"""

from __future__ import annotations

import math
import random
from functools import cache

from planner.result import (
    TIERS,
    Assumption,
    Capacity,
    Change,
    Cost,
    Domain,
    Energy,
    Headline,
    Marginal,
    Memory,
    MemoryItem,
    MemoryTier,
    ModelSummary,
    Placement,
    PlacementClass,
    PolicySummary,
    Prefill,
    Result,
    Share,
    Step,
    StepPart,
    SystemSummary,
)
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload

GB = 1e9


def placement(
    layers: int, experts: int, tokens: float, cut: list[tuple[str, float, str, float]], seed: int
) -> Placement:
    """Experts of each layer in classes by a noisy view of their load; ``cut``: (tier, bits, format, share)."""
    rng = random.Random(seed)
    load, learned, klass = [], [], []
    for _ in range(layers):
        weight = [math.exp(rng.gauss(0, 1.0)) for _ in range(experts)]
        total = sum(weight)
        row = [tokens * w / total for w in weight]
        seen = [w / total * math.exp(rng.gauss(0, 0.15)) for w in weight]
        order = sorted(range(experts), key=lambda e: -seen[e])
        classes = [0] * experts
        at = 0
        for index, (_, _, _, part) in enumerate(cut):
            stop = (
                experts if index == len(cut) - 1 else min(experts, at + round(part * experts * rng.uniform(0.8, 1.2)))
            )
            for expert in order[at:stop]:
                classes[expert] = index
            at = stop
        load.append(tuple(row))
        learned.append(tuple(seen))
        klass.append(tuple(classes))
    everything = sum(map(sum, load))
    kinds = []
    for index, (tier, width, form, _) in enumerate(cut):
        members = [(i, e) for i in range(layers) for e in range(experts) if klass[i][e] == index]
        kinds.append(
            PlacementClass(
                tier=tier,
                bits=width,
                format=form,
                experts=len(members),
                token_share=sum(load[i][e] for i, e in members) / everything,
                why=f"among the {('busiest', 'warm', 'cool', 'coldest')[min(index, 3)]} experts of its layer",
            )
        )
    return Placement(
        layers=tuple(range(1, layers + 1)),
        tier=tuple(tuple(TIERS.index(cut[k][0]) for k in row) for row in klass),
        bits=tuple(tuple(cut[k][1] for k in row) for row in klass),
        load=tuple(load),
        learned=tuple(learned),
        klass=tuple(klass),
        classes=tuple(kinds),
        learned_on="learnt on the first half of the generated tokens, timed on the second half",
        distinct_experts_per_layer=min(experts, 0.97 * experts),
        tokens_per_pass=int(tokens / 6) or 1,
    )


def step(parts: list[tuple[str, str, float, float]], bound: str, tokens: int) -> Step:
    total = sum(part[3] for part in parts)
    lanes: dict[str, float] = {}
    for _, lane, busy, _ in parts:
        lanes[lane] = lanes.get(lane, 0.0) + busy
    names = {"gpu": "GPU", "cpu": "CPU", "ndp": "DIMM-NDP", "link": "PCIe link", "overhead": "Launch and sync"}
    return Step(
        total_s=total,
        standard_error_s=0.004 * total,
        p99_s=1.06 * total,
        samples=16,
        tokens=tokens,
        parts=tuple(StepPart(part=p, lane=lane, busy_s=b, exposed_s=e) for p, lane, b, e in parts),
        domains=tuple(
            Domain(
                id=lane,
                name=names.get(lane, lane),
                busy_s=busy,
                busy_share=busy / total,
                flop_share=0.21 if lane in ("gpu", "cpu", "ndp") else None,
                bytes=busy * 2e11,
                byte_share=0.61,
            )
            for lane, busy in lanes.items()
        ),
        bound_by=bound,
        bound_shares={bound: 0.88, "hbm": 0.12} if bound != "hbm" else {"hbm": 1.0},
        fixed_s=0.012,
        byte_floor_s=0.7 * total,
        flop_floor_s=0.1 * total,
    )


def tier(name: str, ident: str, capacity: float, items: list[tuple[str, float]], devices: int = 1) -> MemoryTier:
    used = sum(value for _, value in items)
    return MemoryTier(
        tier=ident,
        name=name,
        devices=devices,
        capacity_bytes=capacity * GB,
        items=tuple(MemoryItem(name=n, bytes=v * GB) for n, v in items),
        used_bytes=used * GB,
        free_bytes=(capacity - used) * GB,
        fullest_device_bytes=used * GB / devices,
        device_capacity_bytes=capacity * GB / devices,
    )


def shares(values: list[tuple[str, str, float]]) -> tuple[Share, ...]:
    return tuple(Share(id=i, name=n, value=v) for i, n, v in values)


ASSUMPTIONS = (
    Assumption(
        path="policy.weight_bits",
        label="Expert bits on CPU",
        value=8.0,
        unit="bit",
        source="your choice in Policy",
        kind="assumed",
        edited=True,
        moves_tpot=(-0.31, -0.31),
    ),
    Assumption(
        path="dram.read_efficiency",
        label="Host DRAM, achieved share of peak",
        value=0.78,
        unit="",
        low=0.68,
        high=0.86,
        source="STREAM on Xeon 8470",
        date="2025-06",
        kind="measured",
        moves_tpot=(0.14, -0.09),
        moves_cost=(0.13, -0.08),
    ),
    Assumption(
        path="routing.sigma",
        label="Load skew σ of experts",
        value=0.7,
        unit="",
        low=0.5,
        high=0.9,
        source="4 traces, held-out tokens",
        kind="fitted",
        moves_tpot=(0.08, -0.05),
    ),
    Assumption(
        path="gpu.price_usd",
        label="GPU price",
        value=28000.0,
        unit="USD",
        low=24000.0,
        high=33000.0,
        source="list prices",
        date="2024-12",
        kind="datasheet",
        moves_tpot=(0.0, 0.0),
        moves_cost=(-0.07, 0.09),
    ),
)


def _summaries(layers: int, experts: int, top_k: int, name: str) -> dict:
    return {
        "model": ModelSummary(
            id=name,
            name=name.split("/")[-1],
            parameters_total=235_741_434_880,
            parameters_main=235_741_434_880,
            parameters_active=21_388_206_080,
            layers=layers + 1,
            moe_layers=layers,
            experts=experts,
            top_k=top_k,
            shared_experts=2,
            expert_parameters=23_592_960,
            native_format="bf16",
            kv_bytes_per_token=69_120.0,
            sentence=f"236 B parameters, 21 B active per token; {layers} MoE layers × {experts} experts",
        ),
        "system": SystemSummary(
            id="trimoe-server",
            name="TriMoE server",
            sentence="1 × H100 PCIe 80 GiB; 40-core Xeon with AMX; 16 × 128 GiB DDR5-4800 with NDP",
            nodes=1,
            gpus=1,
            as_published=True,
        ),
        "policy": PolicySummary(
            id="trimoe",
            name="TriMoE, three domains",
            sentence="Hot experts stay on the GPU, warm ones are computed by the CPU, cold ones by NDP on the DIMMs.",
            kv_location="gpu",
            attention_device="gpu",
            prefill="gpu",
            gpu_format="BF16",
            expert_format="INT8 and INT4",
            parallelism="one GPU",
            gpu_experts_per_layer=8.0,
            source="TriMoE, 2026",
        ),
    }


def _result(scenario: Scenario, layers: int, experts: int, name: str, top_k: int, **parts: object) -> Result:
    return Result(
        engine_version="0.1-test",
        catalog_digest="f" * 64,
        scenario_hash=scenario.content_hash(),
        scenario=scenario,
        **_summaries(layers, experts, top_k, name),
        **parts,
    )


def _money(j: float, usd: float) -> dict:
    energy = [
        ("gpu", "GPU", 0.3625),
        ("cpu", "CPU", 0.3236),
        ("dimms", "DIMMs", 0.1361),
        ("ndp", "DIMM-NDP", 0.05),
        ("chassis", "Chassis and links", 0.1278),
    ]
    cost = [
        ("gpu", "GPU", 0.4706),
        ("cpu", "CPU", 0.1563),
        ("dimms", "DIMMs", 0.2021),
        ("ndp", "DIMM-NDP", 0.05),
        ("chassis", "Chassis and links", 0.0958),
        ("electricity", "Electricity while working", 0.0252),
    ]
    return {
        "energy": Energy(
            by_device=shares([(i, n, v * j) for i, n, v in energy]),
            by_movement=shares(
                [
                    ("static", "static", 0.3 * j),
                    ("compute", "compute", 0.2 * j),
                    ("hbm", "HBM", 0.2 * j),
                    ("dram", "DRAM", 0.25 * j),
                    ("link", "link", 0.05 * j),
                ]
            ),
            j_per_output_token=j,
            j_per_input_token=0.2 * j,
            average_w=634.0,
            peak_w=910.0,
            kwh_per_month=420.0,
            gco2e_per_million_output_tokens=92.0,
        ),
        "cost": Cost(
            mode="owned",
            capex_usd=62_000.0,
            bill_of_materials=shares(
                [
                    ("gpu", "GPU", 28_000.0),
                    ("cpu", "CPU", 9_000.0),
                    ("dimms", "DIMMs", 14_000.0),
                    ("ndp", "DIMM-NDP", 5_000.0),
                    ("chassis", "Chassis and links", 6_000.0),
                ]
            ),
            by_part=shares([(i, n, v * usd) for i, n, v in cost]),
            usd_per_hour=2.27,
            usd_per_million_input_tokens=0.3 * usd,
            usd_per_million_output_tokens=usd,
            usd_per_month_one_system=1_660.0,
        ),
        "capacity": Capacity(
            load_requests_per_s=None,
            system_requests_per_s=2.9,
            systems_needed=1,
            spare_systems=0,
            usd_per_month=1_660.0,
            average_kw=0.634,
        ),
    }


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
    return _result(
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
        **_money(0.72, 1.19),
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
    return _result(
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
        **_money(1.05, 0.88),
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
    return _result(
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
    return _result(
        scenario,
        32,
        8,
        "mistralai/Mixtral-8x7B-v0.1",
        2,
        headline=Headline(fits=False, reasons=("TriMoE needs NDP on the DIMMs, which 2 × H100 SXM does not have.",)),
    )
