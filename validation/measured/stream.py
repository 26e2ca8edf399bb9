"""Rows of a large table one after the other: identical runs are planned once, distinct ones on all cores."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from validation.measured.reading import Line
from validation.measured.report import Row, answered, predicted_of
from validation.measured.runs import Run

BLOCK = 256
"""Lines that are read ahead: what is in hand when somebody stops."""
SERIAL = 24
"""Up to so many distinct runs one process is quicker than starting others."""


def asked(run: Run) -> Run:
    """The run without its name and what was measured: equal questions have equal answers."""
    return dataclasses.replace(
        run, id="", usable=True, split_unit="", quality="", tokens_per_s=None, ttft_ms=None, tpot_ms=None
    )


def rows(lines: Iterable[Line], workers: int | None = None) -> Iterator[Row]:
    """A row for each line, in order. ``workers`` None = one for each core."""
    count = workers if workers is not None else max(os.cpu_count() or 1, 1)
    known: dict[Run, Row] = {}
    first: dict[Run, str] = {}
    pool: ProcessPoolExecutor | None = None
    remaining = iter(lines)
    try:
        while block := list(islice(remaining, BLOCK)):
            new = list(dict.fromkeys(asked(line.run) for line in block if line.run is not None))
            new = [run for run in new if run not in known]
            if count > 1 and pool is None and len(new) > SERIAL:
                pool = ProcessPoolExecutor(max_workers=count)
            answers = pool.map(predicted_of, new, chunksize=4) if pool is not None else map(predicted_of, new)
            known.update(zip(new, answers, strict=True))
            for line in block:
                yield _row(line, known, first)
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def _row(line: Line, known: dict[Run, Row], first: dict[Run, str]) -> Row:
    if line.run is None:
        return answered(line, None)
    key = asked(line.run)
    found = answered(line, known[key])
    earlier = first.setdefault(key, line.id)
    if earlier != line.id:
        return dataclasses.replace(found, notes=(*found.notes, f"the same run as {earlier}"))
    return found
