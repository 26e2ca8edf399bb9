"""What :func:`planner.plan` answers: everything that a page, an export, a link or the command line shows.

Immutable, schema-versioned, exact through JSON. SI units; a name ends with its unit. Arrays over
``[MoE layer, expert]`` are tuples of tuples in that order.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from planner.scenario import Scenario

SCHEMA_VERSION: Final = 1

Interval = tuple[float, float]
Bound = Literal[
    "gpu_compute", "hbm", "cpu_compute", "dram", "ndp_compute", "ndp_memory", "link", "collective", "overhead"
]
TierId = Literal["gpu", "host", "dimm_ndp", "cxl_ndp", "streamed", "nvme"]
PartId = Literal[
    "attention", "dense_shared", "routed_gpu", "routed_cpu", "routed_ndp", "link", "collective", "overhead"
]
Lane = Literal["gpu", "cpu", "dram", "ndp", "link", "cxl_link", "network", "overhead"]

TIERS: tuple[TierId, ...] = ("gpu", "host", "dimm_ndp", "cxl_ndp", "streamed", "nvme")


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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


class ModelSummary(Record):
    id: str
    name: str
    parameters_total: int
    parameters_main: int
    parameters_active: int
    layers: int
    moe_layers: int
    experts: int
    top_k: int
    shared_experts: int
    expert_parameters: int
    native_format: str
    kv_bytes_per_token: float = Field(description="at the scenario's KV format, all layers, short context")
    sentence: str = Field(
        description="for example: 236 B parameters, 21 B active per token; 59 MoE layers x 160 experts"
    )


class SystemSummary(Record):
    id: str
    name: str
    sentence: str
    nodes: int
    gpus: int
    as_published: bool
    edited: tuple[str, ...] = Field((), description="paths of the figures that the user changed")
    findings: tuple[str, ...] = Field((), description="what is not possible or unusual about this bill of materials")


class PolicySummary(Record):
    id: str
    name: str
    sentence: str = Field(description="what this policy does in this plan, in words")
    kv_location: str
    attention_device: str
    prefill: str
    gpu_format: str
    expert_format: str
    parallelism: str
    gpu_experts_per_layer: float = Field(description="mean number of routed experts of a layer resident in HBM")
    source: str
    notes: tuple[str, ...] = ()


class PlacementClass(Record):
    """All experts that live in one tier at one width."""

    tier: TierId
    bits: float
    format: str
    experts: int
    token_share: float
    why: str


class Placement(Record):
    layers: tuple[int, ...] = Field(description="index of each MoE layer in the model")
    tier: tuple[tuple[int, ...], ...] = Field(description="[layer][expert] index into TIERS of where the expert lives")
    bits: tuple[tuple[float, ...], ...] = Field(description="[layer][expert] bits per weight, scales excluded")
    load: tuple[tuple[float, ...], ...] = Field(description="[layer][expert] mean tokens per decode step (timed part)")
    learned: tuple[tuple[float, ...], ...] = Field(
        description="[layer][expert] share of load that placement was learnt on"
    )
    klass: tuple[tuple[int, ...], ...] = Field(description="[layer][expert] index into classes")
    classes: tuple[PlacementClass, ...]
    learned_on: str = Field(description="which tokens the placement was learnt on and which it was timed on")
    distinct_experts_per_layer: float = Field(description="mean number of distinct experts hit in one pass")
    tokens_per_pass: int


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


class MemoryItem(Record):
    name: str
    bytes: float


class MemoryTier(Record):
    tier: str
    name: str
    devices: int
    capacity_bytes: float = Field(description="all devices together")
    items: tuple[MemoryItem, ...] = Field(description="all devices together")
    used_bytes: float
    free_bytes: float = Field(description="negative when it does not fit; on the fullest device times the devices")
    fullest_device_bytes: float
    device_capacity_bytes: float


class Change(Record):
    """A change of the scenario that makes it fit (or the marginal one more unit)."""

    text: str
    set: dict[str, bool | int | float | str | dict[str, bool | int | float | str] | None]
    fits: bool
    tier_used_bytes: float | None = None
    tier_capacity_bytes: float | None = None
    tpot_s: float | None = None
    tokens_per_s_system: float | None = None
    usd_per_million_output_tokens: float | None = None


class Memory(Record):
    tiers: tuple[MemoryTier, ...]
    first_unfit: str | None = Field(None, description="the first thing that does not fit, in words")
    largest_batch: int = Field(description="largest batch that fits at this context; 0 if none")
    largest_context_tokens: int = Field(description="largest prompt + output that fits at this batch; 0 if none")
    changes: tuple[Change, ...] = ()


class Share(Record):
    """One part of a total: of energy, money or power."""

    id: str
    name: str
    value: float


class Energy(Record):
    by_device: tuple[Share, ...] = Field(description="J per output token at the wall; adds up to the headline")
    by_movement: tuple[Share, ...] = Field(
        description="static, compute, HBM, DRAM, link; J per output token at the wall, same total"
    )
    j_per_output_token: float
    j_per_input_token: float
    average_w: float = Field(description="one system, at the wall, PUE excluded, while decoding")
    peak_w: float
    kwh_per_month: float = Field(description="one system at its busy share, PUE included")
    gco2e_per_million_output_tokens: float = Field(description="PUE included")
    idle_w: float | None = Field(None, description="one system that waits, at the wall, PUE excluded")


class Cost(Record):
    mode: str
    capex_usd: float | None = Field(None, description="one system; None when rented")
    bill_of_materials: tuple[Share, ...] = Field((), description="USD by part of the system; adds up to capex")
    by_part: tuple[Share, ...] = Field(description="USD per million output tokens; adds up to the headline")
    usd_per_hour: float = Field(description="one system, busy or not")
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    usd_per_month_one_system: float
    machine_s_per_output_token: float | None = Field(
        None, description="seconds of the whole system that one output token occupies, and pays for"
    )
    machine_s_per_input_token: float | None = Field(None, description="the same for one prompt token")


class Capacity(Record):
    """Capacity arithmetic: no queueing is modelled."""

    load_requests_per_s: float | None
    system_requests_per_s: float = Field(description="one system, steady mix of prefill and decode, at full use")
    systems_needed: int
    spare_systems: int
    utilisation: float | None = Field(None, description="of the systems needed, spares excluded")
    usd_per_month: float
    average_kw: float = Field(description="all systems, PUE included")
    note: str = "Capacity arithmetic without queueing."


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


class Advice(Record):
    """A known good practice that the scenario departs from."""

    id: str
    text: str = Field(description="what departs and what would be better, in words")
    worth: str = Field("", description="what it is worth in this plan, where that can be told")
    source: str
    certainty: Literal["measured", "datasheet", "published", "rule of thumb"]


class Monitor(Record):
    """A figure to watch once the machine runs, its target, and what this plan predicts for it."""

    id: str
    what: str
    target: str
    predicted: float | None = Field(None, description="share of decode time or of peak; None where not predicted")
    met: bool | None = Field(
        None, description="whether the prediction meets the target; None where they differ in kind"
    )
    note: str = ""


class Result(Record):
    schema_version: Literal[1] = SCHEMA_VERSION
    engine_version: str
    catalog_digest: str
    scenario_hash: str
    scenario: Scenario
    headline: Headline
    model: ModelSummary
    system: SystemSummary
    policy: PolicySummary
    placement: Placement | None = None
    decode: Step | None = None
    prefill: Prefill | None = None
    served: ServedReport | None = None
    memory: Memory | None = None
    energy: Energy | None = None
    cost: Cost | None = None
    capacity: Capacity | None = None
    assumptions: tuple[Assumption, ...] = ()
    marginals: tuple[Marginal, ...] = ()
    details: Details | None = None
    bound: BoundReport | None = None
    accuracy: AccuracyReport | None = None
    advice: tuple[Advice, ...] = ()
    monitor: tuple[Monitor, ...] = ()
    warnings: tuple[str, ...] = ()
