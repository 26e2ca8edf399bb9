"""Fits the shipped calibration on the measured points and writes it, with the held-out residuals, into the engine."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardware import load_system
from planner import ENGINE_VERSION, accuracy, calibration
from planner.accuracy_case import measured_shapes, shape
from planner.calibration import Calibration
from planner.context import resolve
from validation.measured.calibrate import SETS, Part, coefficients, fit_part, held_out
from validation.measured.coefficients import FITTABLE, starts
from validation.measured.families import family
from validation.measured.fit import Sample
from validation.measured.machine import UnmappableError
from validation.measured.mapping import mapped
from validation.measured.predict import fitted, planned
from validation.measured.reading import Line, read_file

POINTS = Path(__file__).parent / "points.csv"
REFERENCE = "1x-h100-sxm"
"""Any machine that takes the catalog's defaults: what generic figures are held towards."""


def points() -> tuple[Line, ...]:
    """The published measurements that come with the project."""
    return tuple(read_file(POINTS))


def samples(lines: Sequence[Line]) -> tuple[Sample, ...]:
    """Usable runs that a scenario describes."""
    found = []
    for line in lines:
        run = line.run
        if run is None or not run.usable or not run.tokens_per_s:
            continue
        try:
            case = fitted(mapped(run))
        except UnmappableError:
            continue
        if not case.reason:
            group = run.split_unit or run.id
            found.append(Sample(run, case.scenario, case.regime, family(run), group))
    return tuple(found)


def fit_all(
    found: Sequence[Sample], progress: Callable[[], None], workers: Sequence[Executor] = ()
) -> tuple[Part, ...]:
    """The parts of the calibration, each with the generic figures of those before."""
    system = load_system(REFERENCE)
    now = starts({f.path: system.get(f.path) for f in FITTABLE})
    parts = []
    for regimes in SETS:
        part = fit_part(found, regimes, now, progress, workers)
        now = {**now, **part.generic}
        parts.append(part)
    return tuple(parts)


def made(parts: Sequence[Part], residuals: Sequence[NDArray[np.float64]], name: str, fitted_on: str) -> Calibration:
    """The calibration as a record, its residuals by cell beside it."""
    cells = []
    for part, values in zip(parts, residuals, strict=True):
        kinds = [(s.regime, s.run.phase) for s in part.samples]
        for kind in sorted(set(kinds)):
            errors = [math.expm1(v) for v, k in zip(values, kinds, strict=True) if k == kind]
            off = accuracy.missed(errors)
            cells.append(
                {
                    "regime": kind[0],
                    "phase": kind[1],
                    "rows": len(errors),
                    "median": round(off.median, 4),
                    "p75": round(off.p75, 4),
                    "p90": round(off.p90, 4),
                }
            )
    return Calibration(
        name=name,
        engine_version=ENGINE_VERSION,
        fitted_on=fitted_on,
        date=date.today().isoformat(),
        families=coefficients(parts),
        residuals=cells,
    )


def label(sample: Sample) -> str:
    """Model, machine and engine of a run, in words."""
    run = sample.run
    machine = " + ".join(text for text in (f"{run.n_gpu}x {run.gpu}" if run.gpu else "", run.cpu or "") if text)
    return f"{run.model.split('/')[-1]} on {machine}, {run.system_family}, batch {sample.scenario.workload.batch:,}"


def accuracy_data(parts: Sequence[Part], residuals: Sequence[NDArray[np.float64]]) -> dict[str, object]:
    """What :mod:`planner.accuracy` reads: held-out residuals, and the shapes that were measured."""
    rows = []
    ends: dict[str, dict[str, list[float]]] = {}
    for part, values in zip(parts, residuals, strict=True):
        for sample, value in zip(part.samples, values, strict=True):
            rows.append(
                {
                    "id": sample.run.id,
                    "regime": sample.regime,
                    "phase": sample.run.phase,
                    "family": sample.family,
                    "group": sample.group,
                    "log_ratio": round(-float(value), 5),
                    "quality": sample.run.quality,
                    "label": label(sample),
                    "measured_tokens_per_s": sample.run.tokens_per_s,
                    "per": f"{sample.run.tokens_counted} tokens/s, {sample.run.per}",
                    "shape": {name: float(f"{v:.5g}") for name, v in shape(resolve(sample.scenario)).items()},
                }
            )
            cell = ends.setdefault(f"{sample.regime}/{sample.run.phase}", {})
            for name, size in shape(resolve(sample.scenario)).items():
                low, high = cell.get(name, [size, size])
                cell[name] = [min(low, size), max(high, size)]
    return {"engine_version": ENGINE_VERSION, "rows": sorted(rows, key=lambda r: str(r["id"])), "shapes": ends}


def write() -> None:
    """Fit and write both files."""
    found = samples(points())
    done = 0

    def progress() -> None:
        nonlocal done
        done += 1
        if done % 50 == 0:
            print(f"\r{done} runs evaluated", end="", file=sys.stderr, flush=True)

    with ExitStack() as stack:
        workers = [stack.enter_context(ProcessPoolExecutor(1)) for _ in range(os.cpu_count() or 1)]
        parts = fit_all(found, progress, workers)
    residuals = [held_out(part, progress) for part in parts]
    keep(found, parts, residuals)
    print("", file=sys.stderr)


def keep(found: Sequence[Sample], parts: Sequence[Part], residuals: Sequence[NDArray[np.float64]]) -> None:
    """Write a fit into the engine's data."""
    groups = len({s.group for s in found})
    text = f"{len(found)} published measurements on {groups} machines (validation/measured/points.csv)"
    calibration.SHIPPED.write_text(made(parts, residuals, "shipped", text).text(), encoding="utf-8")
    data = accuracy_data(parts, residuals)
    rows = data.pop("rows")
    assert isinstance(rows, list)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    head = json.dumps(data, indent=1)[:-2]
    accuracy.DATA.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    for kept in (
        calibration.shipped,
        calibration.figures_of,
        accuracy.stored,
        accuracy.residuals,
        measured_shapes,
        planned,
    ):
        kept.cache_clear()  # what was read before the fit
