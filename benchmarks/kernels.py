"""Each compiled kernel against its plain NumPy twin on the same input, and the routing state of DeepSeek-V3's size.

The twins of the sequential algorithms (sampling, scheduling) are timed on a part of the input and compared per part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from benchmarks.report import Row, median_s, show
from planner.bitwidth import exact_reference, prefix_reference, select_layers
from planner.importance import score_kernel, score_reference
from planner.kernels import warm_all
from planner.losses import surrogate_losses
from planner.routing import clear_cache, routing_state
from planner.routing.counter_rng import lognormal_table
from planner.routing.sampler import sample_counts, sample_counts_reference
from planner.scenario import RoutingChoice
from planner.schedule import schedule_layers
from planner.schedule_reference import schedule_reference

LAYERS, EXPERTS, TOP_K, DIMMS, STEPS = 58, 256, 8, 16, 8


def pair(
    name: str,
    kernel: Callable[[], object],
    twin: Callable[[], object],
    parts: float = 1.0,
    aim: float | None = None,
    note: str = "",
) -> list[Row]:
    """Two rows: the kernel with its ratio, and its twin (on 1/parts of the input, scaled up)."""
    fast, slow = median_s(kernel) * 1e3, median_s(twin, 3) * parts * 1e3
    return [
        Row(name, fast, "ms", slow / fast, "faster than its twin", aim, note),
        Row("  plain twin", slow, "ms"),
    ]


def importance_rows(rng: np.random.Generator) -> list[Row]:
    ids = rng.integers(0, EXPERTS, (LAYERS, 4096, TOP_K)).astype(np.uint16)
    weights = rng.random(ids.shape, np.float32)
    rows = pair(
        f"importance, {LAYERS} x 4,096 x {TOP_K}",
        lambda: score_kernel(ids, weights, EXPERTS),
        lambda: score_reference(ids, weights, EXPERTS),
    )
    rate = (ids.nbytes + weights.nbytes) / (rows[0].value * 1e-3) / 1e9
    return [*rows, Row("  read rate of the kernel", rate, "GB/s")]


def bit_rows() -> list[Row]:
    losses = surrogate_losses(LAYERS, EXPERTS).values
    rows = []
    for method, twin in (("prefix", prefix_reference), ("exact", exact_reference)):
        rows += pair(
            f"bit-widths, {method}, {LAYERS} x {EXPERTS}, 2.5 bits",
            lambda method=method: select_layers(losses, None, 2.5, method),  # type: ignore[misc]
            lambda twin=twin: [twin(layer, 2.5) for layer in losses[:6]],  # type: ignore[misc]
            LAYERS / 6,
        )
    return rows


def layers_to_schedule(rng: np.random.Generator, striped: bool) -> dict[str, object]:
    """Log-normal load of 512 tokens on TriMoE's published machine: 16 experts resident, the next 80 striped or not."""
    rows = LAYERS * STEPS
    popular = np.exp(0.7 * rng.normal(size=(rows, EXPERTS)))
    tokens = rng.poisson(512 * TOP_K * popular / popular.sum(axis=1, keepdims=True))
    rank = np.argsort(np.argsort(-popular, axis=1), axis=1)
    size, flop = 2 * 3 * 4096 * 1536, 2 * 3 * 4096 * 1536
    home = np.where((rank < 96) & striped, -1, rank % DIMMS)
    channel = np.where(home < 0, size / 307.2e9, size / 38.4e9)
    near = np.maximum(size / 2.0e12, flop * tokens / 250e12)
    return {
        "gpu_s": np.where(rank < 16, near, np.maximum(np.maximum(near, size / 64e9), channel)),
        "cpu_s": np.maximum(flop * tokens / 20e12, channel),
        "ndp_s": np.where(home < 0, np.inf, np.maximum(flop * tokens / 256e9, size / 153.6e9)),
        "tokens": tokens,
        "home": home,
        "gpu_reads": np.where(rank < 16, 0.0, size),
        "cpu_reads": np.full((rows, EXPERTS), float(size)),
        "dimm_read_bytes_per_s": 153.6e9,
        "host_bytes_per_s": 307.2e9,
        "base_gpu_s": np.zeros(rows),
        "base_cpu_s": np.zeros(rows),
        "base_host_s": np.zeros(rows),
        "dimms": DIMMS,
    }


def schedule_rows(rng: np.random.Generator) -> list[Row]:
    rows = []
    for striped, start in ((True, 0), (True, 1), (False, 0), (False, 1)):
        case = layers_to_schedule(rng, striped)
        part = {key: value[:8] if isinstance(value, np.ndarray) else value for key, value in case.items()}
        found = schedule_layers(**case, start=start)  # type: ignore[arg-type]
        rows += pair(
            f"schedule, {LAYERS} x {STEPS} rows, {'96 hottest striped' if striped else 'all localised'}, start {start}",
            lambda case=case, start=start: schedule_layers(**case, start=start),  # type: ignore[misc]
            lambda part=part, start=start: schedule_reference(**part, start=start),  # type: ignore[misc]
            LAYERS * STEPS / 8,
            aim=60.0,
            note=f"{found.moves.mean():.1f} moves per row",
        )
    return rows


def sampling_rows(rng: np.random.Generator) -> list[Row]:
    weights, factors = np.exp(0.7 * rng.normal(size=(LAYERS, EXPERTS))), lognormal_table(0.5)

    def draw(sample: Callable[..., object], layers: int) -> Callable[[], object]:
        requests, tokens = np.arange(64), np.ones(64, np.int64)
        return lambda: sample(weights[:layers], factors, np.uint64(1), 1, requests, tokens, STEPS, TOP_K)

    return pair(
        f"expert choice, {LAYERS} layers, batch 64, {STEPS} steps",
        draw(sample_counts, LAYERS),
        draw(sample_counts_reference, 1),
        LAYERS,
    )


def routing_rows() -> list[Row]:
    rows = []
    for batch, steps, aim in ((1, 32, None), (256, 8, 1.0), (4096, 4, 4.0)):

        def build(batch: int = batch, steps: int = steps) -> None:
            clear_cache()
            routing_state(RoutingChoice(), "any", LAYERS, EXPERTS, TOP_K, batch, 1, 1024, 8192, steps)

        name = f"whole routing state, {LAYERS} x {EXPERTS}, batch {batch:,}, {steps} steps"
        rows.append(Row(name, median_s(build, 3), "s", aim=aim))
    return rows


def main() -> int:
    warm_all()
    rng = np.random.default_rng(0)
    rows = [*importance_rows(rng), *bit_rows(), *schedule_rows(rng), *sampling_rows(rng), *routing_rows()]
    return show("Kernels against their plain NumPy twins, one core", rows)


if __name__ == "__main__":
    sys.exit(main())
