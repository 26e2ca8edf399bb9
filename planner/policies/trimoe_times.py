"""Time of experts on GPU and CPU for TriMoE: by the planner's formulas, or from a table of measured times.

A table never goes below what the machine's figures allow, ``max(FLOP / best achieved rate, bytes / achieved
bandwidth)``: a faster time contradicts a figure, which is where it should be put right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.context import Context, Width
from planner.physics import experts
from planner.physics.experts import Stored, Work
from planner.physics.operation import Array
from planner.policies.base import Option
from planner.policies.trimoe_mixed import warm_width
from planner.time_table import Curve, TimeTable
from planner.time_tables import PHYSICS, chosen

TIME_TABLE = Option(
    "time_table",
    "text",
    PHYSICS,
    "seconds of an expert against its tokens on GPU and CPU: physics, or the digest of an imported table",
)
MOST_TOKENS = 16_384  # of an exported curve


def time_table(ctx: Context) -> TimeTable | None:
    """The table of the scenario; None for the formulas. Raises TimeTableError."""
    return chosen(str(ctx.option(TIME_TABLE.name, PHYSICS)))


def check(ctx: Context) -> None:
    """Refuse a table that is not here or lacks a format of this scenario: TimeTableError, one sentence."""
    table = time_table(ctx)
    if table is not None:
        for device, width in _uses(ctx):
            table.curve(device, width.format)


def _uses(ctx: Context) -> list[tuple[str, Width]]:
    """Devices and forms that experts are computed in: residents and fetched ones on the GPU, the others on the CPU."""
    warm = warm_width(ctx)
    others = [*(width for width, _ in ctx.other_widths()), *([warm] if warm is not None else [])]
    found = [("gpu", ctx.gpu_width), *(("gpu", w) for w in others), *(("cpu", w) for w in others)]
    return list({(device, w.format): (device, w) for device, w in reversed(found)}.values())[::-1]


def on_gpu(ctx: Context, counts: np.ndarray, expert_bytes: Array | float, fmt: str) -> Work:
    """Experts computed on the GPUs of a node, :func:`planner.physics.experts.on_gpu` or the table."""
    gpu, table = ctx.machine.gpu, time_table(ctx)
    assert gpu is not None
    work = experts.on_gpu(ctx, counts, expert_bytes, fmt, gpu.per_node)
    curve = table.curve("gpu", fmt) if table is not None else None
    if curve is None:
        return work
    return _waiting(work, np.maximum(curve(counts), gpu_floor_s(ctx, counts, expert_bytes, fmt)))


def on_cpu(
    ctx: Context, counts: np.ndarray, stored: Stored, widths: Sequence[Width], further_s: Array | float = 0.0
) -> Work:
    """Experts computed by the CPU from striped memory, :func:`planner.physics.experts.on_cpu` or the table.

    further_s: what reading an expert takes beyond that, s, because it lies on one DIMM; the same under a table.
    """
    table = time_table(ctx)
    striped = experts.on_cpu(ctx, counts, stored)
    further = np.where(np.asarray(counts) > 0, further_s, 0.0)
    work = Work(striped.compute_s, striped.bytes_s + further, striped.overlap)
    curves = [table.curve("cpu", w.format) if table is not None else None for w in widths]
    if all(curve is None for curve in curves):
        return work
    from_table = np.zeros(work.seconds.shape)
    for index, curve in enumerate(curves):
        assert curve is not None
        from_table = np.where(stored.format == index, curve(counts), from_table)
    seconds = np.maximum(from_table, cpu_floor_s(ctx, counts, stored.bytes))
    return _waiting(work, seconds + (work.seconds - striped.seconds))


def _waiting(work: Work, seconds: Array) -> Work:
    """``seconds`` booked on whichever of compute and bytes the formulas wait for."""
    compute = work.compute_s >= work.bytes_s
    return Work(np.where(compute, seconds, 0.0), np.where(compute, 0.0, seconds), work.overlap)


def gpu_floor_s(ctx: Context, counts: Any, expert_bytes: Array | float, fmt: str) -> Array:
    """Least seconds of an expert on the GPUs of a node by their achieved rates; 0 without tokens."""
    gpu = ctx.machine.gpu
    assert gpu is not None
    rows = np.asarray(counts, float)
    rate = gpu.flop_per_s(ctx.gpu_rate(fmt)) * gpu.compute_efficiency_max
    flop = 2.0 * ctx.expert_parameters * rows / rate
    return (
        np.where(rows > 0, np.maximum(flop, np.asarray(expert_bytes) / gpu.bandwidth_bytes_per_s), 0.0) / gpu.per_node
    )


def cpu_floor_s(ctx: Context, counts: Any, stored_bytes: Array | float) -> Array:
    """Least seconds of an expert on the CPUs of a node by their achieved rates; 0 without tokens."""
    cpu, dram = ctx.machine.cpu, ctx.machine.dram
    assert cpu is not None and dram is not None
    rows = np.asarray(counts, float)
    best = max(cpu.matrix_flop_per_s or 0.0, cpu.vector_flop_per_s, cpu.block_flop_per_s)
    flop = 2.0 * ctx.expert_parameters * rows / best
    return np.where(rows > 0, np.maximum(flop, np.asarray(stored_bytes) / dram.bandwidth_bytes_per_s), 0.0)


def notes(ctx: Context) -> tuple[str, ...]:
    """What a person should know of the table of this scenario."""
    table = time_table(ctx)
    if table is None:
        return ()
    said = [f"Times of experts on GPU and CPU come from a table: {table.source}."]
    for what, here in (("model", ctx.arch.id), ("system", ctx.scenario.system.id)):
        there = getattr(table, what)
        if there and there != here:
            said.append(f"The time table was made for the {what} {there}, not for {here}.")
    rows = ctx.scenario.workload.batch * ctx.tokens_per_sequence
    for device, width in _uses(ctx):
        curve = table.curve(device, width.format)
        if curve is not None:
            said.extend(_of_curve(ctx, curve, device, width, rows))
    return tuple(dict.fromkeys(said))


def _of_curve(ctx: Context, curve: Curve, device: str, width: Width, rows: int) -> list[str]:
    said = []
    at = np.array(curve.tokens)
    if device == "gpu":
        floor = gpu_floor_s(ctx, at, width.expert_bytes, width.format)
    else:
        floor = cpu_floor_s(ctx, at, width.expert_bytes)
    below = np.flatnonzero(np.array(curve.seconds) < floor * (1 - 1e-9))
    if below.size:
        first = int(below[0])
        said.append(
            f"{curve.name} takes {curve.seconds[first]:.3g} s at {curve.tokens[first]:,} tokens in the time table, "
            f"less than the {floor[first]:.3g} s that its compute rate and bandwidth allow; those are used there (at "
            f"{below.size} of {at.size} rows)."
        )
    if curve.falling:
        said.append(
            f"{curve.name} gets faster with more tokens in the time table (first at {curve.falling[0]:,}); the longest "
            "time so far is used there."
        )
    if curve.tokens[-1] < rows:
        said.append(
            f"{curve.name} has no times beyond {curve.tokens[-1]:,} tokens in the time table; they grow in proportion."
        )
    return said


def default_table(ctx: Context, rows: int) -> TimeTable:
    """The planner's own times of a scenario as a table, from 1 to ``rows`` tokens of one expert.

    Whole tiles make stairs: both ends of each are kept, and points on a straight line between two others left out.
    """
    at = np.arange(1, min(max(rows, 2), MOST_TOKENS) + 1, dtype=np.int32)
    gpu = ctx.machine.gpu
    assert gpu is not None
    curves = []
    for device, width in _uses(ctx):
        if device == "gpu":
            work = experts.on_gpu(ctx, at, width.expert_bytes, width.format, gpu.per_node)
        else:
            stored = Stored(np.array(width.expert_bytes), np.array(width.bits), np.zeros((), np.int8), width.cpu_matrix)
            work = experts.on_cpu(ctx, at, stored)
        kept = _corners(work.seconds)
        curves.append(Curve(device, width.format, tuple(at[kept].tolist()), tuple(work.seconds[kept].tolist())))
    return TimeTable(tuple(curves), "the planner's own formulas", ctx.arch.id, ctx.scenario.system.id)


def _corners(values: Array) -> np.ndarray:
    """Indexes of the first, the last, and all values that are not on the line between their neighbours."""
    bend = np.abs(values[2:] - 2.0 * values[1:-1] + values[:-2]) > 1e-9 * values[1:-1]
    return np.flatnonzero(np.concatenate([[True], bend, [True]]))
