"""Rows of a large table one after the other: identical runs are planned once, distinct ones on all cores."""

from __future__ import annotations

import dataclasses
import os
import signal
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
            keys = [None if line.run is None else asked(line.run) for line in block]
            new = [run for run in dict.fromkeys(keys) if run is not None and run not in known]
            if count > 1 and pool is None and len(new) > SERIAL:
                # Who stops a run stops this process; the others end with it, without a word of their own.
                pool = ProcessPoolExecutor(count, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN))
            answers = pool.map(predicted_of, new, chunksize=4) if pool is not None else map(predicted_of, new)
            made = zip(new, answers, strict=True)
            for line, key in zip(block, keys, strict=True):  # as soon as it is there: kept when somebody stops
                while key is not None and key not in known:
                    run, answer = next(made)
                    known[run] = answer
                yield _row(line, key, known, first)
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def _row(line: Line, key: Run | None, known: dict[Run, Row], first: dict[Run, str]) -> Row:
    if key is None:
        return answered(line, None)
    found = answered(line, known[key])
    earlier = first.setdefault(key, line.id)
    if earlier != line.id:
        return dataclasses.replace(found, notes=(*found.notes, f"the same run as {earlier}"))
    return found
