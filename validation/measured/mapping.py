"""From a measured run to a scenario: one documented mapping, no outcome of the run among its inputs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import models
from planner import calibration
from planner.fields import ScenarioError, validated
from planner.fields.sentences import nearest
from planner.scenario import Scenario
from validation.measured import formats
from validation.measured.coefficients import LINK
from validation.measured.families import COPIERS, EARLY, PAGEABLE, PROTOTYPES, family
from validation.measured.machine import UnmappableError, device_of, system_fields
from validation.measured.runs import Run

CHUNK = 8192  # rows of a prefill pass on one GPU, what serving engines set or nearly so
UBATCH = 512  # llama.cpp's default
PROMPT, OUTPUT = 512, 128
"""Tokens of a run that does not say: what llama-bench runs when nothing else is asked for."""


@dataclass(frozen=True)
class Mapped:
    """A run's scenario, and what had to be assumed for it."""

    run: Run
    scenario: Scenario
    regime: str
    assumed: tuple[str, ...] = ()


def mapped(run: Run) -> Mapped:
    """The scenario of a run. Raises UnmappableError with the reason."""
    assumed: list[str] = []
    regime = regime_of(run)
    model = _model(run, assumed)
    data: dict[str, Any] = {
        "model": model,
        "system": system_fields(run),
        "workload": _workload(run, regime, assumed),
        "policy": _policy(run, regime),
        "routing": {"source": "generated"},
    }
    _unstated_cache(run, regime, data["policy"], assumed)
    if _no_tiles(run, data["policy"]):
        data["system"]["overrides"].update(NO_TILES)
        assumed.append("experts in FP8 on the vector units: the engine has no tile kernel for them")
    if run.kv_bits and run.kv_bits < 12:
        model["kv_format"] = "fp8" if run.kv_bits >= 8 else "int4"
    try:
        return Mapped(run, validated(data), regime, tuple(assumed))
    except ScenarioError as error:
        raise UnmappableError(str(error)) from None


def regime_of(run: Run) -> str:
    """Regime of a run: as its source states it, else from what is said about the machine and the placement."""
    if run.regime:
        return run.regime
    if not run.gpu:
        return "cpu_only"
    if run.cache_fraction is not None or run.miss_path:
        return "gpu_expert_cache"
    if run.prefill_mode in ("layerwise_gpu_stream", "op_offload_stream"):
        return "pcie_stream"
    return "cpu_experts" if run.cpu else "all_gpu"


STAND_INS: dict[str, tuple[str, dict[str, Any], str]] = {
    "qwen3.6-35b-a3b": ("Qwen/Qwen3.5-35B-A3B", {}, "Qwen3.5-35B-A3B stands in: same dimensions, not verified"),
    "qwen3.8-flash-next": (
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        {"hidden_size": 2560, "moe_intermediate_size": 640},
        "no config is published: Qwen3-Next with hidden size 2560 and experts of 640, from 63 GiB of NVFP4 experts",
    ),
}
"""Models without a published config: catalog model, changes to its config, what is assumed."""


def _stand_in(run: Run) -> tuple[str, dict[str, Any], str] | None:
    name = run.model.casefold()
    return next((found for start, found in STAND_INS.items() if name.startswith(start)), None)


def model_id(run: Run) -> str:
    """The catalog id that the run's model means. Raises UnmappableError, naming the nearest."""
    known = models.model_ids()
    instead = _stand_in(run)
    if instead:
        return instead[0]
    if run.model in known:
        return run.model
    short = {name.split("/")[-1].casefold(): name for name in known}
    text = run.model.split("/")[-1].casefold()
    if text in short:
        return short[text]
    close = nearest(text, short, cutoff=0.6)
    hint = f"; the nearest is {short[close[0]]!r}" if close else ""
    raise UnmappableError(f"model {run.model[:80]!r} is not in the catalog{hint}")


def _model(run: Run, assumed: list[str]) -> dict[str, Any]:
    ident = model_id(run)
    gpu_part = formats.whole_model(run.weight_bits, run.weight_bits_note)
    if run.system_family in ("ik_llama.cpp", "llama.cpp") and "-ot exps=CPU" in run.resident_part:
        gpu_part = "gguf-q8_0"  # recipes keep what is not a routed expert near eight bits
    fields: dict[str, Any] = {"id": ident, "weight_format": gpu_part}
    if run.top_k_used and run.top_k_used != models.load(ident).top_k:
        config = models.published_config(ident)
        key = next((k for k in ("num_experts_per_tok", "moe_topk", "num_experts_per_token") if k in config), None)
        if key is None:
            raise UnmappableError(f"{run.top_k_used} experts per token cannot be set in the config of {ident}")
        fields["config"] = {**config, key: int(run.top_k_used)}
    instead = _stand_in(run)
    if instead:
        assumed.append(instead[2])
        if instead[1]:
            fields["config"] = {**models.published_config(ident), **instead[1]}
    return fields


