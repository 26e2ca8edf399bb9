"""Rehearses one MoE layer: the scenario's routing and placement, this machine's figures, seconds beside seconds."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware import Figure, load_system
from planner import measured_machines
from planner.context import Context
from planner.errors import PlanError
from planner.evaluate import Evaluation, evaluate
from planner.machine import machine
from planner.measured_machine import MeasuredMachine
from planner.physics import experts as physics
from planner.physics.experts import Stored
from planner.probe import host
from planner.probe.figures import figures_of
from planner.probe.gpu import KERNELS_PER_LAYER
from planner.probe.run import measured_machine, record
from planner.rehearsal.layer import CpuExperts, GpuExperts, copied, pool_size, shapes
from planner.result import TIERS
from planner.scenario import Scenario

FRAME = "desktop-rtx4090"  # what the measured figures are put on; nothing of it that matters here stays unmeasured
LEAST_CACHE_BYTES = 32 * 2**20
REPEATS, MOST_REPEATS = 3, 30
GPU_TIERS, LINK_TIERS = {"gpu"}, {"streamed"}
Say = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One domain: experts that the plan puts in one tier, on the device that stands for it here."""

    domain: str
    device: str
    experts: int  # of the layer, in this domain
    runs: int  # expert computations that were timed (or copies)
    tokens: int  # token-expert pairs in them
    predicted_s: float
    rehearsed_s: float  # each at its fastest repeat
    usual_s: float  # each at its median repeat
    note: str

    @property
    def error(self) -> float:
        """predicted / rehearsed - 1."""
        return self.predicted_s / self.rehearsed_s - 1.0


@dataclass(frozen=True)
class Rehearsal:
    layer: int
    model: str
    policy: str
    machine: str
    measured: str  # where the figures of this machine come from
    steps: int
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]


def rehearse(
    scenario: Scenario, seconds: float, torch: Any | None = None, kept: str | None = None, say: Say = lambda _: None
) -> Rehearsal:
    """Run the middle MoE layer for about ``seconds``. Raises PlanError and its kin, one sentence."""
    found = evaluate(scenario, quick=True)
    if found.placed is None or found.routing is None:
        raise PlanError(f"There is no placement to rehearse: {' '.join(found.reasons)}")
    here, source = _this_machine(kept, torch, say)
    measured_gpu = here.recording is not None and here.recording.gpu is not None
    has_gpu = torch is not None and measured_gpu and bool(torch.cuda.is_available())
    at = found.ctx.moe_layers // 2
    counts: NDArray[np.int32] = found.routing.counts[:, at, :]
    tiers = np.array(TIERS)[found.placed.tier[at]]
    tiers[found.placed.resident[at]] = "gpu"
    ctx = _on_this_machine(found.ctx, here, _figures(here, counts[counts > 0].tolist()))
    domains = [(tier, tiers == tier) for tier in TIERS if (counts[:, tiers == tier] > 0).any()]
    say("running the layer ...")
    rows: list[Row] = []
    for tier, mask in domains:
        share = seconds / len(domains)
        chosen = np.where(mask, counts, 0)
        if has_gpu and tier in LINK_TIERS:
            rows.append(_copies(ctx, torch, tier, chosen, int(mask.sum())))
        elif has_gpu and tier in GPU_TIERS:
            rows.append(_on_gpu(ctx, torch, tier, chosen, int(mask.sum()), share, at))
        else:
            rows.append(_on_cpu(ctx, tier, chosen, int(mask.sum()), share, at))
    return Rehearsal(
        layer=int(found.ctx.moe[at]),
        model=found.ctx.arch.name,
        policy=found.policy.name,
        machine=here.name,
        measured=source,
        steps=counts.shape[0],
        rows=tuple(rows),
        warnings=_warnings(found, here, has_gpu),
    )


def _this_machine(kept: str | None, torch: Any | None, say: Say) -> tuple[MeasuredMachine, str]:
    """The kept machine of that digest if it is this one, else a quick probe."""
    if kept is None:
        say("measuring this machine ...")
        return measured_machine(record(True, torch=torch)), "a quick probe just before"
    found = measured_machines.get(kept)
    name = host.facts().cpu_name
    if found.recording is None or found.recording.host.cpu_name != name:
        raise PlanError(
            f"The kept machine {kept[:12]}... is {found.name}; this machine is {name}, measure it with probe."
        )
    return found, f"the kept machine {kept[:12]}, measured {found.date}"


def _figures(here: MeasuredMachine, tokens: list[float]) -> dict[str, Figure]:
    """Its figures, those of the CPU from products in float32 at the tokens per expert that are run."""
    figures = here.applied({})[1]
    if here.recording is not None:
        again = here.model_copy(update={"figures": figures_of(here.recording, "fp32", tokens).figures})
        figures = again.applied({})[1]
    if "cpu.vector_flop_per_s" not in figures or "dram.bandwidth_bytes_per_s" not in figures:
        raise PlanError("This machine's memory and products could not be measured, so nothing can be predicted for it.")
    return figures


