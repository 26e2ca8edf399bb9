"""From a row of the silicon table to a scenario and its clients: one documented mapping, no outcome among its inputs.

* ``model_path`` -> catalog model; ``system`` -> GPU; ``backend`` -> engine family.
* ``precision`` and quantisation modes -> weight format: the checkpoint's own where it is stored in that precision.
* GPUs: rows of aiconfigurator's own sweeps state ``moe_tp x moe_ep`` GPUs, ``tp`` below that is attention data
  parallel. InferenceX names tensor and expert parallel of the *same* GPUs, and the import multiplied them: tp 8, ep 8
  became tp 64 with moe_tp 8, moe_ep 8 (or attention_dp 64). Such rows mean ``moe_tp`` GPUs: they hold the same
  measurements as the rows that state tp 8, ep 8. Its recipes for TensorRT-LLM set ep = tp throughout, also where the
  table, made from early runs without that column, says ep 1. MiniMax-M2.5 on H100 (tp 4, attention_dp 4, ep 16) is the
  recipe tp 4, ep 4 without attention data parallel.
* clients = ``batch_size x attention_dp_size``; where the source states ``silicon_concurrency``, this agrees with it for
  one replica. Prompt and output lengths are the stated ones, drawn as the load generator draws them.
* ``disagg`` rows and models without experts are counted, not predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import models
from planner import calibration
from planner.closed_loop import Clients
from planner.fields import ScenarioError, validated
from planner.scenario import Scenario
from validation.silicon.recipes import SHORTEST, from_inferencex, recipe
from validation.silicon.table import Row

GPUS = {
    "h100_sxm": "h100-sxm-80gb",
    "h200_sxm": "h200-sxm-141gb",
}
"""Systems that are scored: those with Hopper GPUs in one server."""
ENGINES = {"trtllm": "tensorrt-llm", "sglang": "sglang", "vllm": "vllm"}
MODELS = {
    "zhipuai/GLM-5": "zai-org/GLM-5-FP8",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-R1",
}
ARCHITECTURES = {
    "deepseek-ai/DeepSeek-R1": "DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3": "DeepSeek-V3",
    "zai-org/GLM-5-FP8": "GLM-5",
    "moonshotai/Kimi-K2.5": "Kimi-K2.5",
    "MiniMaxAI/MiniMax-M2.5": "MiniMax-M2.5",
    "Qwen/Qwen3-235B-A22B-FP8": "Qwen3-235B",
    "Qwen/Qwen3.5-397B-A17B": "Qwen3.5-397B",
    "openai/gpt-oss-120b": "gpt-oss-120b",
}
"""What is held out together: checkpoints of one architecture are one."""
DENSE = ("llama", "qwen3-32b")
FRAME = "1x-h100-sxm"
ROOM_BYTES = 2.0**42
RESERVE_BYTES = 0.5 * 2**30
"""Of runs that fitted: context and graphs alone."""
SATURATED_S = 20.0
"""TTFT above which a row measures its queue."""


class UnmappableError(Exception):
    """A row that no scenario describes, with the reason in one sentence."""


@dataclass(frozen=True)
class Layout:
    gpus: int
    expert: bool
    attention_data: bool


@dataclass(frozen=True)
class Case:
    """A row's scenario and clients, and what it is held out with."""

    row: Row
    scenario: Scenario
    clients: Clients
    architecture: str
    engine: str
    layout: Layout

    @property
    def key(self) -> str:
        """Equal for rows with equal inputs: predicted once, and one observation in a fit."""
        c = self.clients
        return (
            f"{self.scenario.content_hash()}|{self.engine}|{c.count}|{c.prompt_tokens}|{c.output_tokens}|{c.shortest}"
        )


