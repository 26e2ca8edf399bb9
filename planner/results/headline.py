"""The figures that decisions are made on."""

from __future__ import annotations

from planner.results.base import Bound, Interval, Record


class Headline(Record):
    """The contract of ``plan --json``: the figures that decisions are made on. None when the plan does not fit."""

    fits: bool
    reasons: tuple[str, ...] = ()
    ttft_s: float | None = None
    tpot_s: float | None = None
    tokens_per_s_user: float | None = None
    tokens_per_s_system: float | None = None
    tokens_per_s_end_to_end: float | None = None
    prefill_tokens_per_s: float | None = None
    energy_j_per_output_token: float | None = None
    usd_per_million_input_tokens: float | None = None
    usd_per_million_output_tokens: float | None = None
    usd_per_month: float | None = None
    systems_needed: int | None = None
    bound_by: Bound | None = None
    intervals: dict[str, Interval] | None = None
