"""What was planned, in names and sentences."""

from __future__ import annotations

from pydantic import Field

from planner.results.base import Record


class ModelSummary(Record):
    id: str
    name: str
    parameters_total: int
    parameters_main: int
    parameters_active: int
    layers: int
    moe_layers: int
    experts: int
    top_k: int
    shared_experts: int
    expert_parameters: int
    native_format: str
    kv_bytes_per_token: float = Field(description="at the scenario's KV format, all layers, short context")
    sentence: str = Field(
        description="for example: 236 B parameters, 21 B active per token; 59 MoE layers x 160 experts"
    )


class SystemSummary(Record):
    id: str
    name: str
    sentence: str
    nodes: int
    gpus: int
    as_published: bool
    edited: tuple[str, ...] = Field((), description="paths of the figures that the user changed")
    findings: tuple[str, ...] = Field((), description="what is not possible or unusual about this bill of materials")


class PolicySummary(Record):
    id: str
    name: str
    sentence: str = Field(description="what this policy does in this plan, in words")
    kv_location: str
    attention_device: str
    prefill: str
    gpu_format: str
    expert_format: str
    parallelism: str
    gpu_experts_per_layer: float = Field(description="mean number of routed experts of a layer resident in HBM")
    source: str
    notes: tuple[str, ...] = ()