def mapped(row: Row) -> Case:
    """The case of a row. Raises UnmappableError with the reason."""
    why = excluded(row)
    if why:
        raise UnmappableError(why)
    ident = MODELS.get(row.model, row.model)
    if ident not in models.model_ids():
        raise UnmappableError(f"model {row.model!r} is not in the catalog")
    layout, how = layout_of(row), recipe(row)
    count = clients_of(row)
    shortest = SHORTEST if from_inferencex(row) else 1.0
    mean = (1.0 + shortest) / 2.0
    prompt = round(row.prompt_tokens * mean)
    chunk = row.prompt_tokens + count if how.one_prompt else how.chunk_tokens
    figures = {
        "gpu.count_per_node": layout.gpus,
        "pcie.host_uplinks": layout.gpus,
        "dram.capacity_bytes": ROOM_BYTES,
        "gpu.reserve_bytes": RESERVE_BYTES,
    }
    data: dict[str, Any] = {
        "model": {"id": ident, "weight_format": weight_format(row, ident), "kv_format": how.kv_format},
        "system": {"id": FRAME, "gpu": GPUS[row.system], "overrides": figures},
        "workload": {
            "batch": count,
            "prompt_tokens": prompt,
            "output_tokens": max(round(row.output_tokens * mean), 1),
            "draft_tokens": how.drafted,
        },
        "policy": {
            "id": "all-gpu",
            "tensor_parallel": layout.gpus,
            "expert_parallel": layout.expert,
            "prefill_chunk_tokens": chunk,
            "options": {"attention_data_parallel": layout.attention_data},
        },
    }
    engine = ENGINES[row.backend]
    if engine in calibration.engines():
        data["policy"]["engine"] = engine
    try:
        scenario = validated(data)
    except ScenarioError as error:
        raise UnmappableError(str(error)) from None
    clients = Clients(count, row.prompt_tokens, row.output_tokens, shortest, mixed=row.backend != "sglang")
    return Case(row, scenario, clients, ARCHITECTURES.get(ident, ident.split("/")[-1]), engine, layout)


def excluded(row: Row) -> str:
    """Why a row is not scored; empty if it is."""
    if any(word in row.model.casefold() for word in DENSE):
        return "a model without experts"
    if row.mode != "agg":
        return f"mode {row.mode}: prefill and decode on machines of their own"
    if row.system not in GPUS:
        return f"system {row.system}: not Hopper in one server"
    if row.backend not in ENGINES:
        return f"backend {row.backend!r} is not one that is mapped"
    return ""


def clients_of(row: Row) -> int:
    if row.batch is None or row.batch < 1:
        raise UnmappableError("no batch size is stated")
    return row.batch * max(row.attention_data or 1, 1)


def layout_of(row: Row) -> Layout:
    """GPUs of a row and how they share the model. Raises UnmappableError."""
    tensor, experts = row.tensor or 0, max(row.moe_expert or 1, 1)
    if tensor < 1 or (row.pipeline or 1) > 1:
        raise UnmappableError(f"tp {row.tensor}, pp {row.pipeline}: not one stage with a stated width")
    sliced, data = max(row.moe_tensor or 1, 1), max(row.attention_data or 1, 1)
    if from_inferencex(row):
        if tensor > 1 and data > 1:  # tp x attention_dp of one recipe
            return Layout(tensor, experts > 1, False)
        if sliced > 1 and experts > 1:  # tp x ep of the same GPUs
            return Layout(sliced, True, data > 1)
        gpus, known = max(tensor, data), recipe(row).expert_parallel
        return Layout(gpus, gpus > 1 and (experts > 1 if known is None else known), data > 1)
    gpus = sliced * experts
    return Layout(gpus, experts > 1, tensor < gpus)


def weight_format(row: Row, ident: str) -> str:
    """``native`` where the checkpoint is stored in the row's precision, else the format that the row names."""
    native = models.load(ident).native.format_of("routed")
    wanted = {"fp8": "fp8-block", "fp4": "nvfp4", "int4": "int4-g32", "bf16": "bf16", "": native}
    if row.precision not in wanted:
        raise UnmappableError(f"precision {row.precision!r} is not one that is mapped")
    fmt = wanted[row.precision]
    same = fmt.split("-")[0] == native.split("-")[0] or (fmt == "nvfp4" and native == "mxfp4")
    # gpt-oss is published in MXFP4 only; its fp4 and fp8 rows name the same experts, activations apart.
    return "native" if same or native == "mxfp4" else fmt
