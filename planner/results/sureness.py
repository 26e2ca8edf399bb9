"""What the figures rest on, and how far they hold."""

from __future__ import annotations

from pydantic import Field

from planner.results.base import Interval, Record


class Assumption(Record):
    path: str
    label: str
    value: float | str
    unit: str
    low: float | None = None
    high: float | None = None
    source: str
    date: str | None = None
    kind: str
    edited: bool = False
    moves_tpot: Interval | None = Field(None, description="relative change of TPOT at low and at high")
    moves_cost: Interval | None = Field(None, description="relative change of USD per output token at low and at high")


class Marginal(Record):
    """What one more unit of a resource would give."""

    resource: str
    unit: str = Field(description="the one more unit, in words")
    tpot_change: float = Field(description="relative, negative is faster")
    tokens_per_s_system_change: float = Field(description="relative")
    usd_change: float | None = Field(None, description="of USD per output token, relative")


class AccuracyPart(Record):
    """How sure one headline figure is: what was measured of its kind, and what the inputs' ranges make of it."""

    key: str = Field(description="name of the headline figure")
    phase: str = Field(description="phase of the measured runs: decode, prefill or e2e")
    level: str | None = Field(None, description="runs used: family, phase, regime or all; None where none was measured")
    rows: int = 0
    groups: int = Field(0, description="machines or experiments that the runs come from")
    median_error: float | None = Field(None, description="of these runs, absolute, each machine held out")
    measured: Interval | None = Field(None, description="80 % interval from these runs alone")
    inputs: Interval | None = Field(None, description="80 % interval from the ranges of the inputs alone")
    dominated_by: str = Field(description="measured accuracy, or the input that widens it most, in words")


class Neighbour(Record):
    """A measured run near the open scenario."""

    id: str
    label: str
    distance: float = Field(description="root mean square of ln of the ratios of their shapes")
    measured_tokens_per_s: float
    predicted_tokens_per_s: float = Field(description="without its own machine in the fit")
    per: str
    phase: str


class NextMeasurement(Record):
    """A measurement that would narrow the interval of TPOT, and to what."""

    what: str
    minutes: float
    half_width_now: float = Field(description="relative, of the 80 % interval")
    half_width_then: float


class AccuracyReport(Record):
    """What the intervals of a plan rest on."""

    regime: str | None = Field(description="kind of the measured runs; None where no silicon was measured")
    in_validated_range: bool
    beyond: tuple[str, ...] = Field((), description="what of this plan lies outside what was measured, in words")
    parts: tuple[AccuracyPart, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    next_measurements: tuple[NextMeasurement, ...] = ()
    sentence: str
