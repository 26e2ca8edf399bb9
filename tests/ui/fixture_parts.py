"""Parts of invented results: placements, steps, ledgers and bills whose sums hold."""

from __future__ import annotations

import math
import random

from planner.result import (
    TIERS,
    Assumption,
    Capacity,
    Cost,
    Domain,
    Energy,
    MemoryItem,
    MemoryTier,
    ModelSummary,
    Placement,
    PlacementClass,
    PolicySummary,
    Result,
    Share,
    Step,
    StepPart,
    SystemSummary,
)
from planner.scenario import Scenario

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


def summaries(layers: int, experts: int, top_k: int, name: str) -> dict:
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


def result(scenario: Scenario, layers: int, experts: int, name: str, top_k: int, **parts: object) -> Result:
    return Result(
        engine_version="0.1-test",
        catalog_digest="f" * 64,
        scenario_hash=scenario.content_hash(),
        scenario=scenario,
        **summaries(layers, experts, top_k, name),
        **parts,
    )


def money(j: float, usd: float) -> dict:
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