def _on_this_machine(ctx: Context, here: MeasuredMachine, figures: dict[str, Figure]) -> Context:
    gpu = {"gpu": here.parts["gpu"]} if "gpu" in here.parts else {}
    return dataclasses.replace(ctx, machine=machine(load_system(FRAME, {}, gpu, measured=figures)))


def _on_cpu(ctx: Context, tier: str, counts: NDArray[np.int32], experts: int, seconds: float, at: int) -> Row:
    matrices = shapes(ctx.arch, int(ctx.moe[at]))
    size = 4.0 * sum(rows * cols for rows, cols in matrices)
    most = int(counts.max())
    beside = 4.0 * most * (2 * matrices[0][1] + 4 * matrices[0][0])
    cache = max(host.facts().l3_bytes or 0.0, LEAST_CACHE_BYTES)
    layer = CpuExperts(matrices, pool_size(size, cache, beside, host.memory_bytes()[1], "host memory"), most, at)
    items = [(step, expert) for step, expert in zip(*np.nonzero(counts), strict=True)]
    timed: list[list[float]] = [[] for _ in items]
    layer.run(most)
    end = time.perf_counter() + seconds
    for _ in range(MOST_REPEATS):
        for place, (step, expert) in enumerate(items):
            if time.perf_counter() > end and timed[0]:
                break
            timed[place].append(layer.run(int(counts[step, expert])))
    done = [bool(times) for times in timed]
    tokens = np.array([counts[item] for item in items])[done]
    stored = Stored(np.full(1, size), np.full(1, 32.0), np.zeros(1, np.int8), False)
    predicted = physics.on_cpu(ctx, tokens[None, None, :], stored).seconds
    note = "computed here by the CPU" if tier == "host" else f"planned in tier {tier}, computed here by the CPU"
    best = sum(min(times) for times in timed if times)
    usual = sum(float(np.median(times)) for times in timed if times)
    return Row(tier, "cpu", experts, len(tokens), int(tokens.sum()), float(predicted.sum()), best, usual, note)


def _on_gpu(
    ctx: Context, torch: Any, tier: str, counts: NDArray[np.int32], experts: int, seconds: float, at: int
) -> Row:
    matrices = shapes(ctx.arch, int(ctx.moe[at]))
    size = 2.0 * sum(rows * cols for rows, cols in matrices)
    most = int(counts.max())
    free = float(torch.cuda.mem_get_info()[0])
    beside = 2.0 * most * (2 * matrices[0][1] + 4 * matrices[0][0])
    layer = GpuExperts(torch, matrices, pool_size(size, 256 * 2**20, beside, free, "GPU memory"), most)
    end = time.perf_counter() + seconds
    gpu = ctx.machine.gpu
    assert gpu is not None
    predicted, best, usual, runs, pairs = 0.0, 0.0, 0.0, 0, 0
    for step in counts:
        tokens = step[step > 0]
        if not tokens.size:
            continue
        times = layer.run(tokens.tolist(), REPEATS)
        best, usual = best + min(times), usual + float(np.median(times))
        work = physics.on_gpu(ctx, tokens[None, None, :], size, "bf16").seconds
        # The planner books launches by layer; here every expert launches its own kernels inside the graph.
        launches = tokens.size * layer.kernels * gpu.layer_launch_s / KERNELS_PER_LAYER
        predicted += float(work.sum()) + launches
        runs, pairs = runs + tokens.size, pairs + int(tokens.sum())
        if time.perf_counter() > end:
            break
    return Row(tier, "gpu", experts, runs, pairs, predicted, best, usual, "computed here by the GPU, launches added")


def _copies(ctx: Context, torch: Any, tier: str, counts: NDArray[np.int32], experts: int) -> Row:
    size = int(2 * ctx.expert_parameters)
    hit = int((counts[0] > 0).sum()) or 1
    times = copied(torch, size, hit, REPEATS)
    link = ctx.machine.pcie
    assert link is not None
    predicted = link.latency_s + hit * size / link.bytes_per_s
    return Row(
        tier,
        "link",
        experts,
        hit,
        int(counts[0].sum()),
        predicted,
        min(times),
        float(np.median(times)),
        "copied here from pinned memory to the GPU",
    )


def _warnings(found: Evaluation, here: MeasuredMachine, has_gpu: bool) -> tuple[str, ...]:
    said: list[str] = []
    if found.reasons:
        said.append("The plan does not fit its own system: " + " ".join(found.reasons))
    if not has_gpu:
        said.append("No GPU was measured here through torch: experts of every domain run on the CPU, in float32.")
    said += [f.sentence for f in _costly(here)]
    return tuple(said)


def _costly(here: MeasuredMachine) -> Sequence[Any]:
    return [f for f in here.findings if f.id == "load" and f.state == "costs"]
