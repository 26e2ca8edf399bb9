"""What the user chose: the immutable, schema-versioned input of :func:`planner.plan`.

Every field has a unit in its name or description, a default and bounds, so that this table drives the
command line (``--set path=value``), the page's widgets and their help, and the documentation.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

SCHEMA_VERSION: Final = 1

FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

KvFormat = Literal["bf16", "fp8", "int8", "int4"]
EXCHANGEABLE: Final = ("gpu", "cpu", "dimm", "chassis")
YOUNG: Final = (
    *(("system", name) for name in EXCHANGEABLE),
    ("system", "calibration"),
    ("system", "measured"),
    ("policy", "engine"),
)
Location = Literal["auto", "gpu", "host"]
AttentionDevice = Literal["auto", "gpu", "cpu"]
PrefillMode = Literal["auto", "gpu", "cpu", "stream", "ndp"]


class Part(BaseModel):
    """Base of all parts of a scenario: frozen, and closed against unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelChoice(Part):
    """Which checkpoint, and the format that its weights and KV cache are stored in."""

    id: str = Field("mistralai/Mixtral-8x7B-v0.1", max_length=200, description="Hugging Face id of a catalog model")
    config: dict[str, Any] | None = Field(
        None, description="a pasted config.json; when given, id is only the name that it is shown under"
    )
    weight_format: str = Field(
        "native",
        max_length=40,
        description="format of all weights that stay on the GPU, resident hot experts included; native = as published",
    )
    kv_format: KvFormat = Field("bf16", description="format of the KV cache")


class SystemChoice(Part):
    """Which machine, and every figure of it that the user changed."""

    id: str = Field("2x-h100-sxm", max_length=100, description="id of a catalog system")
    gpu: str | None = Field(None, max_length=100, description="catalog GPU in the place of the system's own")
    cpu: str | None = Field(None, max_length=100, description="catalog CPU in the place of the system's own")
    dimm: str | None = Field(None, max_length=100, description="catalog memory module in the place of the system's own")
    chassis: str | None = Field(None, max_length=100, description="catalog chassis in the place of the system's own")
    calibration: str | None = Field(
        None, max_length=100, description="named calibration of efficiencies and overheads; empty = the shipped one"
    )
    measured: str | None = Field(
        None,
        max_length=100,
        description="digest of a kept measured machine, whose figures take the place of the catalog's; empty = none",
    )
    overrides: dict[str, FiniteFloat] = Field(
        default_factory=dict, description="figure path -> value in the figure's own unit, for example gpu.power_limit_w"
    )

    @property
    def parts(self) -> dict[str, str]:
        """Kind of part -> device that takes the place of the system's own."""
        given = {name: getattr(self, name) for name in EXCHANGEABLE}
        return {name: device for name, device in given.items() if device is not None}


class Workload(Part):
    """What the machine serves."""

    preset: str | None = Field(
        None, max_length=40, description="preset that the numbers started from, for display only"
    )
    batch: int = Field(32, ge=1, le=65536, description="sequences decoding at once in the whole system")
    prompt_tokens: int = Field(1024, ge=1, le=10_000_000, description="prompt length, tokens")
    output_tokens: int = Field(256, ge=1, le=1_000_000, description="output length, tokens")
    prefix_hit_share: Share = Field(
        0.0, description="share of the prompt found in the prefix cache: its compute is skipped, its KV is held"
    )
    draft_tokens: int = Field(
        0, ge=0, le=32, description="tokens drafted per verify pass (MTP or speculative decoding)"
    )
    draft_acceptance: Share = Field(
        0.7, description="probability that a drafted token is accepted, given the one before"
    )
    requests_per_s: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = Field(
        None, description="offered load, requests per second"
    )
    output_tokens_per_day: Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)] | None = Field(
        None, description="offered load, output tokens per day (used when requests_per_s is empty)"
    )
    target_utilisation: Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)] = Field(
        0.7, description="share of its capacity that a system is planned to use"
    )
    spare_systems: int = Field(0, ge=0, le=10_000, description="systems kept idle for failures")
    slo_ttft_s: Positive | None = Field(None, description="target for the time to first token, s")
    slo_tpot_s: Positive | None = Field(None, description="target for the time per output token, s")

    @model_validator(mode="after")
    def _one_load(self) -> Workload:
        if self.requests_per_s is not None and self.output_tokens_per_day is not None:
            raise ValueError("requests_per_s and output_tokens_per_day both state the load; give one of them")
        return self


class RoutingChoice(Part):
    """Where the load of the experts comes from: a generator, or a trace of this very model."""

    source: Literal["generated", "uniform", "trace"] = Field(
        "generated", description="generated popularity, a uniform router, or a shipped trace"
    )
    trace: str | None = Field(None, max_length=100, description="id of a shipped trace, when source is trace")
    distribution: Literal["lognormal", "gamma"] = Field("lognormal", description="shape of the popularity")
    sigma: Annotated[float, Field(ge=0, le=4, allow_inf_nan=False)] = Field(
        0.7, description="standard deviation of ln(load) between experts of a layer: base, domain and phase together"
    )
    domain_share: Share = Field(0.5, description="share of that variance which belongs to the domain, not to the model")
    sigma_request: Annotated[float, Field(ge=0, le=4, allow_inf_nan=False)] = Field(
        0.5, description="standard deviation of ln(load) of one request around the mean"
    )
    sigma_phase: Annotated[float, Field(ge=0, le=4, allow_inf_nan=False)] = Field(
        0.34, description="standard deviation of ln(load) between prefill and decode (0.34 gives cosine 0.89)"
    )
    locality: Share = Field(
        0.55,
        description="probability that a choice repeats one of an earlier token of its request, for policies whose "
        "cache depends on history (generated; 0.55 as measured on DeepSeek-V2-Lite)",
    )
    drift_share: Share = Field(
        0.2, description="share of the variance of ln(load) that drifts over their steps (generated; assumed)"
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, description="seed of the generator")
    steps: int = Field(
        0, ge=0, le=1024, description="decode steps sampled; 0 = automatic (at least 32 at batch 16 and below)"
    )

    @model_validator(mode="after")
    def _trace_named(self) -> RoutingChoice:
        if (self.source == "trace") != (self.trace is not None):
            raise ValueError("routing.trace names a shipped trace exactly when routing.source is 'trace'")
        return self


