"""Writes the vectors of the cache kernels, from their plain twins: python -m tests.policies.make_cache_vectors

The vectors pin the numbers across versions; change them only together with a stated change of the rule.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from planner.cache_kernel import LFU, LRU, simulate, stack_positions
from planner.prefetch_kernel import simulate_prefetch

FILE = Path(__file__).parent / "vectors" / "caches.json"


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain((value.astype(int) if value.dtype == bool else value).tolist())
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def make() -> dict[str, Any]:
    rng = np.random.default_rng(21)
    wanted = (rng.random((6, 2, 7)) < 0.35) * rng.integers(1, 3, (6, 2, 7))
    load = rng.integers(0, 6, (2, 7)).astype(float)
    caches = []
    for slots in (5, [2, 3]):
        for weights in (LRU, LFU, (0.25, 0.25, 0.25, 0.25)):
            run = simulate(wanted, slots, weights=weights, start=load, compiled=False)
            caches.append(
                {"wanted": wanted, "load": load, "slots": slots, "weights": weights, "present": run.present,
                 "content": run.content}
            )  # fmt: skip
    stacks = [{"wanted": wanted, "load": load, "positions": stack_positions(wanted, load, compiled=False)}]
    prefetches = []
    for slots, idle in ((4, [0.3, 1.2]), (9, [2.0, 0.0])):
        prior = rng.integers(1, 5, (2, 7)).astype(float)
        run = simulate_prefetch(wanted, slots, prior, load, np.array(idle), compiled=False)
        prefetches.append(
            {"counts": wanted, "slots": slots, "prior": prior, "own": load, "idle": idle, "present": run.present,
             "fetched": run.fetched}
        )  # fmt: skip
    return {"caches": caches, "stacks": stacks, "prefetches": prefetches}


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(plain(make())) + "\n", "utf-8")
