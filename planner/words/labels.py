"""Label and unit of every field of a scenario; its meaning, bounds and default stand in :mod:`planner.scenario`."""

from __future__ import annotations

# path -> (label, unit). A field without an entry is shown under its own name, without a unit.
LABELS: dict[str, tuple[str, str]] = {
    "model.id": ("Model", ""),
    "model.weight_format": ("Weights on the GPU", ""),
    "model.kv_format": ("KV cache format", ""),
    "system.id": ("System", ""),
    "system.gpu": ("GPU instead", ""),
    "system.cpu": ("CPU instead", ""),
    "system.dimm": ("Memory module instead", ""),
    "system.chassis": ("Chassis instead", ""),
    "system.calibration": ("Calibration", ""),
    "system.measured": ("Measured machine", ""),
    "workload.preset": ("Preset", ""),
    "workload.batch": ("Batch", "sequences"),
    "workload.prompt_tokens": ("Prompt tokens", "tokens"),
    "workload.output_tokens": ("Output tokens", "tokens"),
    "workload.prefix_hit_share": ("Prefix cache hits", "share of the prompt"),
    "workload.draft_tokens": ("Draft tokens", "tokens per pass"),
    "workload.draft_acceptance": ("Draft acceptance", "probability"),
    "workload.requests_per_s": ("Requests", "per second"),
    "workload.output_tokens_per_day": ("Output per day", "tokens per day"),
    "workload.target_utilisation": ("Target utilisation", "share"),
    "workload.spare_systems": ("Spare systems", "systems"),
    "workload.slo_ttft_s": ("Target TTFT", "s"),
    "workload.slo_tpot_s": ("Target TPOT", "s"),
    "routing.source": ("Expert load from", ""),
    "routing.trace": ("Trace", ""),
    "routing.distribution": ("Shape of popularity", ""),
    "routing.sigma": ("Skew σ", "std of ln(load)"),
    "routing.domain_share": ("Domain share", "share of the variance"),
    "routing.sigma_request": ("Request σ", "std of ln(load)"),
    "routing.sigma_phase": ("Phase σ", "std of ln(load)"),
    "routing.locality": ("Locality", "probability"),
    "routing.drift_share": ("Drift share", "share of the variance"),
    "routing.seed": ("Seed", ""),
    "routing.steps": ("Sampled steps", "steps"),
    "policy.id": ("Policy", ""),
    "policy.engine": ("Serving engine", ""),
    "policy.weight_bits": ("Expert bits, mean", "bits per weight"),
    "policy.expert_format": ("Expert format", ""),
    "policy.gpu_experts_per_layer": ("Experts in HBM", "per layer"),
    "policy.kv_location": ("KV cache lives on", ""),
    "policy.attention_device": ("Attention runs on", ""),
    "policy.prefill": ("Prefill runs", ""),
    "policy.prefill_chunk_tokens": ("Prefill chunk", "tokens"),
    "policy.micro_batches": ("Micro-batches", "per step"),
    "policy.cuda_graphs": ("CUDA graphs", ""),
    "policy.tensor_parallel": ("Tensor parallel", "GPUs"),
    "policy.expert_parallel": ("Expert parallel", ""),
    "policy.pipeline_parallel": ("Pipeline stages", "stages"),
    "policy.data_parallel": ("Data parallel", "replicas"),
    "economics.mode": ("Machine is", ""),
    "economics.life_years": ("Life", "years"),
    "economics.busy_share": ("Busy share", "share of the time"),
    "economics.electricity_usd_per_kwh": ("Electricity", "USD/kWh"),
    "economics.pue": ("PUE", ""),
    "economics.grid_gco2e_per_kwh": ("Grid carbon", "gCO₂e/kWh"),
    "economics.rent_usd_per_hour": ("Rent", "USD/h"),
    "economics.other_usd_per_month": ("Other costs", "USD/month"),
}

# Choices in words; a choice without an entry is shown as it is.
CHOICES: dict[str, dict[str, str]] = {
    "model.kv_format": {"bf16": "BF16", "fp8": "FP8", "int8": "INT8", "int4": "INT4"},
    "routing.source": {"generated": "a generator", "uniform": "a uniform router", "trace": "a recorded trace"},
    "routing.distribution": {"lognormal": "log-normal", "gamma": "gamma"},
    "policy.kv_location": {"auto": "as the policy does", "gpu": "the GPU", "host": "the host"},
    "policy.attention_device": {"auto": "as the policy does", "gpu": "the GPU", "cpu": "the CPU"},
    "policy.prefill": {
        "auto": "as the policy does",
        "gpu": "on the GPU",
        "cpu": "on the CPU",
        "stream": "streamed to the GPU",
        "ndp": "on the NDP",
    },
    "economics.mode": {"owned": "owned", "rented": "rented"},
}


def label(path: str) -> str:
    """The name of a field for people."""
    return LABELS.get(path, (path.rsplit(".", 1)[-1].replace("_", " "), ""))[0]


# Units short enough to stand in the label of a narrow field.
_IN_LABEL = {
    "workload.requests_per_s": "Requests/s",
    "workload.output_tokens_per_day": "Tokens/day",
    "workload.slo_ttft_s": "Target TTFT, s",
    "workload.slo_tpot_s": "Target TPOT, s",
    "economics.life_years": "Life, years",
    "economics.electricity_usd_per_kwh": "Electricity, $/kWh",
    "economics.grid_gco2e_per_kwh": "Grid, gCO₂e/kWh",
    "economics.rent_usd_per_hour": "Rent, $/h",
    "economics.other_usd_per_month": "Other, $/month",
    "policy.gpu_experts_per_layer": "HBM experts/layer",
}


def field_label(path: str) -> str:
    """The name of a field with its unit, for a narrow field."""
    return _IN_LABEL.get(path, label(path))


def in_words(sentence: str) -> str:
    """A sentence with labels in place of paths: people know a field by what stands beside it."""
    for path in sorted(LABELS, key=len, reverse=True):
        sentence = sentence.replace(path, LABELS[path][0])
    sentence = sentence.replace(", or null", ", or nothing")
    return sentence[:1].upper() + sentence[1:]


def unit(path: str) -> str:
    """The unit of a field; empty where it has none."""
    return LABELS.get(path, ("", ""))[1]


def choice(path: str, value: object) -> str:
    """One of the accepted values of a field, in words."""
    return CHOICES.get(path, {}).get(str(value), str(value))
