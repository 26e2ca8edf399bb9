"""Writes the vectors of the improved schedule, from its plain twin: python -m tests.kernels.make_vectors_improved

The vectors pin the numbers across versions; change them only together with a stated change of the algorithm.
"""

from __future__ import annotations

import json
from typing import Any

from planner.schedule import schedule_layers
from planner.schedule_improved import improve_layers
from planner.schedule_improved_reference import PLAIN
from tests.kernels.make_vectors import FOLDER, plain, schedule_case

SIZES = ((3, 12, 4), (2, 30, 4), (2, 40, 2))
"""rows, experts, DIMMs"""


def make() -> list[dict[str, Any]]:
    cases = []
    for seed, (rows, experts, dimms) in enumerate(SIZES):
        given = schedule_case(seed, rows, experts, dimms)
        found = improve_layers(**given, published=schedule_layers(**given), kit=PLAIN)
        answer = {"domain": found.domain, "makespan_s": found.makespan_s, "lower_bound_s": found.lower_bound_s}
        cases.append({"input": given, "answer": answer})
    return cases


if __name__ == "__main__":
    (FOLDER / "schedule_improved.json").write_text(json.dumps(plain(make())) + "\n", "utf-8")
