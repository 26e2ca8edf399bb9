"""Tierline's engine: where every expert of a Mixture-of-Experts model lives, and what that gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planner import kernel_cache

kernel_cache.choose(Path(__file__).parent)

if TYPE_CHECKING:
    from planner.planning import plan
    from planner.result import Result
    from planner.scenario import Scenario
    from planner.stamp import catalog_digest

__all__ = ["ENGINE_VERSION", "Result", "Scenario", "catalog_digest", "plan"]

ENGINE_VERSION = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the engine when it is first used: lists and help on the command line do without it."""
    if name == "plan":
        from planner.planning import plan

        return plan
    if name == "catalog_digest":
        from planner.stamp import catalog_digest

        return catalog_digest
    if name == "Result":
        from planner.result import Result

        return Result
    if name == "Scenario":
        from planner.scenario import Scenario

        return Scenario
    raise AttributeError(f"module 'planner' has no attribute {name!r}")
