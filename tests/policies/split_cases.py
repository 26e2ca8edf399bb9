"""Inputs of the split kernels: drawn ones, and the vectors that pin their numbers.

``python -m tests.policies.split_cases`` writes the vectors from the plain twins; change them only together with a
stated change of an algorithm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from planner import split_reference
from planner.split import Tables, Trail

FILE = Path(__file__).parent / "vectors" / "split.json"
FIELDS = ("place", "link_s", "background_s", "span_s", "cached")


def drawn(seed: int) -> dict[str, Any]:
    """Steps, predictions, tables with one or two widths, windows and a cache, all of random sizes."""
    rng = np.random.default_rng(seed)
    steps, layers, experts = int(rng.integers(1, 8)), int(rng.integers(1, 6)), int(rng.integers(1, 12))
    widths, most = int(rng.integers(1, 3)), int(rng.integers(1, 9))

    def seconds(scale: float) -> np.ndarray:
        return np.sort(rng.random((widths, most + 1)), axis=1) * scale

    tokens = rng.integers(0, most + 1, (steps, layers, experts))
    return {
        "tokens": tokens,
        "predicted": rng.integers(0, most + 1, (int(rng.integers(1, 4)), steps, layers, experts)),
        "form": rng.integers(0, widths, (layers, experts)),
        "tables": Tables(seconds(1.0), seconds(0.3), rng.random(widths) * 0.8),
        "window_s": rng.random(layers) * 0.5,
        "cached": rng.random((layers, experts)) < 0.4,
    }


def hybrimoe_of(case: dict[str, Any], run: Any) -> Trail:
    score = np.linspace(0.0, 1.0, case["cached"].size).reshape(case["cached"].shape)
    found: Trail = run(**case, score=score, alpha=0.5, top_p=4)
    return found


def dali_of(case: dict[str, Any], run: Any) -> Trail:
    chosen = {**case, "predicted": case["predicted"][0]}
    found: Trail = run(**chosen, every=2, swaps=2, prefetch=1)
    return found


def recorded(trail: Trail) -> dict[str, Any]:
    return {name: np.asarray(getattr(trail, name)).tolist() for name in FIELDS}


def main() -> None:
    cases = [
        {
            "seed": seed,
            "hybrimoe": recorded(hybrimoe_of(drawn(seed), split_reference.hybrimoe)),
            "dali": recorded(dali_of(drawn(seed), split_reference.dali)),
        }
        for seed in (13, 217)  # large ones, of both kinds of width
    ]
    FILE.write_text(json.dumps(cases) + "\n", "utf-8")


if __name__ == "__main__":
    main()
