"""What lies where, what does not fit, and what would make it fit."""

from __future__ import annotations

from pydantic import Field

from planner.results.base import Record


class MemoryItem(Record):
    name: str
    bytes: float


class MemoryTier(Record):
    tier: str
    name: str
    devices: int
    capacity_bytes: float = Field(description="all devices together")
    items: tuple[MemoryItem, ...] = Field(description="all devices together")
    used_bytes: float
    free_bytes: float = Field(description="negative when it does not fit; on the fullest device times the devices")
    fullest_device_bytes: float
    device_capacity_bytes: float


class Change(Record):
    """A change of the scenario that makes it fit (or the marginal one more unit)."""

    text: str
    set: dict[str, bool | int | float | str | dict[str, bool | int | float | str] | None]
    fits: bool
    tier_used_bytes: float | None = None
    tier_capacity_bytes: float | None = None
    tpot_s: float | None = None
    tokens_per_s_system: float | None = None
    usd_per_million_output_tokens: float | None = None


class Memory(Record):
    tiers: tuple[MemoryTier, ...]
    first_unfit: str | None = Field(None, description="the first thing that does not fit, in words")
    largest_batch: int = Field(description="largest batch that fits at this context; 0 if none")
    largest_context_tokens: int = Field(description="largest prompt + output that fits at this batch; 0 if none")
    changes: tuple[Change, ...] = ()
