"""What a simulation is asked and what it answers: frozen records, exact through JSON."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from planner.layout.predictor import ALPHA
from planner.result import ClassReport, Record
from planner.routing.drift import DRIFT_SHARE, STEP_CORRELATION

MARGIN: Final = 0.001
"""Assumed. On DeepSeek-V2 at batch 512 steps are within 0.5 % of the fastest from 0 to 0.002, and 0.001 moves half the
bytes of 0; at 0.01 layouts follow the load too late, for 5 %."""

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class SimulationOptions(Record):
    """How a simulation runs; everything else comes from the scenario."""

    prefetch: bool = Field(True, description="copy predicted-hot experts into HBM")
    relayout: bool = Field(True, description="move experts between striped (CPU) and localised (one DIMM)")
    rebalance: bool = Field(True, description="move localised experts from full DIMMs to empty ones")
    cpu: bool = Field(True, description="the CPU computes experts; off = none is striped, none runs there")
    ndp: bool = Field(True, description="the DIMMs compute experts; off = all are striped")
    start: Literal["greedy", "layout"] | None = Field(
        None, description="first assignment of a step; empty = the scenario's policy option"
    )
    schedule: Literal["published", "improved", "greedy"] | None = Field(
        None,
        description="assignment of a step: the paper's with refinement, near the optimum (some tens of times slower), "
        "or the first assignment without refinement; empty = the scenario's policy option",
    )
    alpha: Share = Field(ALPHA, description="weight of the newest step in the load prediction")
    margin: Share = Field(
        MARGIN, description="least predicted gain of a task, as a share of the predicted time of its layer"
    )
    weigh: bool = Field(
        True, description="move experts of a layer only if its schedule gains more than the transfers cost the DIMMs"
    )
    late: Literal["wait", "charge"] = Field(
        "wait", description="transfers that do not fit into the shadow wait for the next step, or lengthen the step"
    )
    window_s: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = Field(
        None, description="GPU time of a layer that hides transfers, s; empty = attention and shared experts as timed"
    )
    links: Literal["direct", "chain"] = Field(
        "direct", description="DIMM-Link: every DIMM reaches every other at once, or through all DIMMs between them"
    )
    drift_share: Share = Field(DRIFT_SHARE, description="share of the variance of ln(load) that drifts (generated)")
    step_correlation: Share = Field(
        STEP_CORRELATION, description="correlation of the drifting part between consecutive steps (generated)"
    )
    locality: Share = Field(0.0, description="probability that a choice repeats one of an earlier token (generated)")


class Series(Record):
    """One value for each step. Seconds and bytes are of one pass, all layers together."""

    step_s: tuple[float, ...] = Field(description="the whole step")
    experts_s: tuple[float, ...] = Field(description="makespans of the experts, GPU's shared work included")
    gpu_s: tuple[float, ...] = Field(description="GPU: shared and routed experts, waits for PCIe included")
    cpu_s: tuple[float, ...] = Field(description="CPU experts")
    ndp_mean_s: tuple[float, ...] = Field(description="near-data units, mean over DIMMs, reads by others included")
    ndp_max_s: tuple[float, ...] = Field(description="the busiest DIMM of each layer")
    host_s: tuple[float, ...] = Field(description="host memory channels: reads of experts by GPU and CPU")
    gpu_busy: tuple[float, ...] = Field(description="busy share of the step, as in Utilisation; so the next three")
    cpu_busy: tuple[float, ...]
    ndp_busy: tuple[float, ...]
    pcie_busy: tuple[float, ...]
    prefetch_bytes: tuple[float, ...]
    relayout_bytes: tuple[float, ...]
    rebalance_bytes: tuple[float, ...]
    tasks_done: tuple[int, ...]
    tasks_late: tuple[int, ...] = Field(description="tasks that the step left unfinished")
    hidden_s: tuple[float, ...] = Field(description="busiest link's time on transfers within the shadow")
    exposed_s: tuple[float, ...] = Field(
        description="what transfers add to the step: contention on the DIMMs, and time beyond the shadow if charged"
    )
    prediction_error: tuple[float, ...]
    decisions: tuple[int, ...]
    confirmed: tuple[int, ...]


class Utilisation(Record):
    """Busy shares of the whole simulation."""

    gpu: float = Field(description="attention, shared and routed experts, waits for PCIe included")
    gpu_working: float = Field(description="the same without waits for PCIe")
    cpu: float
    ndp: float = Field(description="mean over DIMMs, reads by others included")
    pcie: float
    mean: float = Field(description="mean of gpu, cpu and ndp, of those that take part")


class Simulation(Record):
    """Consecutive decode steps under TriMoE, the layout following the predicted load."""

    scenario_hash: str
    steps: int
    options: SimulationOptions
    source: str = Field(description="what the steps are, in words")
    tokens_per_step: float
    resident_per_layer: int
    window_s: float = Field(description="shadow of GPU work in a step, all layers")
    fixed_s: float = Field(description="part of a step that experts do not change")
    mean_step_s: float
    tokens_per_s: float = Field(description="of the system, output tokens")
    prediction_error: float = Field(description="relative L1, mean over layers and steps")
    decision_accuracy: float | None = Field(
        None, description="share of new prefetches and relayouts that would also gain under the true loads of the step"
    )
    decisions: int
    bytes_per_step: dict[str, float] = Field(description="prefetch, relayout, rebalance: mean bytes of a step")
    tasks_done: int
    tasks_late_mean: float = Field(description="tasks left unfinished by a step, mean")
    hidden_s: float = Field(description="mean of a step")
    exposed_s: float = Field(description="mean of a step")
    exposed_share: float = Field(description="exposed / step")
    moves_per_layer: float = Field(description="moves of the refinement")
    utilisation: Utilisation
    classes: tuple[ClassReport, ...] = Field(description="hot, warm and cold under several definitions")
    series: Series
    warnings: tuple[str, ...] = ()


class AblationRow(Record):
    """One more mechanism than in the row before."""

    name: str
    what: str
    mean_step_s: float
    tokens_per_s: float
    ratio: float | None = Field(None, description="tokens/s over those of the row before")
    published: float | None = Field(None, description="the same ratio as published (second-hand)")
