"""Scenarios to throw at the engine: models of every kind, every policy, layouts, formats and options."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from hardware import load_system, path_schema, systems
from planner.machine import machine
from planner.policies import catalog, get
from planner.scenario import Scenario

POLICIES = tuple(entry.id for entry in catalog())
PUBLISHED = ("all-gpu", "layer-streaming", "cpu-experts", "monde", "context-aware", "trimoe")
OPTIONS = {entry.id: entry.options for entry in catalog()}

# One of each kind: grouped-query, latent (MLA) with MTP and FP8 blocks, FP4-native with windows, DeltaNet hybrid,
# Mamba hybrid, Mamba-2 with layers without attention, interleaved MoE with a shared expert, residual MLP, indexer.
MODELS = (
    "mistralai/Mixtral-8x7B-v0.1",
    "allenai/OLMoE-1B-7B-0924",
    "deepseek-ai/DeepSeek-V2-Lite",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "ai21labs/AI21-Jamba-Mini-1.5",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "Snowflake/snowflake-arctic-instruct",
    "moonshotai/Kimi-K2-Instruct",
    "zai-org/GLM-4.5-Air",
    "MiniMaxAI/MiniMax-M1-80k",
)
SYSTEMS = tuple(entry.id for entry in systems())
EXPERT_FORMATS = ("bf16", "fp8-block", "int8", "int4-g128", "mxfp4", "nvfp4", "gguf-q4_k", "gguf-iq2_xs", "gptq-2-g128")
# Machines on which each policy can run at all, from those that it was made for to odd ones.
CAPABLE: dict[str, tuple[str, ...]] = {
    policy: tuple(s for s in SYSTEMS if not get(policy).missing(machine(load_system(s)))) for policy in POLICIES
}


def scenario(**parts: Any) -> Scenario:
    """A scenario from ``part__field=value`` keywords, checked as a whole."""
    data: dict[str, dict[str, Any]] = {}
    for path, value in parts.items():
        part, name = path.split("__", 1)
        data.setdefault(part, {})[name] = value
    return Scenario.model_validate(data)


def changed(base: Scenario, **parts: Any) -> Scenario:
    """A copy with ``part__field=value`` changed, checked as a whole."""
    data = base.model_dump()
    for path, value in parts.items():
        part, name = path.split("__", 1)
        data[part][name] = value
    return Scenario.model_validate(data)


@st.composite
def options_of(draw: st.DrawFn, policy: str) -> dict[str, Any]:
    """Some legal options of a policy."""
    chosen: dict[str, Any] = {}
    for option in OPTIONS[policy]:
        if not draw(st.booleans()):
            continue
        if option.type == "bool":
            chosen[option.name] = draw(st.booleans())
        elif option.type == "choice":
            chosen[option.name] = draw(st.sampled_from(option.choices))
        elif option.type == "int":
            low, most = int(option.low or 0), 8 if option.high is None else int(option.high)
            chosen[option.name] = draw(st.integers(low, max(low, min(low + 8, most))))
        elif option.type == "float":
            high = max(1.0, 2.0 * float(option.default)) if option.high is None else option.high
            chosen[option.name] = draw(st.floats(option.low or 0.0, high))
    return chosen


@st.composite
def scenarios(draw: st.DrawFn, policies: tuple[str, ...] = POLICIES, largest_batch: int = 4096) -> Scenario:
    """Any legal scenario of a policy on a machine that has its parts; it may or may not fit."""
    policy = draw(st.sampled_from(policies))
    batch = draw(st.one_of(st.sampled_from((1, 2, 16, 17, 64)), st.integers(1, largest_batch)))
    workload = {
        "batch": batch,
        "prompt_tokens": draw(st.one_of(st.sampled_from((1, 1024, 8192)), st.integers(1, 200_000))),
        "output_tokens": draw(st.one_of(st.sampled_from((1, 2, 256)), st.integers(1, 20_000))),
        "prefix_hit_share": draw(st.sampled_from((0.0, 0.0, 0.5, 1.0))),
        "draft_tokens": draw(st.sampled_from((0, 0, 1, 3))),
        "draft_acceptance": draw(st.sampled_from((0.0, 0.7, 1.0))),
        "requests_per_s": draw(st.sampled_from((None, None, 0.0, 3.0))),
        "spare_systems": draw(st.sampled_from((0, 1))),
    }
    chosen: dict[str, Any] = {
        "id": policy,
        "kv_location": draw(st.sampled_from(("auto", "auto", "gpu", "host"))),
        "attention_device": draw(st.sampled_from(("auto", "auto", "gpu", "cpu"))),
        "prefill_chunk_tokens": draw(st.sampled_from((16, 512, 8192, 8192, 100_000))),
        "micro_batches": draw(st.sampled_from((1, 1, 2, 5))),
        "cuda_graphs": draw(st.booleans()),
        "gpu_experts_per_layer": draw(st.sampled_from((None, None, 0, 1, 4, 8))),
        "options": draw(options_of(policy)),
    }
    width = draw(st.sampled_from(("none", "none", "bits", "format")))
    if width == "bits":
        chosen["weight_bits"] = draw(st.sampled_from((1.0, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 16.0)))
    elif width == "format":
        chosen["expert_format"] = draw(st.sampled_from(EXPERT_FORMATS))
    if policy == "all-gpu" and draw(st.booleans()):
        chosen["tensor_parallel"] = draw(st.sampled_from((None, 1, 2, 4, 8)))
        chosen["pipeline_parallel"] = draw(st.sampled_from((None, None, 2, 4)))
        chosen["data_parallel"] = draw(st.sampled_from((None, None, 2, 8)))
        chosen["expert_parallel"] = draw(st.sampled_from((None, False, True)))
    return Scenario.model_validate(
        {
            "model": {
                "id": draw(st.sampled_from(MODELS)),
                "weight_format": draw(
                    st.sampled_from(("native", "native", "native", "bf16", "fp8-block", "int4-g128"))
                ),
                "kv_format": draw(st.sampled_from(("bf16", "bf16", "fp8", "int8", "int4"))),
            },
            "system": {"id": draw(st.sampled_from(CAPABLE[policy]))},
            "workload": workload,
            "routing": {
                "source": draw(st.sampled_from(("generated", "generated", "uniform"))),
                "sigma": draw(st.sampled_from((0.0, 0.7, 2.0))),
                "distribution": draw(st.sampled_from(("lognormal", "gamma"))),
                "seed": draw(st.integers(0, 3)),
                "steps": draw(st.sampled_from((1, 2, 4))),  # few: what is tested here holds for any number
            },
            "policy": chosen,
            "economics": {
                "mode": draw(st.sampled_from(("owned", "rented"))),
                "busy_share": draw(st.sampled_from((0.05, 0.6, 1.0))),
                "rent_usd_per_hour": draw(st.sampled_from((10.0, 0.0))),
                "other_usd_per_month": draw(st.sampled_from((0.0, 100.0))),
            },
        }
    )


@st.composite
def stretched(draw: st.DrawFn, policies: tuple[str, ...] = PUBLISHED) -> Scenario:
    """A scenario whose machine has some figures a hundred times larger or smaller, more nodes or other GPU counts."""
    chosen = draw(scenarios(policies, largest_batch=64))
    system = load_system(chosen.system.id)
    overrides: dict[str, float] = {}
    there = [s for s in path_schema() if s.unit not in ("count", "USD") and system.get(s.path)]
    for spec in draw(st.lists(st.sampled_from(there), max_size=6)):
        value = (system.get(spec.path) or 0.0) * 10 ** draw(st.floats(-2, 2))
        value = min(max(value, spec.lower), spec.upper)
        overrides[spec.path] = float(round(value)) if spec.integer else value
    if draw(st.booleans()):
        overrides["node.count"] = draw(st.sampled_from((1.0, 2.0, 3.0)))
    if draw(st.booleans()):
        overrides["gpu.count_per_node"] = draw(st.sampled_from((1.0, 2.0, 3.0, 8.0)))
    return changed(chosen, system__overrides=overrides)


@lru_cache(maxsize=1)
def ordinary() -> tuple[Scenario, ...]:
    """A scenario that fits for each policy, or several where a policy has really different ways to run."""
    mixtral, olmoe, lite = MODELS[0], MODELS[1], MODELS[2]
    made = [
        scenario(model__id=mixtral, system__id="2x-h100-sxm", workload__batch=32),
        scenario(
            model__id="deepseek-ai/DeepSeek-V3",
            system__id="16x-h200-sxm",
            workload__batch=512,
            policy__expert_parallel=True,
            policy__tensor_parallel=16,
        ),
        scenario(
            model__id=mixtral,
            system__id="8x-h100-sxm",
            workload__batch=24,
            policy__pipeline_parallel=4,
            policy__micro_batches=8,
        ),
        scenario(model__id=lite, system__id="4x-mi300x", workload__batch=64, policy__data_parallel=2),
        scenario(
            model__id=mixtral,
            system__id="desktop-rtx4090",
            policy__id="layer-streaming",
            policy__weight_bits=4,
            model__weight_format="int4-g128",
        ),
        scenario(model__id=lite, system__id="h100-amx-server", policy__id="cpu-experts", workload__batch=8),
        scenario(model__id=mixtral, system__id="h100-cxl-ndp", policy__id="monde", workload__batch=4),
        scenario(model__id=olmoe, system__id="trimoe-server", policy__id="monde", workload__batch=16),
        scenario(model__id=mixtral, system__id="h100-cxl-ndp", policy__id="context-aware", workload__batch=1),
        scenario(model__id=lite, system__id="trimoe-server", policy__id="trimoe", workload__batch=64),
    ]
    known = {s.policy.id for s in made}
    made.extend(
        scenario(model__id=olmoe, system__id=CAPABLE[policy][-1], policy__id=policy, workload__batch=4)
        for policy in POLICIES
        if policy not in known
    )
    return tuple(made)


def named(chosen: Scenario) -> str:
    """A short name of a scenario, for the ids of tests."""
    return f"{chosen.policy.id}-{chosen.model.id.rpartition('/')[2]}-{chosen.system.id}"


def rates_times(chosen: Scenario, factor: float) -> dict[str, float]:
    """Overrides that multiply every rate of the scenario's machine (FLOP/s and bytes/s of all devices and links)."""
    system = load_system(chosen.system.id, chosen.system.overrides)
    rates = {}
    for spec in path_schema():
        value = system.get(spec.path)
        if spec.unit in ("FLOP/s", "OP/s", "bytes/s") and value:
            rates[spec.path] = value * factor
    return rates
