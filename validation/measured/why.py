"""Why a cell misses its bar: what its worst rows have in common, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping

WHY: Mapping[tuple[str, str], str] = {
    ("cpu_experts", "decode"): (
        "the worst rows are 37 requests at once on experts of which half or more lie in HBM (kt-kernel on 8 GPUs, up "
        "to twice too fast) and 2-bit trellis formats (IQ2_KT), whose decoding costs the CPU more than the same bits "
        "elsewhere; both kinds were measured on one or two machines."
    ),
    ("cpu_experts", "prefill"): (
        "FP8 experts on AVX-512 (kt-kernel, three times too fast) have no other machine to learn from, and one engine "
        "doubled its rate between two months on one machine with nothing but the version changed (ik_llama.cpp, June "
        "and July 2025, EPYC 9355); repacking at load, worth 1.6, is not among the columns."
    ),
    ("cpu_only", "decode"): (
        "the two worst rows are llama.cpp with 128 threads on one Xeon 6980P, half as fast as bytes and barriers "
        "explain; no other machine measured has more than 64 cores, and people report fewer threads to be faster there."
    ),
    ("pcie_stream", "prefill"): (
        "sixteen of the rows are one machine (kt-kernel), whose copies reach less per GPU than those of other engines."
    ),
    ("gpu_expert_cache", "decode"): (
        "prototypes that manage their cache in Python spend milliseconds per layer that only their own runs could tell."
    ),
    ("all_gpu", "decode"): (
        "MI350X GPUs are predicted half again too fast, because launches on ROCm take longer than on CUDA and only two "
        "experiments ran on AMD; DeepSeek's own engine on 128 GPUs is predicted too slow, because it hides exchanges "
        "and launches that other engines show; the rest is within 30 %."
    ),
    ("all_gpu", "e2e"): (
        "runs of a few output tokens per request and early generations of engines differ most: what they do between "
        "passes is not among the columns."
    ),
}
"""By regime and phase; a cell that reaches its bar needs none."""
