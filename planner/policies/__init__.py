"""The policies, one file each, all through the same physics."""

from __future__ import annotations

from difflib import get_close_matches

from planner.errors import PlanError
from planner.policies.all_gpu import AllGpu
from planner.policies.base import Option, Policy, PolicyEntry
from planner.policies.context_aware import ContextAware
from planner.policies.cpu_experts import CpuExperts
from planner.policies.layer_streaming import LayerStreaming
from planner.policies.monde import Monde
from planner.policies.trimoe import TriMoe

_ALL: dict[str, Policy] = {
    p.id: p for p in (AllGpu(), LayerStreaming(), CpuExperts(), Monde(), ContextAware(), TriMoe())
}

__all__ = ["Option", "Policy", "PolicyEntry", "catalog", "get"]


def catalog() -> tuple[PolicyEntry, ...]:
    """Every policy: id, name, what it does, what it needs of a system, its options, its source."""
    return tuple(p.entry() for p in _ALL.values())


def get(policy_id: str) -> Policy:
    """The policy of that id; PlanError with the nearest id otherwise."""
    if policy_id not in _ALL:
        near = get_close_matches(policy_id, _ALL, 1, 0.3)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise PlanError(f"policy.id is {policy_id[:60]!r}; it takes one of {', '.join(_ALL)}.{hint}")
    return _ALL[policy_id]
