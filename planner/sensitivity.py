"""What one more unit of each resource would give: the same evaluation with one figure raised."""

from __future__ import annotations

from hardware import path_schema
from planner.evaluate import Evaluation, evaluate
from planner.result import Marginal

# (path, the one more unit in the path's own unit or None for a share of it, in words)
UNITS: tuple[tuple[str, float | None, str], ...] = (
    ("gpu.memory_bandwidth_bytes_per_s", 100e9, "100 GB/s more HBM bandwidth on each GPU"),
    ("gpu.memory_capacity_bytes", 1e9 * 8, "8 GB more HBM on each GPU"),
    ("gpu.bf16_flop_per_s", None, "10 % more GPU compute"),
    ("dram.bandwidth_bytes_per_s", None, "10 % more host memory bandwidth"),
    ("cpu.bf16_flop_per_s", None, "10 % more CPU matrix compute"),
    ("cpu.vector_flop_per_s", None, "10 % more CPU vector compute"),
    ("pcie.bandwidth_bytes_per_s", 1e9, "1 GB/s more PCIe bandwidth to each GPU"),
    ("cxl.port_bandwidth_bytes_per_s", 1e9, "1 GB/s more bandwidth on the CXL device's port"),
    ("cxl.internal_bandwidth_bytes_per_s", 10e9, "10 GB/s more bandwidth inside the CXL device"),
    ("cxl.flop_per_s", None, "10 % more CXL-NDP compute"),
    ("ndp.internal_bandwidth_bytes_per_s", 10e9, "10 GB/s more bandwidth inside each NDP DIMM"),
    ("ndp.flop_per_s", None, "10 % more compute on each NDP DIMM"),
    ("scaleup.bandwidth_bytes_per_s", 10e9, "10 GB/s more GPU-to-GPU bandwidth"),
    ("network.bandwidth_bytes_per_s", 1e9, "1 GB/s more network bandwidth for each GPU"),
)
SHARE = 0.1
# All number formats of one GPU rise and fall with its silicon.
SAME_SILICON = ("gpu.bf16_flop_per_s", "gpu.fp8_flop_per_s", "gpu.int8_op_per_s", "gpu.fp4_flop_per_s")


def marginals(found: Evaluation) -> tuple[Marginal, ...]:
    """Change of TPOT, throughput and cost for one more unit of each resource that the plan uses, largest first."""
    scenario = found.ctx.scenario
    base = evaluate(scenario, quick=True).figures()
    system = found.ctx.machine.figures.system
    upper = {spec.path: spec.upper for spec in path_schema()}
    rows = []
    for path, unit, words in UNITS:
        value = system.get(path)
        if not value or path not in found.ctx.machine.figures.used:
            continue
        more = value * (1 + SHARE) if unit is None else value + unit
        changes = {path: more}
        if path == SAME_SILICON[0]:
            for other in SAME_SILICON[1:]:
                rate = system.get(other)
                if rate:
                    changes[other] = rate * (1 + SHARE)
        if any(raised > upper[name] for name, raised in changes.items()):
            continue  # a figure at its upper bound has no one more unit
        changed = evaluate(scenario, changes, quick=True).figures()
        if not changed:
            continue
        cost = "usd_per_million_output_tokens"
        rows.append(
            Marginal(
                resource=path,
                unit=words,
                tpot_change=changed["tpot_s"] / base["tpot_s"] - 1.0,
                tokens_per_s_system_change=changed["tokens_per_s_system"] / base["tokens_per_s_system"] - 1.0,
                usd_change=changed[cost] / base[cost] - 1.0 if base[cost] > 0 else None,
            )
        )
    return tuple(sorted(rows, key=lambda m: m.tpot_change))
