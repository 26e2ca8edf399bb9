"""Which measurement would narrow the interval of TPOT most: inputs that one probe measures together become known."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.ranges import Ranges
from planner.result import Interval, NextMeasurement

KNOWN = 0.1
"""What is left of a figure's spread, in ln, once it was measured on the machine itself."""
OWN_RUNS = 0.18
"""Half width of TPOT, in ln, once a few runs on the machine calibrate it: one factor per machine leaves 10 % median and
30 % at the 90th percentile of published runs; the 80 % interval lies between."""


@dataclass(frozen=True)
class Probe:
    """What is measured together, in how many minutes, and the figures that it settles."""

    what: str
    minutes: float
    paths: tuple[str, ...]


PROBES = (
    Probe("host memory bandwidth", 1.0, ("dram.", "cpu.numa_", "cpu.kv_bandwidth")),
    Probe(
        "expert products on the CPU",
        1.0,
        ("cpu.vector_efficiency", "cpu.matrix_efficiency", "cpu.low_bit_extra_bits", "cpu.overlap"),
    ),
    Probe(
        "GPU bandwidth and expert products",
        1.0,
        (
            "gpu.bandwidth_efficiency",
            "gpu.kv_bandwidth_efficiency",
            "gpu.compute_efficiency_max",
            "gpu.compute_half_tokens",
            "gpu.overlap",
        ),
    ),
    Probe("link rate by message size", 1.0, ("pcie.", "scaleup.", "network.")),
    Probe(
        "launch, synchronisation and per-layer cost",
        2.0,
        ("gpu.layer_launch", "gpu.step_overhead", "gpu.sequence_overhead", "cpu.layer_sync"),
    ),
)
MOST = 3


def suggestions(
    spread: Ranges, now: Interval | None, value: float | None, regime: str | None
) -> tuple[NextMeasurement, ...]:
    """Measurements in the order of what they leave; those that change nothing are left out."""
    if now is None or not value or now[0] <= 0:
        return ()
    width = math.log(now[1] / now[0]) / 2.0
    squares = {path: _half(changes.get("tpot_s", (0.0, 0.0))) ** 2 for path, changes in spread.moves.items()}
    total = sum(squares.values())
    found = []
    # Measured accuracy holds what the inputs do not explain; only runs of the model itself narrow that.
    unexplained = max(width**2 - total, 0.0)
    for probe in PROBES:
        settled = sum(square for path, square in squares.items() if path.startswith(probe.paths))
        left = math.sqrt(unexplained + total - settled + min(settled, KNOWN**2))
        found.append(_next(probe.what, probe.minutes, width, left))
    both = sorted(found, key=lambda m: m.half_width_then)[:2]
    if len(both) == 2:
        paths = tuple(path for p in PROBES if p.what in (both[0].what, both[1].what) for path in p.paths)
        settled = sum(square for path, square in squares.items() if path.startswith(paths))
        left = math.sqrt(unexplained + total - settled + min(settled, KNOWN**2))
        found.append(_next(f"{both[0].what}; {both[1].what}", both[0].minutes + both[1].minutes, width, left))
    if regime is not None:
        found.append(_next("five runs of this model on this machine (calibrate)", 20.0, width, min(width, OWN_RUNS)))
    useful = [m for m in found if m.half_width_then < 0.95 * m.half_width_now]
    return tuple(sorted(useful, key=lambda m: (m.half_width_then, m.minutes))[:MOST])


def _half(ends: Interval) -> float:
    """Half of the spread of ln(TPOT) over one input's range."""
    low, high = (math.log1p(max(change, -0.99)) for change in ends)
    return abs(high - low) / 2.0


def _next(what: str, minutes: float, now: float, then: float) -> NextMeasurement:
    return NextMeasurement(
        what=what, minutes=minutes, half_width_now=math.expm1(now), half_width_then=math.expm1(min(then, now))
    )