def _workload(run: Run, regime: str, assumed: list[str]) -> dict[str, Any]:
    batch = run.batch or run.concurrency
    if batch is None:
        batch = run.n_requests if run.phase == "e2e" and run.n_requests else 1
        assumed.append(f"batch {batch:,.0f} (not stated)")
    depth, prompt, output = run.context_depth, run.input_len, run.output_len
    fields: dict[str, Any] = {"batch": max(int(batch), 1)}
    if run.phase == "prefill":
        if prompt is None:
            prompt = PROMPT
            assumed.append(f"prompt of {PROMPT} tokens (not stated)")
        before = depth or 0.0
        if run.per == "total" and run.batch is None and _own_prompts(run):
            # Every GPU runs prompts of its own: a pass holds a chunk for each.
            fields["batch"] = max(round(run.n_gpu * CHUNK / prompt), 1)
        fields["prompt_tokens"] = max(int(prompt + before), 1)
        fields["prefix_hit_share"] = before / (prompt + before) if before else 0.0
        fields["output_tokens"] = int(output or 1) or 1
        return fields
    if run.phase == "decode" and depth is not None:
        prompt = depth
    if prompt is None:
        prompt = PROMPT
        assumed.append(f"context of {PROMPT} tokens (not stated)")
    fields["prompt_tokens"] = max(int(prompt), 1)
    fields["output_tokens"] = max(int(output or OUTPUT), 1)
    return fields


NO_TILES = {"cpu.bf16_flop_per_cycle": 1.0, "cpu.vector_tokens_max": 1024}
"""A matrix unit that no pass is faster on: every product runs on the vector units."""
LEAST_SLOTS = 3
"""Cache slots of a layer over top-k that an LRU cache needs to hit at all (kekzl/imp, pull request 1375)."""


def _no_tiles(run: Run, policy: dict[str, Any]) -> bool:
    """kt-kernel computes FP8 experts with AVX-512; its AMX kernels take BF16, INT8 and INT4 (kt-kernel README)."""
    return run.system_family == "sglang+kt-kernel" and policy.get("expert_format") == "fp8-block"


def _unstated_cache(run: Run, regime: str, policy: dict[str, Any], assumed: list[str]) -> None:
    """A cache of unstated size on a GPU that could hold all experts: not as large as that, or nothing would miss.

    Taken as the least with which an LRU cache hits.
    """
    if regime != "gpu_expert_cache" or "gpu_experts_per_layer" in policy or not run.gpu:
        return
    arch = models.load(model_id(run))
    routed = models.parameters(arch).by_component["routed"] * (run.weight_bits or 16.0) / 8.0
    room = device_of(run.gpu, "gpu").figures["gpu.memory_capacity_bytes"].value or 0.0
    if routed <= room * max(run.n_gpu, 1):
        policy["gpu_experts_per_layer"] = min(LEAST_SLOTS * arch.top_k, arch.experts)
        assumed.append(f"cache of {policy['gpu_experts_per_layer']} experts per layer (not stated; all would fit)")


def _own_prompts(run: Run) -> bool:
    """Whether every GPU runs attention for prompts of its own."""
    return "dp-attention" in run.parallelism or run.system_family == "deepseek-internal"


def _policy(run: Run, regime: str) -> dict[str, Any]:
    fields = _BY_REGIME.get(regime, _unknown)(run)
    if "eager" in run.software_mode or run.system_family in PROTOTYPES:
        fields["cuda_graphs"] = False
    engine = engine_of(run, regime)
    if engine is not None:
        fields["engine"] = engine
    return fields


def engine_of(run: Run, regime: str) -> str | None:
    """The calibrated engine family that a run's engine is, or that of its kind; None for the generic one."""
    own = family(run)
    known = calibration.engines()
    copies = regime in LINK and own in COPIERS and PAGEABLE in known
    if copies and "pcie.copy_limit_bytes_per_s" not in calibration.shipped().families.get(own, {}):
        return PAGEABLE
    return own if own in known else EARLY if own.endswith(f"-{EARLY}") and EARLY in known else None


def _unknown(run: Run) -> dict[str, Any]:
    raise UnmappableError(f"regime {run.regime!r} is not one that is modelled")


