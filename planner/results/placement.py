"""Where every routed expert lives, and at which width."""

from __future__ import annotations

from pydantic import Field

from planner.results.base import Record, TierId


class PlacementClass(Record):
    """All experts that live in one tier at one width."""

    tier: TierId
    bits: float
    format: str
    experts: int
    token_share: float
    why: str


class Placement(Record):
    layers: tuple[int, ...] = Field(description="index of each MoE layer in the model")
    tier: tuple[tuple[int, ...], ...] = Field(description="[layer][expert] index into TIERS of where the expert lives")
    bits: tuple[tuple[float, ...], ...] = Field(description="[layer][expert] bits per weight, scales excluded")
    load: tuple[tuple[float, ...], ...] = Field(description="[layer][expert] mean tokens per decode step (timed part)")
    learned: tuple[tuple[float, ...], ...] = Field(
        description="[layer][expert] share of load that placement was learnt on"
    )
    klass: tuple[tuple[int, ...], ...] = Field(description="[layer][expert] index into classes")
    classes: tuple[PlacementClass, ...]
    learned_on: str = Field(description="which tokens the placement was learnt on and which it was timed on")
    distinct_experts_per_layer: float = Field(description="mean number of distinct experts hit in one pass")
    tokens_per_pass: int
