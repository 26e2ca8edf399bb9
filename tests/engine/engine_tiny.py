"""A model and machines small and plain enough to be computed by hand, and the hand that computes them.

Two layers of grouped-query attention and four experts, top-2, BF16. On a *plain* machine every efficiency is 1, every
overlap 1, every latency 0, so that only the formulas are left. Nothing here calls the engine's physics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.evaluate import Evaluation, evaluate
from planner.scenario import Scenario
from tests.engine.engine_scenarios import scenario

HIDDEN, INNER, LAYERS, EXPERTS, TOP_K, VOCABULARY = 256, 512, 2, 4, 2, 1000
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 64
CONFIG: dict[str, Any] = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": TOP_K,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
EXPERT = 3 * HIDDEN * INNER  # weights of one expert
EXPERT_BYTES = 2 * EXPERT
# q and o, k and v, and the two norms of a layer
MIXER = 2 * HIDDEN * HEADS * HEAD_DIM + 2 * HIDDEN * KV_HEADS * HEAD_DIM + 2 * HIDDEN
ROUTER = HIDDEN * EXPERTS
HEAD = HIDDEN * VOCABULARY
KV_BYTES = 2 * KV_HEADS * HEAD_DIM * 2  # of a token in a layer
ATTENTION_FLOP = 2 * 2 * HEADS * HEAD_DIM  # of a query for each token of its context in a layer
VECTOR_BYTES = 2 * HIDDEN

PLAIN: dict[str, float] = {
    "gpu.bandwidth_efficiency": 1,
    "gpu.kv_bandwidth_efficiency": 1,
    "gpu.compute_efficiency_max": 1,
    "gpu.compute_half_tokens": 0,
    "gpu.overlap": 1,
    "gpu.reserve_bytes": 0,
    "gpu.layer_launch_s": 0,
    "gpu.layer_launch_tp_s": 0,
    "gpu.layer_launch_eager_s": 0,
    "gpu.layer_uncaptured_s": 0,
    "gpu.kernel_launch_s": 0,
    "gpu.request_serial_s": 0,
    "gpu.step_overhead_s": 0,
    "gpu.sequence_overhead_s": 0,
    "gpu.serving_efficiency": 1,
    "gpu.bf16_flop_per_s": 1e12,
    "gpu.memory_bandwidth_bytes_per_s": 1e11,
    "pcie.efficiency": 1,
    "pcie.latency_s": 0,
    "pcie.bandwidth_bytes_per_s": 4e9,
    "scaleup.efficiency": 1,
    "scaleup.latency_s": 0,
    "scaleup.bandwidth_bytes_per_s": 2e10,
}
PLAIN_HOST: dict[str, float] = {
    "cpu.matrix_efficiency": 1,
    "cpu.vector_efficiency": 1,
    "cpu.numa_efficiency": 1,
    "cpu.numa_compute_efficiency": 1,
    "cpu.kv_bandwidth_efficiency": 1,
    "cpu.overlap": 1,
    "cpu.low_bit_extra_bits": 0,
    "cpu.layer_sync_s": 0,
    "cpu.reserve_bytes": 0,
    "cpu.bf16_flop_per_s": 4e11,
    "cpu.vector_flop_per_s": 5e10,
    "cpu.tile_rows": 16,
    "cpu.vector_tokens_max": 4,
    "dram.read_efficiency": 1,
    "dram.bandwidth_bytes_per_s": 1.6e10,
}
PLAIN_DIMM_NDP: dict[str, float] = {
    "ndp.bandwidth_efficiency": 1,
    "ndp.compute_efficiency": 1,
    "ndp.overlap": 1,
    "ndp.command_s": 0,
    "ndp.flop_per_s": 1e10,
    "ndp.internal_bandwidth_bytes_per_s": 8e9,
    "ndp.rank_bandwidth_bytes_per_s": 2e9,
    "ndp.tile_rows": 1,
    "dram.ranks_per_dimm": 4,
}
PLAIN_CXL: dict[str, float] = {
    "cxl.bandwidth_efficiency": 1,
    "cxl.compute_efficiency": 1,
    "cxl.overlap": 1,
    "cxl.doorbell_s": 0,
    "cxl.completion_s": 0,
    "cxl.port_efficiency": 1,
    "cxl.port_bandwidth_bytes_per_s": 2e9,
    "cxl.internal_bandwidth_bytes_per_s": 3e10,
    "cxl.flop_per_s": 6e10,
    "cxl.tile_rows": 4,
}


def tiny(system: str, overrides: dict[str, float], batch: int, **parts: Any) -> Scenario:
    """A scenario of the tiny model: prompt 100, 8 output tokens, so that steps are timed at 101, 103, 105, 107."""
    return scenario(
        model__id="tiny",
        model__config=CONFIG,
        system__id=system,
        system__overrides=overrides,
        workload__batch=batch,
        workload__prompt_tokens=100,
        workload__output_tokens=8,
        **{"routing__steps": 3, **parts},
    )


CONTEXTS = (101, 103, 105, 107)


def tiles(rows: float) -> int:
    """Rows that a tensor core computes for so many: whole tiles of 16."""
    return 16 * math.ceil(rows / 16)


@dataclass(frozen=True)
class Hand:
    """A plain GPU group of ``ranks`` cards, and a batch."""

    batch: int
    ranks: int = 1
    flop: float = PLAIN["gpu.bf16_flop_per_s"]
    hbm: float = PLAIN["gpu.memory_bandwidth_bytes_per_s"]
    link: float = PLAIN["scaleup.bandwidth_bytes_per_s"]

    def product(self, weights: float, rows: float) -> float:
        """One matrix product that a card reads once: the roofline."""
        return max(2 * weights * tiles(rows) / self.flop, 2 * weights / self.hbm)

    def attention(self, context: float) -> float:
        """Projections, router and attention of one layer: heads sliced, KV divided over at most the KV heads."""
        t = self.ranks
        core = max(
            ATTENTION_FLOP * context * self.batch / t / self.flop,
            KV_BYTES * context * self.batch / min(t, KV_HEADS) / self.hbm,
        )
        return self.product(MIXER / t, self.batch) + self.product(ROUTER, self.batch) + core

    def all_reduce(self) -> float:
        return 2 * (self.ranks - 1) / self.ranks * self.batch * VECTOR_BYTES / self.link

    def head(self) -> float:
        return self.product(HEAD / self.ranks, self.batch)

    def expert(self, tokens: int, slices: int | None = None) -> float:
        """An expert of which this card holds one of ``slices``; nothing without tokens."""
        return self.product(EXPERT / (slices or self.ranks), tokens) if tokens else 0.0


def cpu_expert(tokens: int, size_bytes: float = EXPERT_BYTES) -> float:
    """KTransformers: vector units up to 4 tokens (or the tile unit where even that is faster), tiles of 16 above."""
    if not tokens:
        return 0.0
    vector = 2 * EXPERT * tokens / PLAIN_HOST["cpu.vector_flop_per_s"]
    matrix = 2 * EXPERT * tiles(tokens) / PLAIN_HOST["cpu.bf16_flop_per_s"]
    compute = min(vector, matrix) if tokens <= 4 else matrix
    return max(compute, size_bytes / PLAIN_HOST["dram.bandwidth_bytes_per_s"])


def timed(found: Evaluation) -> tuple[np.ndarray, float]:
    """Sampled counts [steps, layers, experts] and the step that the engine made of them."""
    assert found.routing is not None and found.decode is not None, found.reasons
    return found.routing.counts, found.decode.step.total_s


def evaluated(chosen: Scenario) -> Evaluation:
    found = evaluate(chosen)
    assert found.fits, found.reasons
    return found


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