def _all_gpu(run: Run) -> dict[str, Any]:
    text = run.parallelism
    fields: dict[str, Any] = {"id": "all-gpu"}
    gpus = max(run.n_gpu, 1)
    for key, name in (("tp", "tensor_parallel"), ("pp", "pipeline_parallel")):
        found = re.search(rf"\b{key}(\d+)", text)
        if found:
            fields[name] = int(found.group(1))
    expert = re.search(r"\bep(\d+)", text)
    if expert:
        fields["expert_parallel"] = True
        fields.setdefault("tensor_parallel", int(expert.group(1)))
    if "dp-attention" in text:
        fields.setdefault("options", {})["attention_data_parallel"] = True
    if expert and ("pd-disaggregated" in text or run.system_family == "deepseek-internal"):
        fields["micro_batches"] = 2
        fields.setdefault("options", {})["overlap_batches"] = True
    if run.phase == "prefill" and _own_prompts(run):
        fields["prefill_chunk_tokens"] = CHUNK * gpus
    if "pd:" in text:
        fields["tensor_parallel"] = max(gpus // 2, 1)
    if not text and gpus > 1:
        fields["tensor_parallel"] = gpus
    return fields


def _cpu_experts(run: Run) -> dict[str, Any]:
    quant = formats.experts(run.weight_bits, run.weight_bits_note)
    if run.system_family in ("llama.cpp", "ik_llama.cpp", "exllamav3"):
        layers = run.cpu_layers_with_experts
        options: dict[str, Any] = {"op_offload_rows": 1_000_000}
        if layers is not None:
            options["cpu_layers"] = int(layers)
            options["which"] = "last"
        elif run.gpu_layers_with_experts is not None:
            moe = len(models.load(model_id(run)).moe_layers)
            options["cpu_layers"] = moe - int(run.gpu_layers_with_experts)
        else:
            options["cpu_layers"] = len(models.load(model_id(run)).moe_layers)
        rows = int(run.ubatch_tokens or UBATCH)
        options["ubatch"] = rows
        fields = {"id": "static-split", **quant, "options": options, "prefill_chunk_tokens": max(rows, 16)}
        if run.phase == "prefill":
            fields["prefill"] = "cpu"
        return fields
    fields = {"id": "cpu-experts", **quant, "gpu_experts_per_layer": int(run.gpu_experts_per_layer or 0)}
    if run.phase == "prefill":
        fields["prefill"] = "cpu"
    return fields


def _streamed(run: Run) -> dict[str, Any]:
    quant = formats.experts(run.weight_bits, run.weight_bits_note)
    if run.phase == "prefill" and run.prefill_mode == "op_offload_stream":
        fields = _cpu_experts(run)
        fields["options"]["op_offload_rows"] = 1
        fields["prefill"] = "stream"
        return fields
    if run.phase == "prefill":
        # Layer-wise prefill copies whole layers where the source says so, the experts kept for decode included.
        kept = 0 if "all experts" in (run.stream_set or "") else int(run.gpu_experts_per_layer or 0)
        return {"id": "cpu-experts", **quant, "gpu_experts_per_layer": kept, "prefill": "stream"}
    hit = "activated" in (run.stream_set or "")
    if run.system_family in ("moe-lightning", "flexgen"):
        return {"id": "moe-lightning", "options": {}} if run.system_family == "moe-lightning" else _flexgen(run)
    fields = {"id": "layer-streaming", "options": {"stream_set": "hit" if hit else "all"}}
    if run.system_family == "deepspeed":
        fields["gpu_experts_per_layer"] = 0  # ZeRO keeps all parameters on the host
    elif run.gpu_experts_per_layer is not None or run.cache_fraction is not None:
        fields["gpu_experts_per_layer"] = int(_resident(run) or 0)
    return fields


def _flexgen(run: Run) -> dict[str, Any]:
    return {"id": "layer-streaming", "kv_location": "host", "attention_device": "cpu"}


def _resident(run: Run) -> float | None:
    """Experts of each layer in HBM, as stated or by the share of them; None where the source says neither."""
    if run.gpu_experts_per_layer is None and run.cache_fraction is not None:
        return run.cache_fraction * models.load(model_id(run)).experts
    return run.gpu_experts_per_layer


def _cached(run: Run) -> dict[str, Any]:
    quant = formats.experts(run.weight_bits, run.weight_bits_note)
    per_layer = _resident(run)
    ident = "freetoken" if run.miss_path and "hybrid" in run.miss_path else "moe-infinity"
    fields: dict[str, Any] = {"id": ident, **quant}
    if per_layer is not None:
        fields["gpu_experts_per_layer"] = int(per_layer)
    return fields


def _cpu_only(run: Run) -> dict[str, Any]:
    return {"id": "cpu-only", **formats.experts(run.weight_bits, run.weight_bits_note)}


def _unified(run: Run) -> dict[str, Any]:
    return _all_gpu(run)


_BY_REGIME = {
    "all_gpu": _all_gpu,
    "cpu_experts": _cpu_experts,
    "cpu_only": _cpu_only,
    "pcie_stream": _streamed,
    "gpu_expert_cache": _cached,
    "unified_memory": _unified,
}
