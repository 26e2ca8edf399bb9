"""What clients in a closed loop would measure, in words: short beside a figure, whole below the step."""

from __future__ import annotations

from planner.result import Result, ServedReport
from planner.words.formats import count, seconds


def _shown(result: Result) -> ServedReport | None:
    """The record where it says more than the headline: somebody else's prompts come in between."""
    return result.served if result.served is not None and result.served.clients > 1 else None


def first_token(result: Result) -> str:
    """Beside TTFT; empty where there is nothing to add."""
    served = _shown(result)
    return "" if served is None else f"as served to {count(served.clients)} clients: {seconds(served.ttft_s)}"


def per_token(result: Result) -> str:
    """Beside TPOT; empty where there is nothing to add."""
    served = _shown(result)
    if served is None or served.tpot_s is None:
        return ""
    return f"as served to {count(served.clients)} clients: {seconds(served.tpot_s)}"


def sentence(result: Result) -> str:
    """All of it; empty where there is nothing to add."""
    served = _shown(result)
    if served is None:
        return ""
    per = "" if served.tpot_s is None else f" and {seconds(served.tpot_s)} per further token"
    basis = (
        "held against served runs on H100 and H200"
        if served.measured
        else "with this plan's passes; nothing of this kind was measured"
    )
    return (
        f"As served at this concurrency, {count(served.clients)} clients who each send their next request when the "
        f"last one ends: {seconds(served.ttft_s)} to the first token (P99 {seconds(served.ttft_p99_s)}){per}, in the "
        f"mean; prompts of others stand between the steps. Closed loop, {basis}."
    )
