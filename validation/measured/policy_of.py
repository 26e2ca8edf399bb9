"""The policy of a measured run: by its regime and engine, with what its source says about the placement."""

from __future__ import annotations

import re
from typing import Any

import models
from planner import calibration
from validation.measured import formats
from validation.measured.coefficients import LINK
from validation.measured.families import COPIERS, EARLY, PAGEABLE, PROTOTYPES, family
from validation.measured.machine import UnmappableError
from validation.measured.model_of import model_id
from validation.measured.runs import Run

CHUNK = 8192  # rows of a prefill pass on one GPU, what serving engines set or nearly so
UBATCH = 512  # llama.cpp's default


def own_prompts(run: Run) -> bool:
    """Whether every GPU runs attention for prompts of its own."""
    return "dp-attention" in run.parallelism or run.system_family == "deepseek-internal"


def policy_fields(run: Run, regime: str) -> dict[str, Any]:
    """The policy of a scenario. Raises UnmappableError for a regime that is not modelled."""
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
    if run.phase == "prefill" and own_prompts(run):
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
