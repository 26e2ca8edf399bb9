"""Engine family of a run: the engine, and apart from it generations whose serving loop was another one."""

from __future__ import annotations

import re

from validation.measured.runs import Run

FIRST_OF_TODAY: dict[str, tuple[int, int, int]] = {"vllm": (0, 8, 0), "sglang": (0, 4, 6), "tensorrt-llm": (0, 18, 0)}
"""First version of today's generation: vLLM's V1 engine, SGLang's overlap scheduler with MLA kernels, TensorRT-LLM's
PyTorch flow. Older ones (early 2025) ran DeepSeek several times slower and are families of their own."""
EARLY, PAGEABLE = "early", "pageable"
"""Families that stand in for engines of one kind: of the earlier generation, and copying from pageable memory."""
COPIERS = ("ik_llama.cpp", "ktransformers", "llama.cpp", "sglang+kt-kernel")
"""Engines that copy experts to the GPU from pageable or memory-mapped host memory."""
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
