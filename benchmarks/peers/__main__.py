"""Asks every peer and this planner about the same served runs: ``python -m benchmarks.peers [--runs N] [--json FILE]``.

The runs and what was measured come from the silicon table of ``aiconfigurator-core`` (``--table FILE``, else the
installed package). Each peer is installed from PyPI into an environment of its own under ``--environments`` and runs in
a process of its own; one that cannot be installed, or that refuses a run, is listed with its reason. Our figures for an
architecture are those fitted without it (``validation.silicon``).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import platformdirs

from benchmarks.peers.environment import ADAPTERS, ANSWER_S, PEERS, Answers, ask, installed, python_of
from benchmarks.peers.questions import chosen, question
from benchmarks.peers.report import Column, as_rows, table
from planner.errors import PlanError
from validation.silicon import store
from validation.silicon.fit import Sample
from validation.silicon.mapping import UnmappableError
from validation.silicon.predict import predict
from validation.silicon.run import cases_of
from validation.silicon.table import TableError, read


def ours(measured: dict[str, Sample]) -> Column:
    """This planner's answers, each estimated from nothing but the imports and the catalog."""
    fitted = store.fitted_of(store.snapshot())
    begun = time.perf_counter()
    found: dict[str, dict[str, Any]] = {}
    for ident, sample in measured.items():
        start = time.perf_counter()
        try:
            said = predict(sample.case, fitted.of(sample.case.architecture, sample.case.engine))
            found[ident] = {"ttft_s": said.ttft_s, "tpot_s": said.tpot_s, "seconds": time.perf_counter() - start}
        except (PlanError, UnmappableError) as error:
            found[ident] = {"reason": str(error)}
    spent = time.perf_counter() - begun
    return Column("tierline", found, "", spent - sum(a.get("seconds", 0.0) for a in found.values()))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--table", type=Path, help="CSV file with the silicon table's columns")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--peers", nargs="*", default=[p.name for p in PEERS], choices=[p.name for p in PEERS])
    default = platformdirs.user_cache_path("tierline", appauthor=False) / "peers"
    parser.add_argument("--environments", type=Path, default=default, help="folder of the peers' environments")
    parser.add_argument("--json", type=Path, help="write a record per run and estimator")
    given = parser.parse_args(arguments)
    try:
        cases, _ = cases_of(read(given.table))
    except TableError as error:
        print(error, file=sys.stderr)
        return 2
    measured = {str(i): s for i, s in enumerate(chosen(cases, given.runs))}
    questions = [question(s.case, i) for i, s in measured.items()]
    columns = [ours(measured)]
    for peer in (p for p in PEERS if p.name in given.peers):
        print(f"{peer.name}: installing", file=sys.stderr, flush=True)
        why = installed(peer, given.environments)
        print(f"{peer.name}: {why or 'asking'}", file=sys.stderr, flush=True)
        limit_s = ANSWER_S + ANSWER_S * len(questions) / 10
        found = Answers({}, f"not installed: {why}") if why else ask(
            python_of(peer, given.environments), ADAPTERS / peer.adapter, questions, limit_s
        )  # fmt: skip
        columns.append(Column(peer.name, found.by_id, found.reason, found.start_s))
    print(table(measured, columns))
    if given.json:
        given.json.write_text(json.dumps(as_rows(measured, columns), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
