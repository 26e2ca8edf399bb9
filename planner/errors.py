"""Errors that a person can act on."""

from __future__ import annotations


class PlanError(ValueError):
    """Bad input to the planner. The message is one clear sentence: field, value, what is accepted."""
