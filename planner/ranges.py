"""Ranges of the headline figures from the ranges of the inputs, one input at a time. Not a measured accuracy.

Every figure that a plan used and that has a range is set to its low and to its high end, and the plan is evaluated
again through the same path. Relative changes combine as independent ones do: root of the sum of squares of their
logarithms, upward and downward changes apart. The ends are read as an 80 % range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hardware import inputs_of
from planner.evaluate import Evaluation, evaluate, priced
from planner.result import Interval

# Paths that change only money, power and heat: the timing is priced again, not evaluated again.
PRICED = (".price_usd", ".price_usd_per_gb", ".premium_usd", ".rent_usd_per_hour", "_w", "_j_per_byte", "_j_per_flop")
PRICED_PATHS = ("chassis.psu_factor",)
TIMED_WATTS = ("gpu.power_limit_w", "gpu.tdp_w")
SIGMA = "routing.sigma"
SIGMA_RANGE = (0.5, 1.0)
LOCALITY = "routing.locality"
LOCALITY_RANGE = (0.2, 0.7)


@dataclass(frozen=True)
class Ranges:
    """Intervals by headline key, and how far each input moves each key: path -> key -> (at low, at high), relative."""

    intervals: dict[str, Interval] = field(default_factory=dict)
    moves: dict[str, dict[str, Interval]] = field(default_factory=dict)


NO_RANGES = Ranges()


def ranges(found: Evaluation) -> Ranges:
    """Ranges of a plan that fits. Figures that the user set are taken as exact."""
    base = found.figures()
    quick = evaluate(found.ctx.scenario, quick=True)
    reference = quick.figures()
    moves: dict[str, dict[str, Interval]] = {}
    for path, (low, high) in ranged(found).items():
        at_low = _changed(found, quick, reference, path, low)
        at_high = _changed(found, quick, reference, path, high)
        moves[path] = {key: (at_low.get(key, 0.0), at_high.get(key, 0.0)) for key in base}
    if found.ctx.scenario.routing.source == "generated":
        moves[SIGMA] = _routed(found, reference, "sigma", SIGMA_RANGE)
        if found.policy.ordered:
            moves[LOCALITY] = _routed(found, reference, "locality", LOCALITY_RANGE)
    return Ranges({key: _combined(value, [m[key] for m in moves.values()]) for key, value in base.items()}, moves)


def ranged(found: Evaluation) -> dict[str, tuple[float, float]]:
    """Used figures with a real range, path -> (low, high)."""
    system = found.ctx.machine.figures.system
    chosen: dict[str, tuple[float, float]] = {}
    # A derived figure moves with the figures under it; varying both would count one uncertainty twice.
    leaves = (leaf for path in found.ctx.machine.figures.used for leaf in inputs_of(path, system.figures))
    for path in dict.fromkeys(leaves):
        figure = system.figures[path]
        if figure.edited or figure.value is None:
            continue
        low = figure.value if figure.low is None else figure.low
        high = figure.value if figure.high is None else figure.high
        if low < figure.value or high > figure.value:
            chosen[path] = (low, high)
    return chosen


def only_priced(path: str) -> bool:
    """Whether a figure changes money, power and energy alone."""
    return path not in TIMED_WATTS and (path in PRICED_PATHS or path.endswith(PRICED))


def _changed(
    found: Evaluation, quick: Evaluation, reference: Mapping[str, float], path: str, value: float
) -> dict[str, float]:
    """Relative change of each key with one figure set to ``value``; empty if the plan does not fit then."""
    system = found.ctx.machine.figures.system
    if value == system.figures[path].value:
        return dict.fromkeys(reference, 0.0)
    changed = (
        priced(quick, {path: value}) if only_priced(path) else evaluate(found.ctx.scenario, {path: value}, quick=True)
    )
    return _relative(changed.figures(), reference)


def _routed(
    found: Evaluation, reference: Mapping[str, float], name: str, ends: tuple[float, float]
) -> dict[str, Interval]:
    """One figure of the generated routing at both ends of its range: skew, or how alike consecutive steps are."""
    scenario = found.ctx.scenario
    sides = []
    for edge, bound in zip(ends, (min, max), strict=True):
        value = bound(edge, getattr(scenario.routing, name))
        routing = scenario.routing.model_copy(update={name: value})
        changed = evaluate(scenario.model_copy(update={"routing": routing}), quick=True)
        sides.append(_relative(changed.figures(), reference))
    return {key: (sides[0].get(key, 0.0), sides[1].get(key, 0.0)) for key in reference}


def _relative(changed: Mapping[str, float], reference: Mapping[str, float]) -> dict[str, float]:
    return {k: changed[k] / v - 1.0 for k, v in reference.items() if k in changed and v > 0}


def _combined(value: float, moves: list[Interval]) -> Interval:
    up = down = 0.0
    for pair in moves:
        logs = [math.log1p(change) for change in pair if change > -1.0]
        up += max([0.0, *logs]) ** 2
        down += min([0.0, *logs]) ** 2
    return value * math.exp(-math.sqrt(down)), value * math.exp(math.sqrt(up))
