"""What a plan can be refused with: each of these errors is one sentence for the person who asked."""

from __future__ import annotations

from typing import Final

from hardware import HardwareError
from models import ModelError
from planner.errors import PlanError
from planner.routing import RoutingError

REFUSALS: Final = (PlanError, ModelError, HardwareError, RoutingError)
"""what :func:`planner.plan` and :func:`planner.evaluate.evaluate` raise for input that they cannot take"""
