"""Experts of the real shape with random weights, to be run with a number of tokens each."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from models import Architecture
from planner.errors import PlanError

SPARE_SHARE = 0.5
"""share of the free memory that a rehearsal takes at most"""
Shape = tuple[int, int]


def shapes(arch: Architecture, layer: int) -> list[Shape]:
    """Rows and columns of the matrices of one routed expert of a layer, in the order in which they are multiplied."""
    return [(t.rows, t.cols) for t in arch.layers[layer].expert_tensors if t.cols > 1]


def pool_size(expert_bytes: float, cache_bytes: float, rows_bytes: float, free_bytes: float, where: str) -> int:
    """Experts to hold: enough that none is found in a cache when its turn comes again. Raises PlanError if none fits.

    A real model evicts a layer's experts by the layers that follow; here the pool goes round instead.
    """
    room = SPARE_SHARE * free_bytes - rows_bytes
    if expert_bytes > room:
        raise PlanError(
            f"One expert takes {expert_bytes / 1e9:,.2f} GB and its tokens {rows_bytes / 1e9:,.2f} GB in {where}, of "
            f"which {free_bytes / 1e9:,.2f} GB are free and half may be used; choose a smaller model or workload.batch."
        )
    return max(1, min(math.ceil(4 * cache_bytes / expert_bytes) + 1, int(room / expert_bytes)))


class CpuExperts:
    """Experts in host memory, float32, computed by NumPy's BLAS with all cores."""

    bytes_per_weight = 4

    def __init__(self, matrices: Sequence[Shape], count: int, most_tokens: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        scale = np.float32(1.0 / math.sqrt(matrices[0][1]))
        self.pool = [
            [random.standard_normal((rows, cols), np.float32) * scale for rows, cols in matrices] for _ in range(count)
        ]
        self.x = random.standard_normal((most_tokens, matrices[0][1]), np.float32)
        self.out = np.zeros((most_tokens, matrices[-1][0]), np.float32)
        self.turn = 0

    def run(self, tokens: int) -> float:
        """Seconds of the next expert in the pool with this many tokens."""
        *inner, last = self.pool[self.turn % len(self.pool)]
        self.turn += 1
        start = time.perf_counter()
        x = self.x[:tokens]
        first = x @ inner[0].T
        if len(inner) > 1:  # a gated expert: silu(gate) * up
            first = first / (1.0 + np.exp(-np.clip(first, -60.0, 60.0))) * (x @ inner[1].T)
        else:
            first = np.maximum(first, 0.0)
        self.out[:tokens] += first @ last.T
        return time.perf_counter() - start


class GpuExperts:
    """Experts in the memory of the first GPU, bf16; a step's experts are one captured graph."""

    bytes_per_weight = 2
    kernels = 6  # of one expert: three products, activation, product of both, sum

    def __init__(self, torch: Any, matrices: Sequence[Shape], count: int, most_tokens: int) -> None:
        self.torch = torch
        device = torch.device("cuda", 0)

        def random(rows: int, cols: int) -> Any:
            return torch.randn((rows, cols), dtype=torch.bfloat16, device=device) / math.sqrt(cols)

        self.pool = [[random(*shape) for shape in matrices] for _ in range(count)]
        self.x = random(most_tokens, matrices[0][1])
        self.out = torch.zeros((most_tokens, matrices[-1][0]), dtype=torch.bfloat16, device=device)

    def _layer(self, tokens: Sequence[int]) -> None:
        torch = self.torch
        for turn, n in enumerate(tokens):
            *inner, last = self.pool[turn % len(self.pool)]
            x = self.x[:n]
            first = torch.mm(x, inner[0].t())
            first = torch.nn.functional.silu(first) * torch.mm(x, inner[1].t()) if len(inner) > 1 else first.relu()
            self.out[:n] += torch.mm(first, last.t())

    def run(self, tokens: Sequence[int], repeats: int) -> list[float]:
        """Seconds of a step in which the experts get ``tokens``, by repeat."""
        from planner.probe.gpu import Gpu

        clock = Gpu(self.torch, repeats, ())
        return list(clock.on_device(clock.captured(lambda: self._layer(tokens)), calls=1))


def copied(torch: Any, expert_bytes: int, experts: int, repeats: int) -> list[float]:
    """Seconds to copy ``experts`` experts from pinned memory to the GPU one after another, by repeat."""
    source = torch.ones(expert_bytes, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(expert_bytes, dtype=torch.uint8, device=torch.device("cuda", 0))
    found = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        for _ in range(experts):
            target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return found[1:]