class PolicyChoice(Part):
    """How experts are placed and scheduled."""

    id: str = Field("all-gpu", max_length=60, description="id of a policy")
    weight_bits: Annotated[float, Field(ge=1, le=16, allow_inf_nan=False)] | None = Field(
        None,
        description="mean bits of the routed experts that are not resident on the GPU; empty = the policy's default",
    )
    expert_format: str | None = Field(
        None, max_length=40, description="named weight format of those experts; wins over weight_bits"
    )
    gpu_experts_per_layer: int | None = Field(
        None, ge=0, le=100_000, description="routed experts of each layer kept in HBM; empty = the policy's default"
    )
    kv_location: Location = Field("auto", description="where the KV cache lives")
    attention_device: AttentionDevice = Field("auto", description="which device computes decode attention")
    prefill: PrefillMode = Field("auto", description="how prefill runs")
    prefill_chunk_tokens: int | None = Field(
        None,
        ge=16,
        le=1_000_000,
        description="tokens of one prefill pass at most; empty = 8,192, or a whole longer prompt under policies that "
        "can stream experts, as far as its activations fit",
    )
    micro_batches: int = Field(
        1, ge=1, le=256, description="micro-batches of a decode step (weights are read once for each)"
    )
    engine: str | None = Field(
        None, max_length=40, description="family of the serving engine, whose coefficients are used; empty = generic"
    )
    cuda_graphs: bool = Field(True, description="launch a captured graph instead of single kernels")
    tensor_parallel: int | None = Field(None, ge=1, le=1024, description="GPUs that share each layer; empty = chosen")
    expert_parallel: bool | None = Field(None, description="whole experts on different GPUs instead of slices")
    pipeline_parallel: int | None = Field(None, ge=1, le=1024, description="pipeline stages; empty = chosen")
    data_parallel: int | None = Field(None, ge=1, le=4096, description="independent replicas; empty = chosen")
    options: dict[str, bool | int | FiniteFloat | str] = Field(
        default_factory=dict, description="further options of the policy, as its page lists them"
    )


class Economics(Part):
    """What machine time, electricity and carbon cost."""

    mode: Literal["owned", "rented"] = Field("owned", description="bill of materials over its life, or an hourly rent")
    life_years: Annotated[float, Field(ge=0.01, le=50, allow_inf_nan=False)] = Field(
        4.0, description="years of depreciation"
    )
    busy_share: Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)] = Field(
        0.6, description="share of the time in which the machine does paid work"
    )
    electricity_usd_per_kwh: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = Field(
        0.0929, description="electricity price, USD/kWh"
    )
    pue: Annotated[float, Field(ge=1, le=5, allow_inf_nan=False)] = Field(1.25, description="power usage effectiveness")
    grid_gco2e_per_kwh: Annotated[float, Field(ge=0, le=5000, allow_inf_nan=False)] = Field(
        369.0, description="carbon intensity of the grid, gCO2e/kWh"
    )
    rent_usd_per_hour: Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)] | None = Field(
        None, description="rent of the whole system, USD/h; empty = the catalog's rent per GPU"
    )
    other_usd_per_month: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = Field(
        0.0, description="rack space, staff and other costs of one system, USD per month"
    )


class Scenario(Part):
    """The whole input. ``Scenario.content_hash()`` names it: equal hash, equal result."""

    schema_version: Literal[1] = SCHEMA_VERSION
    model: ModelChoice = Field(default_factory=ModelChoice)
    system: SystemChoice = Field(default_factory=SystemChoice)
    workload: Workload = Field(default_factory=Workload)
    routing: RoutingChoice = Field(default_factory=RoutingChoice)
    policy: PolicyChoice = Field(default_factory=PolicyChoice)
    economics: Economics = Field(default_factory=Economics)

    @field_validator("schema_version", mode="before")
    @classmethod
    def _known_version(cls, value: Any) -> Any:
        if isinstance(value, int) and value > SCHEMA_VERSION:
            raise ValueError(
                f"this scenario was written by a newer Tierline (schema {value}; this one reads up to {SCHEMA_VERSION})"
            )
        return value

    def canonical_json(self) -> str:
        """Sorted, compact JSON: the text that is hashed, stored and sent in a link."""
        data = self.model_dump(mode="json")
        for section, name in YOUNG:  # younger than many a saved scenario: left out, they leave its hash as it was
            if data[section][name] is None:
                del data[section][name]
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def content_hash(self) -> str:
        """SHA-256 of :meth:`canonical_json`, hexadecimal; the display-only preset name is left out."""
        plain = self.model_copy(update={"workload": self.workload.model_copy(update={"preset": None})})
        return hashlib.sha256(plain.canonical_json().encode()).hexdigest()
