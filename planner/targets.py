"""Whether a plan meets the targets of its workload: the one rule for sweeps, briefs and whoever ranks."""

from __future__ import annotations

from planner.scenario import Workload


def meets(workload: Workload, ttft_s: float | None, tpot_s: float | None) -> bool | None:
    """Whether both targets are met; None where none is set, or where there is no figure for one that is."""
    pairs = [(workload.slo_ttft_s, ttft_s), (workload.slo_tpot_s, tpot_s)]
    stated = [(target, value) for target, value in pairs if target is not None]
    if not stated or any(value is None for _, value in stated):
        return None
    return all(value is not None and value <= target for target, value in stated)
