"""How the runs of the table were served and loaded, where the table does not say: the public recipes of InferenceX.

Most Hopper rows were run by InferenceX (github SemiAnalysisAI/InferenceX, Apache-2.0): 10 prompts per client, lengths
uniform between 0.8 of the stated ones and the whole (RANDOM_RANGE_RATIO in its workflows). What each recipe sets that a
plan depends on is listed here with the script that sets it. Everything is an input of the run; no outcome was used.
Rows of other origin run at the engines' defaults, and their lengths are taken as stated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from validation.silicon.table import Row

SHORTEST = 0.8
DEFAULT_CHUNK = 8192  # vLLM, SGLang and TensorRT-LLM on GPUs of this class, unless told otherwise
OWN_SWEEPS = "source_file=/Users/"
"""Rows that aiconfigurator's authors measured themselves: not InferenceX's."""


@dataclass(frozen=True)
class Recipe:
    kv_format: str = "bf16"
    chunk_tokens: int = DEFAULT_CHUNK
    one_prompt: bool = False  # a pass holds a prompt and the running requests, and not two prompts
    drafted: int = 0
    expert_parallel: bool | None = None  # None = as the row says


def from_inferencex(row: Row) -> bool:
    return not row.source.startswith(OWN_SWEEPS)


def recipe(row: Row) -> Recipe:
    """What the run's script sets; the engines' defaults where none is known."""
    if not from_inferencex(row):
        return Recipe()
    deepseek = "DeepSeek-R1" in row.model or "DeepSeek-V3" in row.model
    if row.backend == "trtllm" and deepseek:
        # dsr1_fp8_h200_trt*.sh: kv_cache_config dtype fp8, max_num_tokens = prompt + clients, EP_SIZE = TP.
        return Recipe(kv_format="fp8", one_prompt=True, drafted=_drafted(row), expert_parallel=True)
    if row.backend == "trtllm" and "gpt-oss" in row.model:
        return Recipe(chunk_tokens=20_000, expert_parallel=True)  # gptoss_fp4_h200_trt.sh: max_num_tokens, ep = tp
    if row.backend == "sglang" and deepseek:
        return Recipe(chunk_tokens=32_768)  # dsr1_fp8_h200.sh: chunked-prefill-size
    if row.backend == "sglang" and "Qwen3.5" in row.model:
        return Recipe(kv_format="fp8", chunk_tokens=16_384)  # qwen3.5_fp8_h200.sh
    return Recipe()


def _drafted(row: Row) -> int:
    """Tokens drafted per pass. InferenceX added dsr1-fp8-h200-trt-mtp on 2026-01-14 (pull request 392).

    The DeepSeek-R1 rows of TensorRT-LLM measured on that day cover its search space (clients up to 128, with attention
    data parallel up to 256) and not that of the recipe without MTP (up to 64): three tokens, one with data parallel.
    """
    if row.measured_on != "2026-01-14" or not re.search(r"tensorrt-llm/release:1\.1\.0rc2", row.source):
        return 0
    return 1 if (row.attention_data or 1) > 1 else 3
