"""Sweeps: a base scenario, axes over any of its fields, and every plan of the design through ``planner.plan``.

``sweep(spec, executor=executor("processes")) -> SweepResult`` is the door; the other modules read its result.
"""

from planner.sweep.design import MOST_AXES, MOST_POINTS, Axis, Span, Steps, SweepError, SweepSpec
from planner.sweep.executors.choose import executor
from planner.sweep.metrics import METRICS, Metric, metric
from planner.sweep.outcome import Outcome
from planner.sweep.record import Point, SweepResult, from_json, spec_from, spec_from_json
from planner.sweep.run import Progress, partial, run_many, sweep

__all__ = [
    "METRICS",
    "MOST_AXES",
    "MOST_POINTS",
    "Axis",
    "Metric",
    "Outcome",
    "Point",
    "Progress",
    "Span",
    "Steps",
    "SweepError",
    "SweepResult",
    "SweepSpec",
    "executor",
    "from_json",
    "metric",
    "partial",
    "run_many",
    "spec_from",
    "spec_from_json",
    "sweep",
]
