"""Small scenarios to compare: a model of 16 layers that plans in milliseconds."""

from __future__ import annotations

from planner.fields import set_paths
from planner.scenario import Scenario

BASE = set_paths(
    Scenario(),
    {
        "model.id": "allenai/OLMoE-1B-7B-0924",
        "system.id": "h100-cxl-ndp",
        "policy.id": "cpu-experts",
        "workload.batch": 4,
        "workload.prompt_tokens": 64,
        "workload.output_tokens": 16,
        "routing.steps": 4,
    },
)
MANY = set_paths(
    BASE,
    {
        "policy.gpu_experts_per_layer": 8,
        "policy.weight_bits": 4,
        "system.overrides.dram.bandwidth_bytes_per_s": 300e9,
        "system.overrides.gpu.price_usd": 20_000,
        "workload.batch": 16,
        "routing.sigma": 0.3,
        "economics.pue": 1.1,
    },
)
