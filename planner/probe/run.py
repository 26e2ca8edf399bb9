"""One run of the probe: facts, timings of CPU and GPU, then figures and findings."""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner import ENGINE_VERSION
from planner.measured_machine import MeasuredMachine
from planner.probe import cpu, host
from planner.probe.diagnosis import diagnose
from planner.probe.figures import catalog_device, figures_of
from planner.probe.gpu import Gpu
from planner.probe.recording import GpuFacts, Recording, Series

Say = Callable[[str], None]
CPU_BUDGET_S, BUDGET_S = 60.0, 90.0
"""the CPU's repeats are cut down after the first, no part begins after the second: the whole stays below 2 minutes"""


GPU_TOKENS = (tuple(2**i for i in range(13)), (1, 4, 16, 64, 128, 256, 512, 1024, 2048))


@dataclass
class _Run:
    say: Say
    start: float = field(default_factory=time.perf_counter)
    series: list[Series] = field(default_factory=list)
    gaps: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def part(self, name: str, task: Callable[[], list[Series]]) -> None:
        """Add what ``task`` measures; a part that fails is a gap, not the end."""
        if self.seconds > BUDGET_S:
            self.gaps[name] = "two minutes were over"
            return
        self.say(f"{name} ...")
        try:
            self.series += task()
        except (OSError, RuntimeError, MemoryError, ValueError, threading.BrokenBarrierError) as error:
            self.gaps[name] = " ".join(str(error).split())[:300] or type(error).__name__


def load_torch() -> Any | None:
    """torch where it is installed and loads, else None."""
    try:
        return importlib.import_module("torch")
    except (ImportError, OSError, RuntimeError):
        return None


def record(quick: bool = False, say: Say = lambda _: None, torch: Any | None = None) -> Recording:
    """Measure this machine. ``torch`` is used where given (see :func:`load_torch`); nothing needs root."""
    effort = cpu.Effort.of(quick, CPU_BUDGET_S)
    before = host.facts()
    run = _Run(say)
    run.part("streaming reads", lambda: cpu.reads(effort))
    clocks: list[float] = []
    run.part("products on the CPU", lambda: _watched(lambda: cpu.numpy_products(effort), clocks))
    run.part("low-bit weights", lambda: cpu.packed_products(effort))
    gpu: GpuFacts | None = None
    if torch is None:
        run.gaps["GPU"] = "torch is not installed or does not load"
        run.gaps["CPU products in bf16 and int8"] = run.gaps["GPU"]
    else:
        if not quick:
            run.part("bf16 and int8 on the CPU", lambda: _with_gaps(run, lambda: cpu.torch_products(torch, effort)))
        gpu = _gpu(run, torch, quick)
    software = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.platform()[:400],
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "all"))[:400],
    }
    if torch is not None:
        software["torch"] = str(torch.__version__)[:400]
    return Recording(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        quick=quick,
        seconds=run.seconds,
        software=software,
        host=before.model_copy(update={"loaded_hz": max(clocks, default=None)}),
        gpu=gpu,
        series=tuple(run.series),
        gaps=run.gaps,
    )


def _gpu(run: _Run, torch: Any, quick: bool) -> GpuFacts | None:
    try:
        there = bool(torch.cuda.is_available()) and torch.cuda.device_count() > 0
        gpu = Gpu(torch, 5 if quick else 9, GPU_TOKENS[1 if quick else 0]) if there else None
        facts = gpu.facts() if gpu else None
    except (RuntimeError, AttributeError, AssertionError) as error:
        run.gaps["GPU"] = " ".join(str(error).split())[:300] or type(error).__name__
        return None
    if gpu is None:
        run.gaps["GPU"] = "torch sees no GPU"
        return None
    run.part("GPU", lambda: _with_gaps(run, gpu.series))
    return facts


def _with_gaps(run: _Run, task: Callable[[], tuple[list[Series], dict[str, str]]]) -> list[Series]:
    series, gaps = task()
    run.gaps.update(gaps)
    return series


def _watched(task: Callable[[], list[Series]], clocks: list[float]) -> list[Series]:
    """Run ``task`` and read the clock of the CPUs a few times while it runs."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            clock = host.clock_hz(host.allowed_cpus()[:64])
            if clock:
                clocks.append(clock)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return task()
    finally:
        done.set()
        watcher.join()


def measured_machine(recording: Recording) -> MeasuredMachine:
    """Figures, parts and findings of a recording, fresh or replayed."""
    found = figures_of(recording)
    parts = {}
    for kind, name in (("cpu", recording.host.cpu_name), ("gpu", recording.gpu.name if recording.gpu else "")):
        device = catalog_device(kind, name) if name else None
        if device is not None:
            parts[kind] = device.id
    names = [recording.host.cpu_name, *([recording.gpu.name] if recording.gpu else [])]
    name = "".join(c if c.isprintable() else "?" for c in " with ".join(names))[:200]
    return MeasuredMachine(
        name=name,
        engine_version=ENGINE_VERSION,
        date=recording.date,
        parts=parts,
        figures=found.figures,
        not_measured=found.missing,
        findings=diagnose(recording),
        recording=recording,
    )
