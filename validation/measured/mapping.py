"""From a measured run to a scenario: one documented mapping, no outcome of the run among its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import models
from planner.fields import ScenarioError, validated
from planner.scenario import Scenario
from validation.measured.machine import UnmappableError, device_of, system_fields
from validation.measured.model_of import model_fields, model_id
from validation.measured.policy_of import CHUNK, own_prompts, policy_fields
from validation.measured.runs import Run

PROMPT, OUTPUT = 512, 128
"""Tokens of a run that does not say: what llama-bench runs when nothing else is asked for."""


@dataclass(frozen=True)
class Mapped:
    """A run's scenario, and what had to be assumed for it."""

    run: Run
    scenario: Scenario
    regime: str
    assumed: tuple[str, ...] = ()


def mapped(run: Run) -> Mapped:
    """The scenario of a run. Raises UnmappableError with the reason."""
    assumed: list[str] = []
    regime = regime_of(run)
    model = model_fields(run, assumed)
    data: dict[str, Any] = {
        "model": model,
        "system": system_fields(run),
        "workload": _workload(run, regime, assumed),
        "policy": policy_fields(run, regime),
        "routing": {"source": "generated"},
    }
    _unstated_cache(run, regime, data["policy"], assumed)
    if _no_tiles(run, data["policy"]):
        data["system"]["overrides"].update(NO_TILES)
        assumed.append("experts in FP8 on the vector units: the engine has no tile kernel for them")
    if run.kv_bits and run.kv_bits < 12:
        model["kv_format"] = "fp8" if run.kv_bits >= 8 else "int4"
    try:
        return Mapped(run, validated(data), regime, tuple(assumed))
    except ScenarioError as error:
        raise UnmappableError(str(error)) from None


def regime_of(run: Run) -> str:
    """Regime of a run: as its source states it, else from what is said about the machine and the placement."""
    if run.regime:
        return run.regime
    if not run.gpu:
        return "cpu_only"
    if run.cache_fraction is not None or run.miss_path:
        return "gpu_expert_cache"
    if run.prefill_mode in ("layerwise_gpu_stream", "op_offload_stream"):
        return "pcie_stream"
    return "cpu_experts" if run.cpu else "all_gpu"


def _workload(run: Run, regime: str, assumed: list[str]) -> dict[str, Any]:
    batch = run.batch or run.concurrency
    if batch is None:
        batch = run.n_requests if run.phase == "e2e" and run.n_requests else 1
        assumed.append(f"batch {batch:,.0f} (not stated)")
    depth, prompt, output = run.context_depth, run.input_len, run.output_len
    fields: dict[str, Any] = {"batch": max(int(batch), 1)}
    if run.phase == "prefill":
        if prompt is None:
            prompt = PROMPT
            assumed.append(f"prompt of {PROMPT} tokens (not stated)")
        before = depth or 0.0
        if run.per == "total" and run.batch is None and own_prompts(run):
            # Every GPU runs prompts of its own: a pass holds a chunk for each.
            fields["batch"] = max(round(run.n_gpu * CHUNK / prompt), 1)
        fields["prompt_tokens"] = max(int(prompt + before), 1)
        fields["prefix_hit_share"] = before / (prompt + before) if before else 0.0
        fields["output_tokens"] = int(output or 1) or 1
        return fields
    if run.phase == "decode" and depth is not None:
        prompt = depth
    if prompt is None:
        prompt = PROMPT
        assumed.append(f"context of {PROMPT} tokens (not stated)")
    fields["prompt_tokens"] = max(int(prompt), 1)
    fields["output_tokens"] = max(int(output or OUTPUT), 1)
    return fields


NO_TILES = {"cpu.bf16_flop_per_cycle": 1.0, "cpu.vector_tokens_max": 1024}
"""A matrix unit that no pass is faster on: every product runs on the vector units."""
LEAST_SLOTS = 3
"""Cache slots of a layer over top-k that an LRU cache needs to hit at all (kekzl/imp, pull request 1375)."""


def _no_tiles(run: Run, policy: dict[str, Any]) -> bool:
    """kt-kernel computes FP8 experts with AVX-512; its AMX kernels take BF16, INT8 and INT4 (kt-kernel README)."""
    return run.system_family == "sglang+kt-kernel" and policy.get("expert_format") == "fp8-block"


def _unstated_cache(run: Run, regime: str, policy: dict[str, Any], assumed: list[str]) -> None:
    """A cache of unstated size on a GPU that could hold all experts: not as large as that, or nothing would miss.

    Taken as the least with which an LRU cache hits.
    """
    if regime != "gpu_expert_cache" or "gpu_experts_per_layer" in policy or not run.gpu:
        return
    arch = models.load(model_id(run))
    routed = models.parameters(arch).by_component["routed"] * (run.weight_bits or 16.0) / 8.0
    room = device_of(run.gpu, "gpu").figures["gpu.memory_capacity_bytes"].value or 0.0
    if routed <= room * max(run.n_gpu, 1):
        policy["gpu_experts_per_layer"] = min(LEAST_SLOTS * arch.top_k, arch.experts)
        assumed.append(f"cache of {policy['gpu_experts_per_layer']} experts per layer (not stated; all would fit)")
