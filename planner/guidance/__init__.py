"""Guidance around a plan: known good practice that it departs from, what to watch in service, example questions."""

from planner.guidance.advice import advice
from planner.guidance.monitor import monitor

__all__ = ["advice", "monitor"]
