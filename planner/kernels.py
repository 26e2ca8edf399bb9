"""All compiled kernels in one place, for `make run` to compile them ahead of the first plan."""

from __future__ import annotations

from planner import bitwidth, deal, importance, pim_schedule, schedule, split, split_lru
from planner.routing import popularity, sampler


def warm_all() -> None:
    """Compile every kernel, or load it from the cache (the first call of a process costs about 0.4 s either way)."""
    for room in (sampler, popularity, importance, bitwidth, schedule, deal, split, split_lru, pim_schedule):
        room.warm()
