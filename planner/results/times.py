"""Where the time of a pass goes, and what clients see of it."""

from __future__ import annotations

from pydantic import Field

from planner.results.base import Bound, Lane, PartId, Record


class StepPart(Record):
    """One kind of work in a step. busy >= exposed; the exposed parts add up to the step."""

    part: PartId
    lane: Lane
    busy_s: float
    exposed_s: float


class Domain(Record):
    """One lane or resource over the whole step."""

    id: str
    name: str
    busy_s: float
    busy_share: float
    flop_share: float | None = Field(
        None, description="FLOP done / FLOP possible at peak in the step; None if it computes nothing"
    )
    bytes: float | None = Field(None, description="bytes moved in one step")
    byte_share: float | None = Field(None, description="bytes moved / bytes possible at peak in the step")
    achieved_share: float | None = Field(
        None, description="bytes moved / bytes that the resource achieves in the step; never above 1"
    )


class Step(Record):
    """Where the time of one pass goes, mean over sampled steps and over the contexts of the output tokens."""

    total_s: float
    standard_error_s: float
    p99_s: float
    samples: int
    yields: float = Field(1.0, description="tokens that a pass yields per sequence; all times are per yielded token")
    tokens: int = Field(description="tokens computed in the pass")
    parts: tuple[StepPart, ...]
    domains: tuple[Domain, ...]
    bound_by: Bound
    bound_shares: dict[str, float] = Field(description="share of the exposed time by resource; adds up to 1")
    fixed_s: float = Field(description="launch, synchronisation and latency: the part that faster rates do not shorten")
    byte_floor_s: float = Field(description="bytes that must be read / peak bandwidth, of the slowest tier")
    flop_floor_s: float = Field(description="FLOP that must be done / peak rate, of the slowest device")


class Prefill(Record):
    step: Step
    mode: str
    tokens_per_pass: int
    passes_per_prompt: int
    prompt_s: float = Field(description="time of one prompt's prefill alone on the machine")
    alternatives: dict[str, float | None] = Field(description="mode -> seconds for one prompt, None where impossible")


class ServedReport(Record):
    """TTFT and TPOT as clients see them who each send their next request when the last one ends (a closed loop)."""

    clients: int = Field(description="as many as the batch")
    requests: int = Field(description="played; lengths from 80 to 100 % of the largest, the stated ones in the mean")
    ttft_s: float = Field(description="mean; waits for the prompts of others included")
    ttft_median_s: float
    ttft_p99_s: float
    tpot_s: float | None = Field(
        None, description="mean; prefill passes of others included. None for an output of one token"
    )
    running: float = Field(description="requests that decode at once, mean")
    measured: bool = Field(description="held against served runs of this kind (all experts in HBM)")


class BoundReport(Record):
    """Lower bound on the decode step: no placement and no policy on this machine is faster under this routing.

    For a policy that skips or exchanges experts it counts the work that is computed, and says so.
    """

    step_s: float
    limited_by: str
    share: float = Field(description="bound / this plan's step")
    sentence: str
    computed_share: float = Field(1.0, description="token-expert pairs that the policy computes / pairs routed")
    exchanged_share: float = Field(0.0, description="share of the routed pairs that other experts compute instead")
