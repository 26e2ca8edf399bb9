"""From measured runs to a calibration: generic coefficients, each engine family's own, and what is left held out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.calibration import GENERIC, Coefficient
from validation.measured.coefficients import CPU, FITTABLE, GPU, LINK, Fittable, of_regimes
from validation.measured.families import COPIERS, EARLY, PAGEABLE, PAGEABLE_COPY_BYTES_PER_S, STATED, served
from validation.measured.fit import Linear, Sample, Slopes, fit, log_rate, solve, weights

COPY_LIMIT = "pcie.copy_limit_bytes_per_s"
SETS = (GPU, CPU, LINK)
LEAST_ROWS = 4
"""Runs that a family needs for coefficients of its own."""
MOVED = 0.02
"""A family states a figure of its own when it differs from the generic one by more."""


@dataclass(frozen=True)
class Part:
    """The fit of one set of regimes: generic figures and each family's, with predictions linear around them."""

    regimes: tuple[str, ...]
    samples: tuple[Sample, ...]
    fittable: tuple[Fittable, ...]
    prior: Mapping[str, float]
    generic: Mapping[str, float]
    linear: Linear
    families: Mapping[str, tuple[Mapping[str, float], Linear, tuple[int, ...]]]


def fit_part(
    samples: Sequence[Sample],
    regimes: Sequence[str],
    start: Mapping[str, float],
    progress: Callable[[], None],
    workers: Sequence[Executor] = (),
) -> Part:
    """Fit the runs of ``regimes``; ``start`` are the figures that generic ones are held towards; ``workers`` evaluate.

    Generations of engines that are families of their own (``-early``) say nothing about the generic figures.
    """
    chosen = tuple(s for s in samples if s.regime in regimes)
    fittable = tuple(f for f in of_regimes(set(regimes)) if f.path in start)
    generic_figures = tuple(f for f in fittable if f.home == tuple(regimes))
    without_limits = {path: value for path, value in start.items() if _of(path).home is not None}
    current = [s for s in chosen if not s.family.endswith("-early")]
    slopes = Slopes(workers)
    generic, linear = fit(current, without_limits, generic_figures, progress, slopes=slopes)
    families: dict[str, tuple[Mapping[str, float], Linear, tuple[int, ...]]] = {}
    for name in (EARLY, PAGEABLE, *sorted({s.family for s in chosen})):
        index = members(chosen, name)
        if len(index) >= LEAST_ROWS:
            parent = families.get(parent_of(name, regimes))
            towards = _towards(name, parent[0] if parent else {**start, **generic})
            own, around = fit([chosen[i] for i in index], towards, fittable, progress, rounds=2, slopes=slopes)
            families[name] = (own, around, index)
    return Part(tuple(regimes), chosen, fittable, start, generic, linear, families)


def members(samples: Sequence[Sample], name: str) -> tuple[int, ...]:
    """Indexes of a family's runs; of all its children for a family that stands for several engines."""
    return tuple(
        i for i, s in enumerate(samples) if s.family == name or name == parent_of(s.family, (samples[i].regime,))
    )


def _towards(name: str, parent: Mapping[str, float]) -> dict[str, float]:
    """What a family's figures are held towards: those of its parent, and for pageable copies what such copies reach."""
    return {**parent, **({COPY_LIMIT: PAGEABLE_COPY_BYTES_PER_S} if name == PAGEABLE else {})}


def parent_of(name: str, regimes: Sequence[str]) -> str:
    """The family that stands in where one has no runs: of its generation, of its way to copy, else the generic one."""
    if name.endswith(f"-{EARLY}"):
        return EARLY
    return PAGEABLE if name in COPIERS and set(regimes) <= set(LINK) else GENERIC


def _of(path: str) -> Fittable:
    return next(f for f in FITTABLE if f.path == path)


