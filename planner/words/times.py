"""Moments as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(at: datetime) -> str:
    """Date and minute in UTC."""
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
