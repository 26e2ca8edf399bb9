"""Small cases to work out by hand: a tiny model on a machine with round rates, and routing written out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.context import Context, resolve
from planner.policies import check_options, get
from planner.policies.base import Placed, Policy, Prepared
from planner.result import Step
from planner.routing import RoutingState
from planner.scenario import Scenario
from planner.step import time_pass

HIDDEN, WIDTH, LAYERS, EXPERTS, VOCABULARY = 1024, 2048, 2, 4, 1000
W = 3 * HIDDEN * WIDTH * 2.0
"""Bytes of one expert at 16 bit."""
B_HBM, B_LINK, B_DRAM = 1e12, 1e10, 1e11
LOAD_S, READ_S = W / B_LINK, W / B_HBM
"""Seconds in which one expert crosses the link, and in which the GPU reads it."""
CONTEXT = 100.5
"""Mean context of one output token after a prompt of 100."""

# No launch, no latency, efficiency 1, compute for nothing: what is left are bytes over round rates.
MACHINE = {
    "gpu.memory_bandwidth_bytes_per_s": B_HBM,
    "gpu.bandwidth_efficiency": 1.0,
    "gpu.kv_bandwidth_efficiency": 1.0,
    "gpu.bf16_flop_per_s": 1e18,
    "gpu.fp8_flop_per_s": 1e18,
    "gpu.compute_efficiency_max": 1.0,
    "gpu.compute_half_tokens": 0.0,
    "gpu.overlap": 1.0,
    "gpu.step_overhead_s": 0,
    "gpu.sequence_overhead_s": 0,
    "gpu.serving_efficiency": 1,
    "gpu.layer_launch_s": 0.0,
    "gpu.layer_launch_tp_s": 0.0,
    "gpu.layer_launch_eager_s": 0.0,
    "gpu.layer_uncaptured_s": 0,
    "gpu.kernel_launch_s": 0,
    "gpu.request_serial_s": 0,
    "pcie.bandwidth_bytes_per_s": B_LINK,
    "pcie.efficiency": 1.0,
    "pcie.latency_s": 0.0,
    "dram.bandwidth_bytes_per_s": B_DRAM,
    "cpu.kv_bandwidth_efficiency": 1,
    "cpu.numa_compute_efficiency": 1,
    "dram.read_efficiency": 1.0,
    "cpu.bf16_flop_per_s": 1e16,
    "cpu.vector_flop_per_s": 1e16,
    "cpu.matrix_efficiency": 1.0,
    "cpu.vector_efficiency": 1.0,
    "cpu.overlap": 1.0,
    "cpu.layer_sync_s": 0.0,
    "cpu.low_bit_extra_bits": 0.0,
}


def config(experts: int = EXPERTS, top_k: int = 1, layers: int = LAYERS) -> dict[str, Any]:
    return {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "hidden_size": HIDDEN,
        "intermediate_size": WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "num_local_experts": experts,
        "num_experts_per_tok": top_k,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def tiny(
    policy: str,
    *,
    top_k: int = 1,
    experts: int = EXPERTS,
    layers: int = LAYERS,
    batch: int = 1,
    prompt: int = 100,
    machine: dict[str, float] | None = None,
    **chosen: Any,
) -> Scenario:
    """A scenario of one output token on the round machine; ``chosen`` are fields of the policy."""
    return Scenario.model_validate(
        {
            "model": {"id": "tiny", "config": config(experts, top_k, layers)},
            "system": {"id": "h100-amx-server", "overrides": {**MACHINE, **(machine or {})}},
            "workload": {"batch": batch, "prompt_tokens": prompt, "output_tokens": 1},
            "policy": {"id": policy, **chosen},
        }
    )


def written(counts: Any, *, top_k: int = 1, gates: Any = None, prefill: Any = None, load: Any = None) -> RoutingState:
    """Routing from counts [passes, layers, experts]; ``load`` is what placements learn from (default: equal)."""
    array = np.asarray(counts, np.int32)
    shape = array.shape[1:]
    learnt = np.ones(shape) if load is None else np.asarray(load, float)
    passes = array[:1] if prefill is None else np.asarray(prefill, np.int32)
    return RoutingState(
        shape=(shape[0], shape[1]),
        counts=array,
        profile=learnt.copy(),
        context=learnt.copy(),
        context_scores=learnt.copy(),
        prefill_counts=passes.copy(),
        tokens_per_pass=int(array[0, 0].sum()) // top_k,
        prefill_tokens=int(passes[0, 0].sum()) // top_k,
        learned_on="written by hand.",
        gate_weights=np.asarray([[1.0]] if gates is None else gates, np.float32),
    )


def one_hot(*layers: list[int], experts: int = EXPERTS) -> np.ndarray:
    """Counts of passes of one token with top-1: the expert of each pass, for each layer."""
    return np.stack([np.eye(experts, dtype=np.int32)[row] for row in layers], axis=1)


def parts(scenario: Scenario, routing: RoutingState) -> tuple[Context, Policy, Prepared, Placed]:
    policy = get(scenario.policy.id)
    check_options(policy, scenario.policy.options)
    ctx = resolve(scenario)
    ready = policy.prepare(ctx)
    return ctx, policy, ready, policy.place(ctx, ready, routing)


def decode_step(scenario: Scenario, routing: RoutingState) -> Step:
    ctx, policy, ready, placed = parts(scenario, routing)
    return time_pass(policy.decode(ctx, ready, placed, routing), ctx.machine).step


def prefill_s(scenario: Scenario, routing: RoutingState, mode: str) -> float:
    ctx, policy, ready, placed = parts(scenario, routing)
    run = policy.prefill(ctx, ready, placed, routing, mode, routing.prefill_tokens)
    return time_pass(run, ctx.machine).step.total_s


def weights_s(sequences: int = 1) -> float:
    """Seconds of the attention and router weights of a layer, and of the KV cache of its sequences."""
    return (attention_bytes() + sequences * kv_bytes()) / B_HBM


def attention_bytes(experts: int = EXPERTS) -> float:
    """Projections of 8 query and 2 key and value heads of 128, two norms, and the router."""
    return 2.0 * (2 * HIDDEN * 1024 + 2 * HIDDEN * 256 + 2 * HIDDEN + experts * HIDDEN)


def kv_bytes(context: float = CONTEXT) -> float:
    return 2 * 2 * 128 * 2.0 * context


def head_s() -> float:
    return VOCABULARY * HIDDEN * 2.0 / B_HBM