def without(part: Part, group: str) -> dict[str, Mapping[str, float]]:
    """Figures by family (and the generic ones) fitted without the runs of ``group``, predictions taken as linear."""
    home, regimes = [_of(path) for path in part.linear.paths], part.regimes
    prior = np.log([part.prior[f.path] for f in home])
    current = [s for s in part.samples if not s.family.endswith("-early")]
    measured = np.array([s.log_measured for s in current])
    keep = np.array([s.group != group for s in current])
    x = solve(part.linear, measured, weights([s.group for s in current]), home, prior, keep)
    generic = {**part.generic, **_named(home, x)}
    found: dict[str, Mapping[str, float]] = {GENERIC: generic}
    for name, (own, linear, index) in part.families.items():
        some = [part.samples[i] for i in index]
        inside = np.array([s.group != group for s in some])
        if inside.all():
            found[name] = own
        elif inside.sum() >= LEAST_ROWS:
            logs = np.array([s.log_measured for s in some])
            parent = found.get(parent_of(name, regimes), generic)
            held = _towards(name, parent)
            towards = np.log([held.get(f.path, part.prior[f.path]) for f in part.fittable])
            y = solve(linear, logs, weights([s.group for s in some]), part.fittable, towards, inside)
            found[name] = {**generic, **_named(part.fittable, y)}
    return found


def _named(fittable: Sequence[Fittable], x: NDArray[np.float64]) -> dict[str, float]:
    return {f.path: float(v) for f, v in zip(fittable, np.exp(x), strict=True)}


def held_out(part: Part, progress: Callable[[], None] = lambda: None) -> NDArray[np.float64]:
    """ln(predicted / measured) of each run of a part, its whole group left out of the fit; evaluated by the engine."""
    residuals = np.empty(len(part.samples))
    by_group: dict[str, dict[str, Mapping[str, float]]] = {}
    for i, sample in enumerate(part.samples):
        if sample.group not in by_group:
            by_group[sample.group] = without(part, sample.group)
        figures = by_group[sample.group]
        parent = parent_of(sample.family, part.regimes)
        own = figures.get(sample.family) or figures.get(parent) or figures[GENERIC]
        residuals[i] = log_rate(sample, own) - sample.log_measured
        progress()
    return residuals


def coefficients(parts: Sequence[Part]) -> dict[str, dict[str, Coefficient]]:
    """Figures by family with ranges: what leaving one group out at a time makes of them, and the prior's spread."""
    found: dict[str, dict[str, Coefficient]] = {GENERIC: {}}
    for part in parts:
        groups = sorted({s.group for s in part.samples})
        left = {g: without(part, g) for g in groups}
        home = tuple(_of(path) for path in part.linear.paths)
        everyone = range(len(part.samples))
        _add(found, GENERIC, part, home, part.generic, [left[g][GENERIC] for g in groups], everyone)
        for name, (own, _, index) in part.families.items():
            others = [left[g].get(name, left[g][GENERIC]) for g in groups]
            _add(found, name, part, part.fittable, own, others, index)
    for s in (*STATED, *served()):
        for name in s.engines:
            known = Coefficient(value=s.value, low=s.low, high=s.high, rows=0, groups=0)
            found.setdefault(name, {})[s.path] = known
    return found


def _add(
    found: dict[str, dict[str, Coefficient]],
    name: str,
    part: Part,
    fittable: Sequence[Fittable],
    own: Mapping[str, float],
    others: Sequence[Mapping[str, float]],
    index: Sequence[int] | range,
) -> None:
    limits = {f.path: (f.low, f.high) for f in FITTABLE}
    for f in fittable:
        value = own[f.path]
        generic = part.generic.get(f.path, part.prior[f.path])
        if name != GENERIC and (abs(math.log(value / generic)) < MOVED or f.path in found.get(name, {})):
            continue
        seen = [other.get(f.path, value) for other in others] + [value]
        low, high = limits[f.path]
        # A figure that the runs say little about keeps the spread that it started with.
        wide = math.exp(0.5 * f.spread)
        lowest = max(min(min(seen), value / wide), low)
        highest = min(max(max(seen), value * wide), high)
        groups = {part.samples[i].group for i in index}
        found.setdefault(name, {})[f.path] = Coefficient(
            value=_rounded(value),
            low=_rounded(min(lowest, value)),
            high=_rounded(max(highest, value)),
            rows=len(index),
            groups=len(groups),
        )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
