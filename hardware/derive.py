"""Figures that follow from others: each with its formula, so that changing an input changes them.

A derived figure's range is the least and the greatest value over the ends of its inputs' ranges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hardware.catalog import device
from hardware.figure import Figure

BYTES_PER_TRANSFER = 8  # a DDR channel is 64 data bits wide
MODULE_BASE_W, MODULE_W_PER_GB, MODULE_IDLE_SHARE = 3.0, 0.055, 0.7
MODULE_SOURCE = "boaviztapi 2.5.0: 3 W + 0.055 W/GB at full load, idle 0.7 of it"


@dataclass(frozen=True)
class Rule:
    """``path`` = ``function(*inputs)``. Inputs in ``optional`` may be missing (they arrive as None)."""

    path: str
    inputs: tuple[str, ...]
    function: Callable[..., float | None]
    formula: str
    optional: tuple[str, ...] = ()


def _product(*factors: float) -> float:
    result = 1.0
    for factor in factors:
        result *= factor
    return result


def _busy_overhead(tdp: float, share: float, idle: float, efficiency: float, bandwidth: float, energy: float) -> float:
    return max(0.0, share * tdp - idle - efficiency * bandwidth * energy)


def _gpu_energy(
    tdp: float, share: float, idle: float, overhead: float, best: float, bf16: float | None, fp16: float | None
) -> float | None:
    rate = bf16 or fp16  # cards before BF16 compute 16-bit products as FP16
    return max(1e-14, (share * tdp - idle - overhead) / (best * rate)) if rate else None


def _cpu_energy(
    tdp: float, busy: float, vector_share: float, vector: float, matrix_share: float | None, matrix: float | None
) -> float:
    achieved = vector_share * vector
    if matrix is not None and matrix_share is not None:
        achieved = max(achieved, matrix_share * matrix)
    return max(1e-14, (tdp - busy) / achieved)


def _transfer_rate(module: float, dimms: float, one: float | None, two: float | None) -> float:
    allowed = one if dimms <= 1 or two is None else two
    return module if allowed is None else min(module, allowed)


def lane_rate_bytes_per_s(generation: float) -> float:
    """Rate of one PCI Express lane, per direction, bytes/s, net of line coding (the catalog's link rows).

    Raises HardwareError for a generation that the catalog does not list.
    """
    link = device(f"pcie-{generation:.0f}-x16").figures["link.bandwidth_bytes_per_s"]
    assert link.value is not None
    return link.value / 16


def _module_busy(capacity: float) -> float:
    return MODULE_BASE_W + MODULE_W_PER_GB * capacity / 2**30


RULES: tuple[Rule, ...] = (
    Rule("gpu.power_limit_w", ("gpu.tdp_w",), lambda tdp: tdp, "gpu.tdp_w"),
    Rule(
        "gpu.busy_overhead_w",
        (
            "gpu.tdp_w",
            "gpu.memory_bound_power_share",
            "gpu.idle_w",
            "gpu.bandwidth_efficiency",
            "gpu.memory_bandwidth_bytes_per_s",
            "gpu.hbm_energy_j_per_byte",
        ),
        _busy_overhead,
        "memory-bound share x TDP - idle - bandwidth efficiency x bandwidth x energy per byte, not below 0",
    ),
    Rule(
        "gpu.energy_j_per_flop",
        (
            "gpu.tdp_w",
            "gpu.compute_bound_power_share",
            "gpu.idle_w",
            "gpu.busy_overhead_w",
            "gpu.compute_efficiency_max",
            "gpu.bf16_flop_per_s",
            "gpu.fp16_flop_per_s",
        ),
        _gpu_energy,
        "(compute-bound share x TDP - idle - busy overhead) / (best efficiency x BF16 rate, or FP16 rate without one)",
        optional=("gpu.bf16_flop_per_s", "gpu.fp16_flop_per_s"),
    ),
    Rule(
        "cpu.bf16_flop_per_s",
        ("cpu.cores_per_socket", "cpu.base_clock_hz", "cpu.bf16_flop_per_cycle"),
        _product,
        "cores x clock x FLOP per cycle",
    ),
    Rule(
        "cpu.int8_op_per_s",
        ("cpu.cores_per_socket", "cpu.base_clock_hz", "cpu.int8_op_per_cycle"),
        _product,
        "cores x clock x OP per cycle",
    ),
    Rule(
        "cpu.vector_flop_per_s",
        ("cpu.cores_per_socket", "cpu.base_clock_hz", "cpu.vector_flop_per_cycle"),
        _product,
        "cores x clock x FLOP per cycle",
    ),
    Rule(
        "cpu.numa_efficiency",
        ("cpu.sockets", "cpu.numa_pair_efficiency"),
        lambda sockets, pair: 1.0 if sockets <= 1 else pair,
        "1 with one socket, else the share that several sockets reach",
    ),
    Rule("cpu.busy_w", ("cpu.tdp_w", "cpu.busy_power_share"), _product, "TDP x busy share"),
    Rule(
        "cpu.energy_j_per_flop",
        (
            "cpu.tdp_w",
            "cpu.busy_w",
            "cpu.vector_efficiency",
            "cpu.vector_flop_per_s",
            "cpu.matrix_efficiency",
            "cpu.bf16_flop_per_s",
        ),
        _cpu_energy,
        "(TDP - busy) / the higher of achieved matrix and achieved vector rate",
        optional=("cpu.matrix_efficiency", "cpu.bf16_flop_per_s"),
    ),
    Rule(
        "dram.mt_per_s",
        ("dram.module_mt_per_s", "dram.dimms_per_channel", "cpu.memory_mt_per_s_1dpc", "cpu.memory_mt_per_s_2dpc"),
        _transfer_rate,
        "the lower of module grade and the CPU's rate at this number of DIMMs per channel",
        optional=("cpu.memory_mt_per_s_1dpc", "cpu.memory_mt_per_s_2dpc"),
    ),
    Rule(
        "dram.dimms",
        ("cpu.sockets", "dram.channels_per_socket", "dram.dimms_per_channel"),
        _product,
        "sockets x channels x DIMMs per channel",
    ),
    Rule("dram.capacity_bytes", ("dram.dimms", "dram.capacity_bytes_per_dimm"), _product, "DIMMs x capacity"),
    Rule(
        "dram.bandwidth_bytes_per_s",
        ("cpu.sockets", "dram.channels_per_socket", "dram.mt_per_s"),
        lambda sockets, channels, rate: sockets * channels * rate * 1e6 * BYTES_PER_TRANSFER,
        "sockets x channels x MT/s x 8 B",
    ),
    Rule("dram.dimm_busy_w", ("dram.capacity_bytes_per_dimm",), _module_busy, MODULE_SOURCE),
    Rule("dram.dimm_idle_w", ("dram.dimm_busy_w",), lambda busy: MODULE_IDLE_SHARE * busy, MODULE_SOURCE),
    Rule(
        "ndp.rank_bandwidth_bytes_per_s",
        ("dram.mt_per_s",),
        lambda rate: rate * 1e6 * BYTES_PER_TRANSFER,
        "MT/s x 8 B",
    ),
    Rule(
        "ndp.internal_bandwidth_bytes_per_s",
        ("dram.ranks_per_dimm", "ndp.rank_bandwidth_bytes_per_s"),
        _product,
        "ranks x rank rate",
    ),
    Rule("pcie.generation", ("gpu.pcie_generation", "cpu.pcie_generation"), min, "the lower of GPU's and CPU's"),
    Rule(
        "pcie.bandwidth_bytes_per_s",
        ("pcie.lanes", "pcie.generation"),
        lambda lanes, generation: lanes * lane_rate_bytes_per_s(generation),
        "lanes x rate of the generation, per direction and net of line coding",
    ),
    Rule(
        "pcie.host_bandwidth_bytes_per_s",
        ("pcie.host_uplinks", "pcie.bandwidth_bytes_per_s"),
        _product,
        "uplinks x host link",
    ),
    Rule(
        "network.bandwidth_bytes_per_s",
        ("nic.bandwidth_bytes_per_s", "nic.count", "gpu.count_per_node"),
        lambda rate, nics, gpus: rate * nics / gpus if nics and gpus else None,
        "NIC rate x NICs / GPUs of a node",
    ),
)

_RULE_OF = {rule.path: rule for rule in RULES}


def inputs_of(path: str, figures: Mapping[str, Figure] | None = None) -> tuple[str, ...]:
    """The figures that ``path`` follows from, down to those that nothing derives; ``(path,)`` for such a one.

    A study of ranges varies these, so that nothing is counted twice. With the ``figures`` of a system, one that this
    system states itself follows from nothing.
    """
    rule = _RULE_OF.get(path)
    if rule is None or (figures is not None and figures[path].kind != "derived"):
        return (path,)
    return tuple(dict.fromkeys(leaf for given in rule.inputs for leaf in inputs_of(given, figures)))


# Which part must be fitted for a rule to apply: no derived figure of a part that is not there.
PART_OF = {
    "gpu": "gpu.count_per_node",
    "cpu": "cpu.sockets",
    "dram": "cpu.sockets",
    "ndp": "ndp.count",
    "dimm_link": "ndp.count",
    "cxl": "cxl.count",
    "pcie": "gpu.count_per_node",
    "scaleup": "gpu.count_per_node",
    "network": "nic.count",
    "nic": "nic.count",
}


def is_fitted(path: str, figures: Mapping[str, Figure]) -> bool:
    """Whether the part that ``path`` belongs to is in the system (counts themselves always are)."""
    counter = PART_OF.get(path.split(".", 1)[0])
    if counter is None or counter == path:
        return True
    figure = figures.get(counter)
    return figure is None or bool(figure.value)


def apply(rule: Rule, figures: Mapping[str, Figure], unit: str) -> Figure | None:
    """The figure of ``rule``, or None where an input is missing."""
    inputs = [figures[path] for path in rule.inputs]
    for path, figure in zip(rule.inputs, inputs, strict=True):
        if figure.value is None and path not in rule.optional:
            return None
    value = rule.function(*(figure.value for figure in inputs))
    if value is None:
        return None
    low = high = None
    if any(figure.low is not None or figure.high is not None for figure in inputs):
        # Every rule is monotone in each input, so the extremes lie at the corners.
        ends = [
            (
                figure.value if figure.low is None else figure.low,
                figure.value if figure.high is None else figure.high,
            )
            for figure in inputs
        ]
        values = [rule.function(*corner) for corner in itertools.product(*(dict.fromkeys(end) for end in ends))]
        corners = [corner for corner in values if corner is not None]
        low, high = min(corners), max(corners)
    return Figure(value, unit, low, high, f"{rule.path} = {rule.formula}", None, "derived")
