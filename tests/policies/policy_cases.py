"""A tiny model on a machine with round figures, and passes timed on counts that a test writes down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.context import Context
from planner.evaluate import Evaluation, evaluate
from planner.policies.base import Placed, Policy, Prepared
from planner.result import Step
from planner.routing import RoutingState
from planner.scenario import Scenario
from planner.step import Pass, time_pass

LAYERS, EXPERTS, TOP_K = 4, 8, 2
PARAMETERS = 3 * 256 * 1024  # of one expert
W = 2.0 * PARAMETERS  # its bytes at BF16
TINY = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "hidden_size": 256,
    "intermediate_size": 1024,
    "max_position_embeddings": 32768,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": LAYERS,
    "num_experts_per_tok": TOP_K,
    "num_local_experts": EXPERTS,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 512,
    "hidden_act": "silu",
    "sliding_window": None,
}
# Link 10 GB/s, host channels 40 GB/s, HBM 1 TB/s; compute is no limit unless a test says so; nothing is fixed.
LINK, DRAM, HBM = 10e9, 40e9, 1e12
FAST = 1e16
ROUND: dict[str, float] = {
    "gpu.memory_bandwidth_bytes_per_s": HBM,
    "gpu.step_overhead_s": 0.0,
    "gpu.sequence_overhead_s": 0.0,
    "gpu.serving_efficiency": 1.0,
    "gpu.bandwidth_efficiency": 1.0,
    "gpu.kv_bandwidth_efficiency": 1.0,
    "gpu.bf16_flop_per_s": 1e18,
    "gpu.compute_efficiency_max": 1.0,
    "gpu.compute_half_tokens": 0.0,
    "gpu.overlap": 1.0,
    "gpu.layer_launch_s": 0.0,
    "gpu.layer_launch_eager_s": 0.0,
    "gpu.layer_uncaptured_s": 0,
    "gpu.kernel_launch_s": 0,
    "gpu.request_serial_s": 0,
    "cpu.vector_flop_per_s": FAST,
    "cpu.vector_efficiency": 1.0,
    "cpu.overlap": 1.0,
    "cpu.layer_sync_s": 0.0,
    "dram.bandwidth_bytes_per_s": DRAM,
    "cpu.kv_bandwidth_efficiency": 1.0,
    "cpu.numa_compute_efficiency": 1.0,
    "dram.read_efficiency": 1.0,
    "pcie.bandwidth_bytes_per_s": LINK,
    "pcie.host_bandwidth_bytes_per_s": LINK,
    "pcie.efficiency": 1.0,
    "pcie.latency_s": 0.0,
}


def tiny(
    policy: str,
    options: Mapping[str, Any] | None = None,
    *,
    batch: int = 1,
    system: str = "desktop-rtx4090",
    over: Mapping[str, float] | None = None,
    config: Mapping[str, Any] | None = None,
    **chosen: Any,
) -> Scenario:
    """A scenario of the tiny model; ``over`` changes the round figures, ``chosen`` are fields of the policy choice."""
    return Scenario.model_validate(
        {
            "model": {"id": "tiny", "config": {**TINY, **(config or {})}},
            "system": {"id": system, "overrides": {**ROUND, **(over or {})}},
            "workload": {"batch": batch, "prompt_tokens": 16, "output_tokens": 8},
            "policy": {"id": policy, "options": dict(options or {}), **chosen},
        }
    )


@dataclass(frozen=True)
class Case:
    """A plan that fits, ready to be timed on other counts."""

    found: Evaluation
    policy: Policy
    ctx: Context
    ready: Prepared
    placed: Placed
    routing: RoutingState

    def with_counts(self, counts: Any, **state: Any) -> RoutingState:
        array = np.asarray(counts, np.int32)
        return self.routing.replaced(shape=array.shape[1:], counts=array, **state)

    def decode(self, counts: Any, placed: Placed | None = None, **state: Any) -> Pass:
        return self.policy.decode(self.ctx, self.ready, placed or self.placed, self.with_counts(counts, **state))

    def step(self, counts: Any, placed: Placed | None = None, **state: Any) -> Step:
        return time_pass(self.decode(counts, placed, **state), self.ctx.machine).step

    def resident(self, mask: Any) -> Placed:
        """The same placement with other experts in HBM, [layers, experts] or the same in each layer."""
        chosen = np.broadcast_to(np.asarray(mask, bool), self.placed.resident.shape).copy()
        return replace(self.placed, resident=chosen, tier=np.where(chosen, 0, 1).astype(np.int8))


def case(scenario: Scenario) -> Case:
    found = evaluate(scenario)
    assert found.fits, found.reasons
    assert found.ready is not None and found.placed is not None and found.routing is not None
    return Case(found, found.policy, found.ctx, found.ready, found.placed, found.routing)


def every_layer(row: list[int], steps: int = 1) -> np.ndarray:
    """The same tokens per expert in every layer of every step."""
    return np.broadcast_to(np.array(row, np.int32), (steps, LAYERS, EXPERTS)).copy()


def busy(step: Step, lane: str, *parts: str) -> float:
    """Seconds of a lane, of the given parts or of all."""
    return sum(p.busy_s for p in step.parts if p.lane == lane and (not parts or p.part in parts))


def routed_s(step: Step) -> float:
    """Exposed seconds of everything but attention, dense side, collectives and fixed time."""
    return sum(p.exposed_s for p in step.parts if p.part in ("routed_gpu", "routed_cpu", "routed_ndp", "link"))
