"""The whole run: map the table, fit with each architecture held out, predict every row, twice: before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from hardware import HardwareError
from models import ModelError
from planner.errors import PlanError
from validation.held import Vector
from validation.silicon.fit import Fitted, Linear, Sample, fit, linearised_one, samples, stacked
from validation.silicon.mapping import Case, UnmappableError, mapped
from validation.silicon.predict import Prediction, predict, running
from validation.silicon.score import Scored
from validation.silicon.table import Row


@dataclass(frozen=True)
class Run:
    """Cases of the table, those left out by reason, and predictions by case key."""

    cases: tuple[Case, ...]
    left_out: Mapping[str, int]
    fitted: Fitted
    before: Mapping[str, Prediction]
    """With the figures of the catalog and the shipped calibration."""
    after: Mapping[str, Prediction]
    """With figures fitted without the case's architecture."""
    refused: Mapping[str, str]
    """Case key -> why it could not be predicted."""

    def scored(self, which: Mapping[str, Prediction]) -> tuple[Scored, ...]:
        return tuple(Scored(c, which[c.key]) for c in self.cases if c.key in which)


def cases_of(rows: Iterable[Row]) -> tuple[tuple[Case, ...], dict[str, int]]:
    """Cases that are scored, and how many rows each reason leaves out."""
    found, reasons = [], Counter[str]()
    for row in rows:
        try:
            found.append(mapped(row))
        except UnmappableError as error:
            reasons[str(error)] += 1
    return tuple(found), dict(sorted(reasons.items(), key=lambda item: -item[1]))


def whole(
    rows: Iterable[Row], processes: int = 1, fitted: Fitted | None = None, say: Callable[[str], None] = lambda _: None
) -> Run:
    """Map, fit (unless ``fitted`` is given) and predict."""
    cases, left_out = cases_of(rows)
    distinct = {c.key: c for c in _ordered(cases)}
    say(f"{len(cases)} rows, {len(distinct)} distinct cases")
    with Workers(processes) as workers:
        if fitted is None:
            known = [s for s in samples(_ordered(cases)) if workers.fits(s.case)]
            say(f"fitting on {len(known)} cases, each architecture held out in turn")
            fitted = fit(known, workers.linearise)
        say("predicting")
        before = workers.predict([(c, None) for c in distinct.values()])
        after = workers.predict([(c, fitted.of(c.architecture, c.engine)) for c in distinct.values()])
    keys = list(distinct)
    return Run(
        cases,
        left_out,
        fitted,
        {k: p for k, p in zip(keys, before, strict=True) if isinstance(p, Prediction)},
        {k: p for k, p in zip(keys, after, strict=True) if isinstance(p, Prediction)},
        {k: p for k, p in zip(keys, after, strict=True) if isinstance(p, str)},
    )


def _ordered(cases: Iterable[Case]) -> list[Case]:
    """Cases of one model and layout next to each other: their routing is sampled once."""
    return sorted(cases, key=lambda c: (c.scenario.model.id, c.layout.gpus, c.clients.count, c.key))


class Workers:
    """Evaluates cases in this process or in several."""

    def __init__(self, processes: int) -> None:
        self.pool = ProcessPoolExecutor(processes) if processes > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool:
            self.pool.shutdown()

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        if self.pool is None:
            return [function(item) for item in items]
        return list(self.pool.map(function, items, chunksize=8))

    def linearise(self, known: Sequence[Sample], x: Vector) -> Linear:
        return stacked(self.map(partial(linearised_one, x=x), known), x)

    def predict(self, items: Sequence[tuple[Case, Mapping[str, float] | None]]) -> list[Prediction | str]:
        return self.map(_predicted, items)

    @staticmethod
    def fits(case: Case) -> bool:
        """Whether the model fits into the memory of the row's GPUs at all."""
        try:
            running(case.scenario, case.clients)
        except PlanError:
            return False
        return True


def _predicted(item: tuple[Case, Mapping[str, float] | None]) -> Prediction | str:
    try:
        return predict(*item)
    except (UnmappableError, PlanError, HardwareError, ModelError) as error:
        return str(error)
