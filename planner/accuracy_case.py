"""What kind of case a plan is for the accuracy that was measured: its regime, its shape, whether that was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from planner.accuracy import stored
from planner.context import Context
from planner.words.formats import NBSP, bits, count, parameters, prefixed

REGIMES: Mapping[str, str] = {
    "all-gpu": "all_gpu",
    "cpu-only": "cpu_only",
    "cpu-experts": "cpu_experts",
    "static-split": "cpu_experts",
    "fiddler": "cpu_experts",
    "hybrimoe": "gpu_expert_cache",
    "daop": "gpu_expert_cache",
    "dali": "gpu_expert_cache",
    "freetoken": "gpu_expert_cache",
    "moe-infinity": "gpu_expert_cache",
    "hobbit": "gpu_expert_cache",
    "wisp": "gpu_expert_cache",
    "fluxmoe": "gpu_expert_cache",
    "layer-streaming": "pcie_stream",
    "moe-lightning": "pcie_stream",
    "klotski": "pcie_stream",
}
"""Regime of the measurements that a policy is nearest to; none for near-data processing: no silicon was measured."""
MARGIN = 1.25
"""A shape counts as measured up to this factor beyond the measured ones."""


def regime_of(ctx: Context) -> str | None:
    """Regime of a plan, or None where nothing of its kind runs in silicon."""
    if ctx.machine.unified_memory and ctx.scenario.policy.id == "all-gpu":
        return "unified_memory"
    return REGIMES.get(ctx.scenario.policy.id)


def shape(ctx: Context) -> dict[str, float]:
    """The quantities that say how far a case is from another: sizes, tokens, rates. Positive numbers only."""
    w, machine = ctx.scenario.workload, ctx.machine
    found = {
        "batch": float(w.batch),
        "context_tokens": float(ctx.full_context_tokens),
        "output_tokens": float(w.output_tokens),
        "parameters": float(ctx.parameters.main),
        "experts": float(ctx.experts),
        "expert_bits": sum(width.bits * share for width, share in ctx.other_widths()),
    }
    if machine.gpu is not None:
        found["gpus"] = float(machine.gpus)
        found["gpu_bandwidth_bytes_per_s"] = machine.gpu.peak_bandwidth_bytes_per_s
    if machine.dram is not None and regime_of(ctx) != "all_gpu":
        found["host_bandwidth_bytes_per_s"] = machine.dram.peak_bandwidth_bytes_per_s
    return found


def relevant(case: Mapping[str, float], phase: str) -> dict[str, float]:
    """The quantities of a shape that a phase hangs on: how a context splits matters end to end alone."""
    return {name: value for name, value in case.items() if phase == "e2e" or name != "output_tokens"}


@lru_cache(maxsize=1)
def measured_shapes() -> Mapping[str, Mapping[str, tuple[float, float]]]:
    """Least and largest of each quantity by "regime/phase" of the measured runs."""
    raw = stored()["shapes"]
    return {cell: {name: (ends[0], ends[1]) for name, ends in ranges.items()} for cell, ranges in raw.items()}


def beyond(case: Mapping[str, float], regime: str, phase: str) -> tuple[str, ...]:
    """What of this shape lies outside what was measured, in words; empty inside."""
    ranges = measured_shapes().get(f"{regime}/{phase}")
    if ranges is None:
        return (f"no {'run' if phase == 'e2e' else f'{phase} run'} of this kind was measured",)
    found = []
    for name, value in relevant(case, phase).items():
        low, high = ranges.get(name, (0.0, float("inf")))
        if not low / MARGIN <= value <= high * MARGIN:
            found.append(_words(name, value, low, high))
    return tuple(found)


_NAMES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "batch": ("batch {}", count),
    "context_tokens": (f"a context of {{}}{NBSP}tokens", count),
    "output_tokens": (f"{{}}{NBSP}output tokens", count),
    "parameters": ("a model of {} parameters", lambda value: parameters(round(value))),
    "experts": ("{} routed experts per layer", count),
    "expert_bits": (f"experts at {{}}{NBSP}bits per weight", bits),
    "gpus": (f"{{}}{NBSP}GPUs", count),
    "gpu_bandwidth_bytes_per_s": ("GPU memory of {}", lambda value: str(prefixed(value, "B/s"))),
    "host_bandwidth_bytes_per_s": ("host memory of {}", lambda value: str(prefixed(value, "B/s"))),
}
"""Quantity of a shape -> how it is said, and how its number is written."""


def _words(name: str, value: float, low: float, high: float) -> str:
    """``GPU memory of 3.35 TB/s (measured: 800 GB/s to 1.79 TB/s)``."""
    said, written = _NAMES[name]
    ends = f"only {written(low)}" if low == high else f"{written(low)} to {written(high)}"
    return f"{said.format(written(value))} (measured: {ends})"
