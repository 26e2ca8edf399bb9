"""The fitted constants of the named calibrations, fitted again from what they were fitted on.

A calibration file must hold what these functions find; a test runs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from validation.published.calibrations import calibration
from validation.published.claims import claim
from validation.published.expressions import Run
from validation.published.scenarios import Change, merged

SIGMAS_P1 = tuple(0.05 * i for i in range(1, 11))
SIGMAS_R1 = (0.7, 0.85, 1.0, 1.15, 1.3, 1.5)
BATCHES = (1, 2, 4, 8)
SPEEDUPS = {"T06": "deepseek-v2", "T07": "qwen3", "T08": "glm"}
RESIDENCY: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("2", "p1-8x22b-3bit", {}),
    ("2", "p1-8x22b-monde", {}),
    ("4", "p1-8x7b-3bit", {}),
    ("4", "p1-8x7b-monde", {"policy": {"gpu_experts_per_layer": 4}}),
)
"""K, scenario and change whose residency is held against the recorded figures: both ways to learn it, both models."""


def _number(value: Any) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _published(name: str) -> float:
    return _number(claim(name).published)


def _plan(name: str, *changes: Change) -> dict[str, Any]:
    return {"plan": name, "change": merged({}, *changes)}


def residency(run: Run, sigma: float) -> dict[str, list[float]]:
    """P(0, 1, 2 active experts in HBM) of each row of RESIDENCY at that spread, by scenario."""
    found = {}
    for _, name, change in RESIDENCY:
        plan = _plan(name, change, {"routing": {"sigma": sigma}})
        found[name] = [_number(run.value({"figure": "resident_hits", "of": plan, "hits": h})) for h in range(3)]
    return found


def fit_p1(run: Run | None = None) -> dict[str, float]:
    """sigma nearest to the recorded residency, then eta and t_overhead from the two low-bit rates of Mixtral-8x22B.

    The step is linear in the overhead, so it is eliminated with the 3-bit rate; what is left for the 2-bit rate
    rises with eta, and is bisected.
    """
    run = run or Run()
    recorded = calibration("P1").data["residency"]["probabilities"]

    def distance(sigma: float) -> float:
        found = residency(run, sigma)
        return sum(abs(a - b) for k, name, _ in RESIDENCY for a, b in zip(found[name], recorded[k], strict=True))

    sigma = min(SIGMAS_P1, key=distance)

    def step_s(bits: int, eta: float, overhead: float) -> float:
        figures = {"cxl.bandwidth_efficiency": eta, "gpu.layer_launch_s": overhead}
        plan = _plan(f"p1-8x22b-{bits}bit", {"system": {"overrides": figures}, "routing": {"sigma": sigma}})
        return 1.0 / _number(run.value({"figure": "tokens_per_s", "of": plan}))

    slow, fast = 1.0 / _published("C02"), 1.0 / _published("C03")
    layers = 56

    def overhead_at(eta: float) -> float:
        return max((slow - step_s(3, eta, 0.0)) / layers, 0.0)

    def too_slow(eta: float) -> bool:
        return step_s(2, eta, overhead_at(eta)) > fast

    eta = _bisect(too_slow, 0.2, 1.0)
    return {"sigma": round(sigma, 6), "eta": _rounded(eta), "t_overhead": _rounded(overhead_at(eta))}


def _bisect(above: Callable[[float], bool], low: float, high: float) -> float:
    """Where ``above`` turns from False to True, to 1e-7."""
    while high - low > 1e-7:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if above(middle) else (middle, high)
    return 0.5 * (low + high)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def fit_r1(run: Run | None = None) -> dict[str, float]:
    """sigma with the least root-mean-square log error over three speed-ups, then the batches of Klotski on one."""
    run = run or Run()

    def speed(name: str, sigma: float, *changes: Change) -> float:
        plan = _plan(name, {"routing": {"sigma": sigma}}, *changes)
        return _number(run.value({"figure": "tokens_per_s", "of": plan}))

    def misses(sigma: float) -> float:
        errors = [
            math.log(speed(f"r1-{model}-trimoe", sigma) / speed(f"r1-{model}-kt", sigma) / _published(name))
            for name, model in SPEEDUPS.items()
        ]
        return sum(e * e for e in errors)

    sigma = min(SIGMAS_R1, key=misses)

    def miss(batches: int) -> float:
        together = {"workload": {"batch": 512 * batches}, "policy": {"options": {"batches": batches}}}
        ratio = speed("r1-glm-trimoe", sigma) / speed("r1-glm-klotski", sigma, together)
        return abs(math.log(ratio / _published("T05")))

    return {"sigma": sigma, "klotski_batches": float(min(BATCHES, key=miss))}


FITS: dict[str, Callable[[], dict[str, float]]] = {"P1": fit_p1, "R1": fit_r1}
