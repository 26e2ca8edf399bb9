"""All compiled kernels in one place, for `make run` to compile them ahead of the first plan."""

from __future__ import annotations

from planner import (
    bitwidth,
    cache_kernel,
    deal,
    importance,
    kernel_cache,
    pim_schedule,
    prefetch_kernel,
    schedule,
    schedule_domains,
    schedule_improved,
    split,
    split_lru,
)
from planner.layout import tasks
from planner.routing import popularity, sampler, sequence_sampler


def warm_all() -> None:
    """Compile every kernel, or load it from the cache (the first call of a process costs about 0.4 s either way)."""
    rooms = (sampler, popularity, importance, bitwidth, schedule, deal, split, split_lru, pim_schedule)
    for room in (*rooms, cache_kernel, prefetch_kernel, sequence_sampler, tasks, schedule_improved, schedule_domains):
        room.warm()
    kernel_cache.forget_old()
