"""Saves scenarios in a process of its own: ``saver.py URL COUNT PREFIX``; COUNT 0 goes on until killed.

Writes "ready", then one line with the id after each scenario of which both saves were acknowledged.
"""

from __future__ import annotations

import itertools
import sys

from db import open_store
from planner.scenario import ModelChoice, Scenario, Workload
from tests.db.builders import result_of


def main(url: str, count: int, prefix: str) -> None:
    store = open_store(url, busy_timeout_s=20)
    print("ready", flush=True)
    sys.stdin.readline()  # all start together
    for number in range(1, count + 1) if count else itertools.count(1):
        config = {"text": f"{prefix} {number} " + "x" * 20_000}  # several database pages for each row
        scenario = Scenario(model=ModelChoice(id="m", config=config), workload=Workload(batch=1 + number % 1000))
        saved = store.save(scenario, f"{prefix} {number}", result=result_of(scenario, layers=4, experts=32))
        store.update(saved.id, note="again", expected_version=1)
        print(saved.id, flush=True)


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
