"""What only some policies have to tell."""

from __future__ import annotations

from pydantic import Field

from planner.results.base import Record


class SelectorReport(Record):
    """Bit-width selection of a plan: what was asked, what was chosen, what the restriction costs."""

    method: str
    weighted: bool = Field(description="losses weighted by importance")
    budget_bits: float
    scope: str = Field(description="per layer, or one budget over all layers")
    loss: float = Field(description="sum over layers and experts of the chosen losses")
    optimum_loss: float = Field(description="least loss under the same budget (dynamic programme)")
    left_on_the_table: float = Field(description="loss / optimum - 1")
    counts: tuple[tuple[int, int, int, int], ...] = Field(description="by layer: experts at 4, 3, 2 and 1 bit")
    loss_source: str
    surrogate: bool


class ScheduleReport(Record):
    """Assignment to compute domains: what the published refinement leaves, per step, all layers together."""

    mode: str
    published_s: float = Field(description="makespans of all layers of one sampled step, scheduled as published")
    improved_s: float = Field(description="the same under the improved schedule")
    used_s: float = Field(description="under the schedule that this plan uses")
    lower_bound_s: float | None = Field(None, description="proven: no assignment to this layout is faster")
    gap: float | None = Field(None, description="used / lower bound - 1")
    moves_per_layer: float


class CacheReport(Record):
    """A history-dependent cache of experts, simulated on the ordered steps."""

    name: str
    slots_per_layer: float
    hit_rate: float = Field(description="share of the expert reads of a step that are found in HBM")
    warm_up_steps: int
    steps: int
    bytes_per_step: float = Field(description="moved into HBM on misses")


class ClassReport(Record):
    """Shares of experts and of tokens in one class under one definition."""

    definition: str
    name: str
    expert_share: float
    token_share: float
    supported: bool = Field(description="False: a definition that its source does not support")


class QualityReport(Record):
    """Predicted change of accuracy, a surrogate."""

    points: float | None = Field(description="change of the mean accuracy in points; None where unknown")
    low: float | None
    high: float | None
    inside: bool = Field(description="within what the surrogate was fitted on")
    sentence: str


class MigrationReport(Record):
    """Hot-set migration of one sequence or batch."""

    bytes: float
    fill_s: float
    hidden_s: float
    exposed_s: float


class FailureReport(Record):
    """An NDP unit that fails: the step before, during rebuild and after, and what the rebuild takes."""

    response: str = Field(description="hot-spare or re-homing")
    unit: int
    source: str = Field(description="where the experts are read again: dimm, copy or storage")
    experts: int = Field(description="experts that lie on the failed unit, all layers")
    bytes: float = Field(description="read again")
    bytes_per_s: float = Field(description="at which they come back")
    recover_s: float
    before_s: float = Field(description="decode step per output token")
    during_s: float | None = Field(description="the same as rebuild begins; None where no step runs")
    after_s: float


class Details(Record):
    """What only some policies have to tell."""

    selector: SelectorReport | None = None
    schedule: ScheduleReport | None = None
    caches: tuple[CacheReport, ...] = ()
    classes: tuple[ClassReport, ...] = ()
    quality: QualityReport | None = None
    migration: MigrationReport | None = None
    failure: FailureReport | None = None
    facts: tuple[tuple[str, str], ...] = Field((), description="label and sentence of further facts")
