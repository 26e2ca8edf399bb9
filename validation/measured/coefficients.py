"""Which figures are fitted on measured runs, from where, and how far they may move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Fittable:
    """A figure that runs can tell something about: where the fit starts, and how loosely it is held there.

    ``spread`` is the standard deviation of ln(value) before any run is seen; ``start`` None = the catalog's default.
    ``regimes`` are those whose runs are sensitive to it. The generic value is fitted on runs of ``home``, the other
    regimes only tell families apart; without a home there is no generic value (a copy limit is an engine's own).
    """

    path: str
    spread: float
    regimes: tuple[str, ...]
    start: float | None = None
    low: float = 0.0
    high: float = 1.0
    home: tuple[str, ...] | None = None


GPU, CPU, LINK = ("all_gpu", "unified_memory"), ("cpu_experts", "cpu_only"), ("pcie_stream", "gpu_expert_cache")
ALL = (*GPU, *CPU, *LINK)

FITTABLE: Final[tuple[Fittable, ...]] = (
    Fittable("gpu.layer_launch_s", 0.5, GPU, low=3e-6, high=3e-3, home=GPU),
    Fittable("gpu.layer_launch_tp_s", 0.5, GPU, low=1e-6, high=2e-3, home=GPU),
    Fittable("gpu.layer_launch_eager_s", 0.4, (*GPU, *LINK), low=5e-5, high=1e-2, home=GPU),
    Fittable("gpu.layer_uncaptured_s", 0.4, GPU, low=5e-5, high=1e-2, home=GPU),
    Fittable("gpu.kernel_launch_s", 0.5, GPU, start=2.7e-6, low=1e-8, high=1e-4, home=GPU),
    Fittable("gpu.request_serial_s", 1.0, GPU, start=1e-3, low=1e-6, high=1e-1, home=GPU),
    Fittable("gpu.step_overhead_s", 0.7, (*GPU, *LINK), start=1e-3, low=1e-5, high=5e-1, home=GPU),
    Fittable("gpu.sequence_overhead_s", 0.7, GPU, start=1e-5, low=1e-7, high=1e-3, home=GPU),
    Fittable("gpu.serving_efficiency", 0.2, (*GPU, *LINK), start=0.8, low=0.1, high=1.0, home=GPU),
    Fittable("gpu.bandwidth_efficiency", 0.12, GPU, low=0.3, high=0.95, home=GPU),
    Fittable("gpu.kv_bandwidth_efficiency", 0.25, GPU, low=0.05, high=0.95, home=GPU),
    Fittable("gpu.compute_efficiency_max", 0.3, (*GPU, *LINK), low=0.03, high=0.9, home=GPU),
    Fittable("scaleup.efficiency", 0.25, GPU, low=0.1, high=0.95, home=GPU),
    Fittable("dram.read_efficiency", 0.12, CPU, low=0.2, high=0.95, home=CPU),
    Fittable("cpu.layer_sync_s", 0.5, CPU, low=5e-6, high=3e-3, home=CPU),
    Fittable("cpu.low_bit_extra_bits", 0.3, CPU, low=0.05, high=4.0, home=CPU),
    Fittable("cpu.block_flop_per_cycle", 0.4, CPU, low=2.0, high=128.0, home=CPU),
    Fittable("cpu.vector_efficiency", 0.4, (*CPU, *LINK), low=0.03, high=1.0, home=CPU),
    Fittable("cpu.matrix_efficiency", 0.3, CPU, low=0.03, high=0.6, home=CPU),
    Fittable("cpu.numa_pair_efficiency", 0.2, CPU, low=0.2, high=1.0, home=CPU),
    Fittable("cpu.numa_compute_efficiency", 0.15, CPU, low=0.3, high=1.0, home=CPU),
    Fittable("cpu.kv_bandwidth_efficiency", 0.7, (*CPU, *LINK), low=0.005, high=0.87, home=CPU),
    Fittable("pcie.copy_limit_bytes_per_s", 0.5, LINK, start=4e10, low=1e9, high=2e11),
    Fittable("pcie.host_copy_limit_bytes_per_s", 0.5, LINK, start=8e10, low=1e9, high=1e12),
)


def of_regimes(regimes: set[str]) -> tuple[Fittable, ...]:
    """Figures that runs of these regimes can tell something about."""
    return tuple(f for f in FITTABLE if regimes & set(f.regimes))


def starts(defaults: Mapping[str, float | None]) -> dict[str, float]:
    """Values that a fit starts from."""
    found = {}
    for f in FITTABLE:
        value = f.start if f.start is not None else defaults.get(f.path)
        if value:
            found[f.path] = value
    return found
