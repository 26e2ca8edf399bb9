"""Writes the stored vectors of the step sampler from its plain twin: python -m tests.routing.make_sequence_vectors

They pin the numbers across versions; change them only together with a stated change of the algorithm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from planner.routing.counter_rng import lognormal_table
from planner.routing.sequence_sampler import sample_steps_reference

FILE = Path(__file__).parent / "vectors" / "sequence.json"


def cases() -> list[dict[str, Any]]:
    """Arguments as plain lists; sigma_request 0 stands for no factors."""
    rng = np.random.default_rng(8)
    found = []
    for sigma_request, locality, tokens in ((0.0, 0.0, 1), (0.7, 0.0, 2), (0.7, 0.6, 1)):
        turn = (np.arange(5)[:, None] + np.array([0, 2, 4])) // 4
        found.append(
            {
                "weights": np.round(rng.random((5, 9)) + 0.02, 3).tolist(),
                "sigma_request": sigma_request,
                "key": 77,
                "owner": (np.arange(3) + 3 * turn).tolist(),
                "position": ((np.arange(5)[:, None] + np.array([0, 2, 4])) % 4 * tokens).tolist(),
                "tokens": tokens,
                "top_k": 3,
                "locality": locality,
            }
        )
    return found


def arguments(case: dict[str, Any]) -> tuple[Any, ...]:
    sigma = case["sigma_request"]
    return (
        np.array(case["weights"]), lognormal_table(sigma) if sigma else np.empty(0), np.uint64(case["key"]), 6,
        np.array(case["owner"]), np.array(case["position"]), case["tokens"], case["top_k"], case["locality"],
    )  # fmt: skip


def make() -> list[dict[str, Any]]:
    return [{"input": case, "counts": sample_steps_reference(*arguments(case)).tolist()} for case in cases()]


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(make()) + "\n", "utf-8")
