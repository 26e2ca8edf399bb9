"""Writes the shared vectors of the kernels, from their plain twins: python -m tests.kernels.make_vectors

The vectors pin the numbers across versions; change them only together with a stated change of the algorithm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from planner.bitwidth import exact_reference, prefix_reference
from planner.importance import score_reference
from planner.routing.counter_rng import lognormal_table
from planner.routing.sampler import sample_counts_reference
from planner.schedule_reference import schedule_reference

FOLDER = Path(__file__).parent / "vectors"


def schedule_case(seed: int, rows: int = 3, experts: int = 12, dimms: int = 4) -> dict[str, Any]:
    """Round numbers for a server of three domains: 1 ms to read an expert over all channels, 4 hot ones resident."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 40, (rows, experts))
    tokens[:, 7] = 0
    home = np.where(rng.random((rows, experts)) < 0.5, -1, rng.integers(0, dimms, (rows, experts)))
    size = 1e6
    resident = np.arange(experts) < 4
    fetch = np.where(home < 0, 1e-3, dimms * 1e-3)
    return {
        "gpu_s": np.where(resident, 2e-4, np.maximum(5e-3, fetch)),
        "cpu_s": np.maximum(fetch, 2e-4 * tokens),
        "ndp_s": np.where(home < 0, np.inf, np.maximum(1.5e-3, 1e-3 * tokens)),
        "tokens": tokens,
        "home": home,
        "gpu_reads": np.where(resident, 0.0, size) * np.ones((rows, experts)),
        "cpu_reads": np.full((rows, experts), size),
        "dimm_read_bytes_per_s": 5e8,
        "host_bytes_per_s": 1e9,
        "base_gpu_s": np.linspace(0, 1e-3, rows),
        "base_cpu_s": np.zeros(rows),
        "base_host_s": np.full(rows, 5e-4),
        "dimms": dimms,
    }


def plain(value: Any) -> Any:
    """JSON has no infinity: it is written as null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and np.isinf(value) else value


def make() -> dict[str, Any]:
    rng = np.random.default_rng(20)
    ids = np.argsort(rng.random((2, 7, 6)), axis=2)[:, :, :3]
    weights = np.round(rng.random(ids.shape), 3)
    counts, scores = score_reference(ids.astype(np.uint16), weights.astype(np.float32), 6)
    importance = {"ids": ids, "weights": weights, "experts": 6, "counts": counts, "scores": scores}

    bits = []
    for n, average in ((1, 2.0), (4, 2.0), (4, 3.0), (6, 2.5), (9, 3.3), (12, 1.4)):
        losses = np.round(-np.sort(-rng.random((n, 4)), axis=1), 4)
        prefix, exact = prefix_reference(losses, average), exact_reference(losses, average)
        bits.append({"losses": losses, "average_bits": average, "prefix": prefix.bits, "exact": exact.bits})

    schedules = []
    for seed in range(3):
        for start in (0, 1):
            for refine in (False, True):
                case = schedule_case(seed)
                domain, makespan, resources, moves = schedule_reference(**case, start=start, refine=refine)
                answer = {"domain": domain, "makespan_s": makespan, "resources_s": resources, "moves": moves}
                schedules.append({"input": {**case, "start": start, "refine": refine}, "answer": answer})

    popularity = np.round(rng.random((2, 7)) + 0.05, 3)
    sampled, summed = sample_counts_reference(
        popularity, lognormal_table(0.5), np.uint64(42), 1, np.array([0, 5]), np.array([2, 1]), 3, 3, True
    )
    sampler = {"weights": popularity, "sigma_request": 0.5, "key": 42, "counts": sampled, "scores": summed}
    return {"importance": importance, "bitwidth": bits, "schedule": schedules, "sampler": sampler}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in make().items():
        (FOLDER / f"{name}.json").write_text(json.dumps(plain(content)) + "\n", "utf-8")
