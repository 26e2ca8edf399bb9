"""Writes the stored vectors of the layout kernels from their plain twins: python -m tests.layout.make_layout_vectors

They pin the numbers across versions; change them only together with a stated change of the algorithm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.layout.layout_cases import case, outcome

FILE = Path(__file__).parent / "vectors" / "layout.json"
CASES: tuple[dict[str, Any], ...] = (
    {"seed": 1},
    {"seed": 2, "chain": True, "window_s": 3e-4},
    {"seed": 3, "tight": True, "dimms": 3},
)


def make(plain: bool = True) -> list[dict[str, Any]]:
    return [{"case": given, "rounds": outcome(case(**given), plain)} for given in CASES]


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(make()) + "\n", "utf-8")
