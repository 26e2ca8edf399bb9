"""Writes the vectors of the quantisers, from their plain twins: python -m tests.losses.make_vectors

They pin the numbers across versions; change them only together with a stated change of the algorithm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibrate.gptq import gptq_reference, hessian_factor
from planner.calibrate.quantise import round_to_nearest_reference

FILE = Path(__file__).parent / "vectors" / "quantisers.json"
GROUP = 8


def make() -> dict[str, Any]:
    """Five rows of twenty weights (the last group of each is short), over inputs whose channels go together."""
    rng = np.random.default_rng(7)
    weights = np.round(rng.standard_normal((5, 20)), 3).astype(np.float32)
    weights[1, 8:16] = 0
    inputs = np.round(rng.standard_normal((40, 20)) @ (np.eye(20) + 0.5 * rng.standard_normal((20, 20))), 3)
    factor = hessian_factor(inputs.astype(np.float32))
    return {
        "weights": weights.tolist(),
        "inputs": inputs.tolist(),
        "factor": factor.tolist(),
        "rtn": {str(b): round_to_nearest_reference(weights, b, GROUP).tolist() for b in (1, 2, 3, 4)},
        "gptq": {str(b): gptq_reference(weights, factor, b, GROUP).tolist() for b in (1, 2, 3, 4)},
    }


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(make()) + "\n")
