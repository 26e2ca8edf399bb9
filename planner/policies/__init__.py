"""The policies, one file each, all through the same physics."""

from __future__ import annotations

import math
from collections.abc import Mapping

from planner.errors import PlanError, unknown
from planner.policies.all_gpu import AllGpu
from planner.policies.base import Option, Policy, PolicyEntry
from planner.policies.context_aware import ContextAware
from planner.policies.cpu_experts import CpuExperts
from planner.policies.cpu_only import CpuOnly
from planner.policies.dali import Dali
from planner.policies.daop import Daop
from planner.policies.fiddler import Fiddler
from planner.policies.fluxmoe import FluxMoe
from planner.policies.freetoken import FreeToken
from planner.policies.hobbit import Hobbit
from planner.policies.hybrimoe import HybriMoe
from planner.policies.klotski import Klotski
from planner.policies.layer_streaming import LayerStreaming
from planner.policies.moe_infinity import MoeInfinity
from planner.policies.moe_lightning import MoeLightning
from planner.policies.monde import Monde
from planner.policies.pimoe import PiMoe
from planner.policies.static_split import StaticSplit
from planner.policies.trimoe import TriMoe
from planner.policies.wisp import Wisp

_ALL: dict[str, Policy] = {
    p.id: p
    for p in (
        AllGpu(),
        LayerStreaming(),
        CpuExperts(),
        Monde(),
        ContextAware(),
        TriMoe(),
        Fiddler(),
        HybriMoe(),
        Daop(),
        Dali(),
        FreeToken(),
        PiMoe(),
        Hobbit(),
        Klotski(),
        MoeLightning(),
        MoeInfinity(),
        FluxMoe(),
        Wisp(),
        StaticSplit(),
        CpuOnly(),
    )
}

__all__ = ["Option", "Policy", "PolicyEntry", "catalog", "check_options", "get"]


def catalog() -> tuple[PolicyEntry, ...]:
    """Every policy: id, name, what it does, what it needs of a system, its options, its source."""
    return tuple(p.entry() for p in _ALL.values())


def get(policy_id: str) -> Policy:
    """The policy of that id; PlanError with the nearest id otherwise."""
    if policy_id not in _ALL:
        raise PlanError(unknown("policy.id", policy_id, list(_ALL)))
    return _ALL[policy_id]


def check_options(policy: Policy, options: Mapping[str, bool | int | float | str]) -> None:
    """Refuse options that the policy does not have, and values that they do not take: PlanError, one sentence."""
    known = {o.name: o for o in policy.options}
    for name, value in options.items():
        field = f"policy.options.{name}"
        if name not in known:
            raise PlanError(unknown(f"policy.options, an option of {policy.id},", name, list(known)))
        option = known[name]
        shown = repr(value)[:60]
        if option.type == "bool" and not isinstance(value, bool):
            raise PlanError(f"{field} is {shown}; it takes true or false.")
        if option.type == "choice" and value not in option.choices:
            raise PlanError(f"{field} is {shown}; it takes one of {', '.join(option.choices)}.")
        if option.type == "text" and not isinstance(value, str):
            raise PlanError(f"{field} is {shown}; it takes text.")
        if option.type in ("int", "float"):
            _check_number(field, option, value, shown)


def _check_number(field: str, option: Option, value: bool | int | float | str, shown: str) -> None:
    low = -math.inf if option.low is None else option.low
    high = math.inf if option.high is None else option.high
    whole = option.type == "int"
    number = isinstance(value, int | float) and not isinstance(value, bool) and (not whole or value == int(value))
    if not number or not low <= float(value) <= high:
        kind = "a whole number" if whole else "a number"
        raise PlanError(f"{field} is {shown}; it takes {kind} from {low:g} to {high:g}.")
