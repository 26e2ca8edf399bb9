"""The report on a table of runs: a record per row, and the errors by cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.accuracy import Spread, missed, spread
from planner.accuracy_case import beyond, shape
from planner.context import resolve
from validation.measured.families import family
from validation.measured.mapping import regime_of
from validation.measured.predict import predict
from validation.measured.reading import Line
from validation.measured.runs import Run

UNLIKELY = 20.0
"""A measured rate beyond an end of the 80 % interval by this factor is taken for one in another unit."""


@dataclass(frozen=True)
class Row:
    """One row of the report, in the row's own unit; None with ``reason`` where there is no prediction."""

    id: str
    line: int
    regime: str | None
    phase: str | None
    system_family: str | None
    usable: bool
    per: str | None
    tokens_counted: str | None
    predicted_tokens_per_s: float | None
    low_tokens_per_s: float | None
    high_tokens_per_s: float | None
    measured_tokens_per_s: float | None
    error: float | None
    bound_by: str | None
    in_validated_range: bool | None
    interval_level: str | None
    reason: str | None
    predicted_ttft_ms: float | None = None
    measured_ttft_ms: float | None = None
    predicted_tpot_ms: float | None = None
    measured_tpot_ms: float | None = None
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        return {**self.__dict__, "notes": list(self.notes)}


def row_of(line: Line) -> Row:
    """Predict one line. Whatever stands in the way becomes the row's reason."""
    return answered(line, None if line.run is None else predicted_of(line.run))


def answered(line: Line, found: Row | None) -> Row:
    """The prediction ``found`` for the run of ``line``, beside what was measured."""
    if line.run is None or found is None:
        return _without(line.id, line.number, None, line.problem)
    run, predicted = line.run, found.predicted_tokens_per_s
    doubted = _doubt_of(run.tokens_per_s, found) if run.usable else ""
    return replace(
        found,
        id=run.id,
        line=line.number,
        usable=run.usable,
        measured_tokens_per_s=run.tokens_per_s,
        measured_ttft_ms=run.ttft_ms,
        measured_tpot_ms=run.tpot_ms,
        error=None if predicted is None or not run.tokens_per_s else predicted / run.tokens_per_s - 1.0,
        notes=(*found.notes, doubted) if doubted else found.notes,
    )


def _doubt_of(measured: float | None, found: Row) -> str:
    """Why a rate looks like one in another unit; empty where it does not. The row is scored all the same."""
    predicted, low, high = found.predicted_tokens_per_s, found.low_tokens_per_s, found.high_tokens_per_s
    if not measured or predicted is None or low is None or high is None:
        return ""
    if low / UNLIKELY < measured < high * UNLIKELY:
        return ""
    return doubt(measured, predicted)


def doubt(measured: float, predicted: float) -> str:
    """What a rate far from its prediction says about itself."""
    apart = (
        f"{measured / predicted:,.0f} times the prediction"
        if measured > predicted
        else f"1/{predicted / measured:,.0f} of the prediction"
    )
    shown = f"{measured:,.0f}" if measured >= 1000 else f"{measured:.4g}"
    return f"tokens_per_s is {shown}, {apart}: check its unit, and per and tokens_counted"


def predicted_of(run: Run) -> Row:
    """The row of a run without what was measured."""
    found, case = predict(run)
    if found.tokens_per_s is None or case is None:
        return replace(_without(run.id, 0, run, found.reason or "no prediction"), notes=found.notes)
    outside = beyond(shape(resolve(case.scenario)), case.regime, run.phase)
    around: Spread | None = spread(case.regime, run.phase, family(run), outside=bool(outside))
    predicted = found.tokens_per_s
    notes = (*found.notes, *(f"outside what was measured: {text}" for text in outside))
    return replace(
        _without(run.id, 0, run, ""),
        regime=case.regime,
        predicted_tokens_per_s=predicted,
        low_tokens_per_s=None if around is None else predicted * around.low,
        high_tokens_per_s=None if around is None else predicted * around.high,
        bound_by=found.bound_by or None,
        in_validated_range=not outside,
        interval_level=None if around is None else around.level,
        predicted_ttft_ms=None if found.ttft_s is None else found.ttft_s * 1e3,
        predicted_tpot_ms=None if found.tpot_s is None else found.tpot_s * 1e3,
        notes=notes,
    )


def _without(ident: str, number: int, run: Run | None, reason: str) -> Row:
    return Row(
        id=ident,
        line=number,
        regime=None if run is None else regime_of(run),
        phase=None if run is None else run.phase,
        system_family=None if run is None else run.system_family,
        usable=run is not None and run.usable,
        per=None if run is None else run.per,
        tokens_counted=None if run is None else run.tokens_counted,
        predicted_tokens_per_s=None,
        low_tokens_per_s=None,
        high_tokens_per_s=None,
        measured_tokens_per_s=None if run is None else run.tokens_per_s,
        error=None,
        bound_by=None,
        in_validated_range=None,
        interval_level=None,
        reason=reason or None,
        measured_ttft_ms=None if run is None else run.ttft_ms,
        measured_tpot_ms=None if run is None else run.tpot_ms,
    )


def cells(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Errors by regime, phase and system family, then all families, of usable rows with a measurement."""
    scored = [r for r in rows if r.usable and r.error is not None]
    found: list[dict[str, Any]] = []
    for by_family in (True, False):
        keys = sorted({_key(r, by_family) for r in scored})
        found += [_cell(key, [r for r in scored if _key(r, by_family) == key]) for key in keys]
    return found


def _key(row: Row, by_family: bool) -> tuple[str, str, str]:
    return row.regime or "", row.phase or "", (row.system_family or "") if by_family else "all"


def _cell(key: tuple[str, str, str], rows: list[Row]) -> dict[str, Any]:
    off = missed([r.error for r in rows if r.error is not None])
    within = [_inside(r) for r in rows if r.low_tokens_per_s is not None]
    return {
        "regime": key[0],
        "phase": key[1],
        "system_family": key[2],
        "rows": len(rows),
        "median": off.median,
        "p75": off.p75,
        "p90": off.p90,
        "coverage": float(np.mean(within)) if within else None,
    }


def _inside(row: Row) -> bool:
    low, high, measured = row.low_tokens_per_s, row.high_tokens_per_s, row.measured_tokens_per_s
    assert low is not None and high is not None and measured is not None
    return low <= measured <= high


def as_json(version: str, rows: Iterable[Row]) -> Mapping[str, Any]:
    """The report for machines."""
    listed = list(rows)
    return {"engine_version": version, "rows": [r.record() for r in listed], "cells": cells(listed)}
