"""Engine family of a run: the engine, and apart from it generations whose serving loop was another one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from validation.measured.coefficients import GPU, LINK
from validation.measured.runs import Run

FIRST_OF_TODAY: dict[str, tuple[int, int, int]] = {"vllm": (0, 8, 0), "sglang": (0, 4, 6), "tensorrt-llm": (0, 18, 0)}
"""First version of today's generation: vLLM's V1 engine, SGLang's overlap scheduler with MLA kernels, TensorRT-LLM's
PyTorch flow. Older ones (early 2025) ran DeepSeek several times slower and are families of their own."""
EARLY, PAGEABLE = "early", "pageable"
"""Families that stand in for engines of one kind: of the earlier generation, and copying from pageable memory."""
COPIERS = ("ik_llama.cpp", "ktransformers", "llama.cpp", "sglang+kt-kernel")
"""Engines that copy experts to the GPU from pageable or memory-mapped host memory."""
THREADED = ("ik_llama.cpp", "llama.cpp")
"""Engines whose CPU threads all meet at a barrier after each operation of the graph (ggml)."""
PROTOTYPES = ("deepspeed", "flexgen", "mixtral-offloading", "moe-infinity", "moe-lightning", "wisp")
"""Research systems written in PyTorch: kernels are launched one by one, no graph is captured."""
PAGEABLE_COPY_BYTES_PER_S = 1.55e10
"""Copies from memory-mapped weights, before any run is seen: 14.4 GiB/s to an RTX 4080 (ik_llama.cpp discussions)."""


@dataclass(frozen=True)
class Stated:
    """A figure of engines of a kind that is not fitted here: it follows from how they are built, or from other runs."""

    path: str
    value: float
    low: float
    high: float
    engines: tuple[str, ...]
    regimes: tuple[str, ...]


STATED: tuple[Stated, ...] = (
    # Read by the CPU, line fill and write of the staging buffer, read by the link; stores that bypass caches save one.
    Stated("pcie.host_crossings", 4.0, 3.0, 4.0, (*COPIERS, PAGEABLE), LINK),
    # About 50 operations per layer, each with a barrier: a counter that all threads increment, 0.1 us (a cache line
    # that goes from core to core) for each.
    Stated("cpu.thread_sync_s", 5e-6, 2e-6, 1e-5, THREADED, ("cpu_only",)),
)
SERVED_FIGURES = Path(__file__).parents[1] / "silicon" / "snapshot.json"
SERVED_PATHS = ("gpu.request_overhead_s", "gpu.kernel_launch_eager_s")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def family(run: Run) -> str:
    """The engine family of a run; ``early`` is added for the generation before today's."""
    engine = run.system_family.casefold().strip()
    first = FIRST_OF_TODAY.get(engine)
    if first is None:
        return engine
    found = _VERSION.search(run.system_version)
    old = found and tuple(int(part or 0) for part in found.groups()) < first
    return f"{engine}-{EARLY}" if old or EARLY in run.system_version.casefold() else engine


def stated(name: str, regime: str) -> Mapping[str, float]:
    """Figures that hold for an engine family in a regime by construction."""
    return {s.path: s.value for s in (*STATED, *served()) if name in s.engines and regime in s.regimes}


@lru_cache(maxsize=1)
def served() -> tuple[Stated, ...]:
    """Time per request and per kernel of a prefill pass, as :mod:`validation.silicon` fits them on first-token times.

    Rates alone tell nothing about the first, little about the second. The ranges are those with one architecture left
    out; the runs of that table are none of the points here.
    """
    sets = json.loads(SERVED_FIGURES.read_text(encoding="utf-8"))["figures"]
    found = []
    for engine in sorted({s["engine"] for s in sets if s["engine"]}):
        for path in SERVED_PATHS:
            value = next(s["figures"][path] for s in sets if s["engine"] == engine and not s["held_out"])
            all_values = [s["figures"][path] for s in sets if s["engine"] == engine]
            found.append(Stated(path, value, min(all_values), max(all_values), (engine,), GPU))
    return tuple(found)
