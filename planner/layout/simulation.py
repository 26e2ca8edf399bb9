"""TriMoE over hundreds of decode steps: predict, move experts in the shadow of GPU work, schedule, time.

In step t the layout is what the transfers before it made of it, decided on the loads up to step t - 1 and run within
the GPU time of one step. The step is timed by the costs of :mod:`planner.policies.trimoe_costs` and the published
scheduler; the rank time of the transfers is added to each DIMM afterwards, in all layers in proportion to their
shadows, as if none of it fell into the time in which the DIMMs have nothing to compute. With all background work off
this is the step of :func:`planner.plan` for the same tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.context import Context, resolve
from planner.deal import deal
from planner.devices import Dram, Gpu, Ndp
from planner.errors import PlanError
from planner.layout.assign import predicted_makespan_s, schedule
from planner.layout.classes import classes
from planner.layout.decide import confirmed, decide
from planner.layout.predictor import next_average, prediction_error
from planner.layout.records import Series, Simulation, SimulationOptions, Utilisation
from planner.layout.state import IDLE, REBALANCE, Sizes, begin
from planner.layout.tasks import Moved, Rates, empty_moved, run_tasks
from planner.layout.worth import charge_s, keep, layout_after, new_tasks
from planner.physics.operation import Array, phase_times
from planner.policies import check_options, get
from planner.policies.base import Placed, Prepared
from planner.policies.near_data import host_read_rate
from planner.policies.trimoe import TriMoe
from planner.policies.trimoe_costs import expected_costs, expert_costs
from planner.policies.trimoe_futures import refuse_for_simulation
from planner.routing import RoutingState, Sequence, automatic_steps, routing_sequence, routing_state
from planner.scenario import Scenario
from planner.step import Pass

DEFAULT_STEPS = 256


@dataclass(frozen=True)
class Setting:
    """Everything that stays the same over the steps."""

    ctx: Context
    policy: TriMoe
    ready: Prepared
    routing: RoutingState  # what placement was learnt on
    placed: Placed  # the layout that the first step finds
    first_load: Array  # [layers, experts], predicted tokens of the first step, from the offline profile
    frame: Frame
    sizes: Sizes
    rates: Rates
    free_s: Array
    options: SimulationOptions


@dataclass(frozen=True)
class Frame:
    """What surrounds the experts in a pass, s."""

    fixed_s: float  # phases other than the experts', all layers
    base_s: Array  # [moe_layers], GPU beside the routed experts
    gpu_s: float  # GPU-busy part of fixed_s
    cpu_s: float
    link_s: float
    factor: float  # time of a step in passes
    shadow_s: Array  # [moe_layers], share of the shadow that each MoE layer is given
    window_s: float  # shadow of a pass, all layers
    link_busy_s: float  # PCIe and host channels while the shadow lasts
    dram_busy_s: float


def simulate(
    scenario: Scenario,
    steps: int = DEFAULT_STEPS,
    options: SimulationOptions | None = None,
    sequence: Sequence | None = None,
) -> Simulation:
    """Simulate ``steps`` consecutive decode steps of a scenario whose policy is trimoe.

    sequence: the loads of the steps, else :func:`planner.layout.simulation.loads`. Raises PlanError, ModelError,
    HardwareError or RoutingError, each one sentence.
    """
    setting = prepare(scenario, options or SimulationOptions())
    found = sequence if sequence is not None else loads(scenario, steps, setting.options, setting)
    return Run(setting, found).result()


def loads(
    scenario: Scenario, steps: int, options: SimulationOptions | None = None, setting: Setting | None = None
) -> Sequence:
    """The ordered decode steps of a scenario: generated with the drift of ``options``, or from its trace."""
    options = options or SimulationOptions()
    setting = setting or prepare(scenario, options)
    ctx = setting.ctx
    passes = max(1, round(scenario.workload.output_tokens / ctx.accepted_per_pass))
    return routing_sequence(
        scenario.routing, ctx.arch.id, ctx.moe_layers, ctx.experts, ctx.top_k,
        setting.policy.sequences_per_pass(ctx, setting.ready.layout), ctx.tokens_per_sequence, steps,
        options.drift_share, options.step_correlation, options.locality, passes,
    )  # fmt: skip


def prepare(scenario: Scenario, options: SimulationOptions) -> Setting:
    """Resolve, place and size a scenario. Raises PlanError if it is not for TriMoE or does not fit."""
    policy = get(scenario.policy.id)
    if not isinstance(policy, TriMoe):
        raise PlanError(f"policy.id is '{scenario.policy.id}'; a simulation over steps needs 'trimoe'.")
    check_options(policy, scenario.policy.options)
    if not options.cpu and not options.ndp:
        raise PlanError("cpu and ndp are both off; at least one of them must compute experts.")
    ctx = resolve(scenario)
    missing = policy.missing(ctx.machine)
    if missing:
        raise PlanError(f"{policy.name} needs {' and '.join(missing)}; this system has none.")
    refuse_for_simulation(ctx)
    policy.check(ctx)
    ready = policy.prepare(ctx)
    for tier in ready.ledger:
        if tier.short_bytes > 0:
            raise PlanError(
                f"The plan does not fit, so its steps cannot be simulated: {tier.name} lacks "
                f"{tier.short_bytes * tier.devices / 1e9:,.1f} GB."
            )
    w, sequences = scenario.workload, policy.sequences_per_pass(ctx, ready.layout)
    routing = routing_state(
        scenario.routing, ctx.arch.id, ctx.moe_layers, ctx.experts, ctx.top_k, sequences, ctx.tokens_per_sequence,
        w.prompt_tokens, min(ctx.chunk_tokens, ctx.new_prompt_tokens * w.batch),
        scenario.routing.steps or automatic_steps(sequences, ctx.moe_layers, ctx.experts),
    )  # fmt: skip
    placed = policy.place(ctx, ready, routing)
    share = routing.profile / np.maximum(routing.profile.sum(axis=1, keepdims=True), 1e-30)
    first = np.minimum(share * routing.tokens_per_pass * ctx.top_k, routing.tokens_per_pass)
    placed = _without(ctx, placed, first, options)
    sizes = _sizes(ctx, ready, placed)
    frame = _frame(ctx, policy, ready, routing.counts[:1], options)
    rates = _rates(ctx, options)
    free = np.full(2 * sizes.dimms + rates.channels + 1, frame.window_s)
    free[2 * sizes.dimms : -1] = max(frame.window_s - frame.dram_busy_s, 0.0)
    free[-1] = max(frame.window_s - frame.link_busy_s, 0.0)
    return Setting(ctx, policy, ready, routing, placed, first, frame, sizes, rates, free, options)


def _parts(ctx: Context) -> tuple[Gpu, Dram, Ndp]:
    gpu, dram, ndp = ctx.machine.gpu, ctx.machine.dram, ctx.machine.dimm_ndp
    assert gpu is not None and dram is not None and ndp is not None
    return gpu, dram, ndp


def _without(ctx: Context, placed: Placed, load: Array, options: SimulationOptions) -> Placed:
    """The layout for a machine in which CPU or DIMMs compute nothing."""
    ndp = _parts(ctx)[2]
    if not options.ndp:
        return replace(placed, home=np.full(placed.home.shape, -1, np.int16))
    if not options.cpu:
        near = expected_costs(ctx, load, placed.stored)[2]
        return replace(placed, home=deal(np.where(placed.resident, -1.0, near), ndp.units))
    return placed


def _sizes(ctx: Context, ready: Prepared, placed: Placed) -> Sizes:
    """Room for experts on a DIMM: its share of what the ledger leaves beside everything else."""
    ndp = _parts(ctx)[2]
    host = ready.ledger[1]
    each = np.ascontiguousarray(np.broadcast_to(placed.stored.bytes, placed.home.shape), float)
    room = (float(each.sum()) + max(-host.short_bytes, 0.0) / host.devices) / ndp.units
    sizes = Sizes(each, float(ctx.gpu_width.expert_bytes), ready.resident_per_layer, room, ndp.units)
    fullest = float(begin(placed.resident, placed.home, sizes).held.max())
    return sizes._replace(dimm_bytes=max(room, fullest))


def _rates(ctx: Context, options: SimulationOptions) -> Rates:
    _, dram, ndp = _parts(ctx)
    link = ctx.machine.figures.get("dimm_link.bandwidth_bytes_per_s")
    moving = options.ndp and ((options.relayout and options.cpu) or options.rebalance)
    if link is None and moving:
        raise PlanError(
            "dimm_link.bandwidth_bytes_per_s is not known for this system, and experts move between DIMMs over that "
            "link; give it as an override, or switch relayout and rebalance off."
        )
    return Rates(
        link=link or 1.0,
        pcie=ctx.machine.host_to_gpus_bytes_per_s,
        channel=dram.channel_bandwidth_bytes_per_s,
        channels=max(dram.channels, 1),
        rank=ndp.rank_bandwidth_bytes_per_s,
        host_read=host_read_rate(ctx, "dimm_ndp"),
        chain=options.links == "chain",
    )


def _frame(ctx: Context, policy: TriMoe, ready: Prepared, counts: np.ndarray, options: SimulationOptions) -> Frame:
    run, experts, base = policy.begin(ctx, ready, counts)
    before = list(run.phases)
    dense = np.broadcast_to(phase_times(experts).total.mean(axis=(0, 1)), (ctx.layers,))
    elsewhere = float(dense.sum() - dense[ctx.moe].sum())  # the phase of the experts in layers without any
    policy.finish(ctx, ready, run)
    fixed = sum(float(phase_times(p).total.mean(axis=(0, 1)).sum()) for p in run.phases if p is not experts)
    lanes = _lanes(run, experts)
    shadow = np.zeros(ctx.layers)
    busy = {"link": 0.0, "dram": 0.0}
    for phase in before:
        for piece in phase.pieces:
            seconds = np.broadcast_to(piece.seconds.mean(axis=(0, 1)), (ctx.layers,))
            if piece.lane == "gpu":
                shadow = shadow + seconds
            elif piece.lane in busy and phase.name == "attention":
                busy[piece.lane] += float(seconds.sum())
    of_layers = shadow[ctx.moe]
    window = float(shadow.sum())
    if options.window_s is not None:
        window = options.window_s * ctx.moe_layers
    total = float(of_layers.sum())
    return Frame(
        fixed_s=fixed + elsewhere,
        base_s=base,
        gpu_s=lanes.get("gpu", 0.0) + elsewhere,
        cpu_s=lanes.get("cpu", 0.0),
        link_s=lanes.get("link", 0.0),
        factor=run.repeats / ctx.accepted_per_pass,
        shadow_s=of_layers / total if total > 0 else np.full(ctx.moe_layers, 1.0 / ctx.moe_layers),
        window_s=window,
        link_busy_s=busy["link"],
        dram_busy_s=busy["dram"],
    )


def _lanes(run: Pass, experts: object) -> Mapping[str, float]:
    """Busy seconds of each lane outside the phase of the experts."""
    found: dict[str, float] = {}
    for phase in run.phases:
        if phase is not experts:
            for piece, busy in phase_times(phase).busy:
                found[piece.lane] = found.get(piece.lane, 0.0) + busy
    return found


class Run:
    """The loop over steps."""

    def __init__(self, setting: Setting, sequence: Sequence) -> None:
        self.s, self.sequence = setting, sequence
        counts = sequence.counts
        shape = setting.placed.home.shape
        if counts.ndim != 3 or counts.shape[1:] != shape:
            raise PlanError(f"the sequence has layers and experts {counts.shape[1:]}; this model has {shape}.")
        self.state = begin(setting.placed.resident, setting.placed.home, setting.sizes)
        self.moved: Moved = empty_moved(setting.sizes, setting.rates)
        self.rows: dict[str, list[float]] = {name: [] for name in Series.model_fields}
        self.waits_s = 0.0
        self.moves = 0
        self.domain = np.empty(counts.shape, np.int8)
        ndp = setting.options.ndp
        relayout = setting.options.relayout and setting.options.cpu and ndp
        self.switches = (setting.options.prefetch, relayout, setting.options.rebalance and ndp)
        self._simulate(setting.first_load)

    def _simulate(self, average: Array) -> None:
        s = self.s
        for step in range(self.sequence.counts.shape[0]):
            counts = self.sequence.counts[step : step + 1]
            fresh = None
            if step and any(self.switches):
                cost = np.ascontiguousarray(np.stack(expected_costs(s.ctx, average, s.placed.stored), axis=-1))
                fresh = decide(self.state, s.sizes, average, cost, s.frame.base_s, s.options.margin, *self.switches)
                if s.options.weigh:
                    self._weigh(average, fresh)
            placed = replace(s.placed, home=self.state.home, resident=self.state.resident)
            self._judge(counts, placed, fresh)
            charged = 0.0
            if fresh is not None:
                run_tasks(self.state, s.sizes, s.rates, s.free_s, self.moved, s.options.late == "charge")
                charged = max(float((self.moved.used - s.free_s).max()), 0.0) if s.options.late == "charge" else 0.0
            self.domain[step] = self._time(counts, placed, charged)
            self.rows["prediction_error"].append(prediction_error(average, counts[0]))
            average = next_average(average, counts[0], s.options.alpha)

    def _weigh(self, average: Array, fresh: np.ndarray) -> None:
        """Take back the new tasks of the layers that they do not make faster by what they cost."""
        s, state = self.s, self.state
        new = new_tasks(state)
        if not new.any():
            return
        without, after = (
            predicted_makespan_s(s.ctx, s.placed, *layout_after(state, tasks), average, s.frame.base_s, s.options)
            for tasks in ((state.kind != IDLE) & ~new, state.kind != IDLE)
        )
        keep(state, s.sizes, fresh, without, after, charge_s(state, s.sizes, s.rates, new), s.options.alpha)

    def _judge(self, counts: np.ndarray, placed: Placed, fresh: np.ndarray | None) -> None:
        """Prefetches and relayouts decided for this step, and how many its true loads confirm."""
        decided = right = 0
        if fresh is not None:
            judged = np.where(fresh == REBALANCE, IDLE, fresh).astype(np.int8)
            decided = int((judged != IDLE).sum())
            if decided:
                costs = expert_costs(self.s.ctx, replace(placed, home=np.full_like(placed.home, -1)), counts)
                true = [costs["hot"].seconds, costs["cpu"].seconds, costs["ndp"].seconds]
                cost = np.ascontiguousarray(np.stack(true, axis=-1)[0])
                right = confirmed(self.state, cost, self.s.frame.base_s, judged)
        self.rows["decisions"].append(decided)
        self.rows["confirmed"].append(right)

    def _time(self, counts: np.ndarray, placed: Placed, charged: float) -> np.ndarray:
        """Time one step and note what it took; returns the domain of every expert."""
        s, rows, frame = self.s, self.rows, self.s.frame
        costs = expert_costs(s.ctx, placed, counts)
        plan = schedule(s.ctx, placed, counts, costs, frame.base_s, s.options)
        added = self.moved.rank_s * frame.shadow_s[:, None]
        near = plan.ndp_s + added
        makespan = np.maximum(plan.makespan_s, near.max(axis=1))
        contention = float((makespan - plan.makespan_s).sum())
        rows["experts_s"].append(float(makespan.sum()))
        rows["step_s"].append((frame.fixed_s + float(makespan.sum()) + charged) * frame.factor)
        for name, seconds in (
            ("gpu_s", plan.gpu_s), ("cpu_s", plan.cpu_s), ("ndp_mean_s", near.mean(axis=1)),
            ("ndp_max_s", near.max(axis=1)), ("host_s", plan.host_s),
        ):  # fmt: skip
            rows[name].append(float(seconds.sum()))
        prefetch, localise, stripe, rebalance = self.moved.bytes
        rows["prefetch_bytes"].append(float(prefetch))
        rows["relayout_bytes"].append(float(localise + stripe))
        rows["rebalance_bytes"].append(float(rebalance))
        rows["tasks_done"].append(int(self.moved.done.sum()))
        rows["tasks_late"].append(int((self.state.kind != IDLE).sum()))
        rows["hidden_s"].append(float(np.minimum(self.moved.used, s.free_s).max()))
        rows["exposed_s"].append((contention + charged) * frame.factor)
        missed = (plan.domain.reshape(counts.shape) == 0) & ~placed.resident
        self.waits_s += float(np.where(missed, costs["gpu_s"] - costs["fetched"].seconds, 0.0).sum())
        crossed = float(np.where(missed, placed.stored.bytes, 0.0).sum()) + float(prefetch)
        whole = rows["step_s"][-1] / frame.factor
        for name, seconds in (
            ("gpu_busy", frame.gpu_s + rows["gpu_s"][-1]), ("cpu_busy", frame.cpu_s + rows["cpu_s"][-1]),
            ("ndp_busy", rows["ndp_mean_s"][-1]),
            ("pcie_busy", frame.link_s + crossed / s.ctx.machine.host_to_gpus_bytes_per_s),
        ):  # fmt: skip
            rows[name].append(seconds / whole)
        self.moves += int(plan.moves.sum())
        return plan.domain

    def result(self) -> Simulation:
        s, rows, frame = self.s, self.rows, self.s.frame
        ctx, steps = s.ctx, len(self.rows["step_s"])
        mean = {name: float(np.mean(values)) for name, values in rows.items()}
        step, decisions = mean["step_s"], int(sum(rows["decisions"]))
        whole = np.array(rows["step_s"])
        gpu, cpu, ndp, link = (
            float(np.average(rows[f"{name}_busy"], weights=whole)) for name in ("gpu", "cpu", "ndp", "pcie")
        )
        taking_part = [gpu] + [cpu] * s.options.cpu + [ndp] * s.options.ndp
        batch = ctx.scenario.workload.batch
        return Simulation(
            scenario_hash=ctx.scenario.content_hash(),
            steps=steps,
            options=s.options,
            source=self.sequence.source,
            tokens_per_step=float(batch),
            resident_per_layer=s.ready.resident_per_layer,
            window_s=frame.window_s,
            fixed_s=frame.fixed_s,
            mean_step_s=step,
            tokens_per_s=batch / step,
            prediction_error=mean["prediction_error"],
            decision_accuracy=sum(rows["confirmed"]) / decisions if decisions else None,
            decisions=decisions,
            bytes_per_step={name: mean[f"{name}_bytes"] for name in ("prefetch", "relayout", "rebalance")},
            tasks_done=int(sum(rows["tasks_done"])),
            tasks_late_mean=mean["tasks_late"],
            hidden_s=mean["hidden_s"],
            exposed_s=mean["exposed_s"],
            exposed_share=mean["exposed_s"] / step,
            moves_per_layer=self.moves / steps / ctx.moe_layers,
            utilisation=Utilisation(
                gpu=gpu,
                gpu_working=gpu - self.waits_s / steps * frame.factor / step,
                cpu=cpu,
                ndp=ndp,
                pcie=link,
                mean=float(np.mean(taking_part)),
            ),
            classes=classes(self.sequence.counts, self.domain),
            series=Series(**{name: tuple(values) for name, values in rows.items()}),
            warnings=self.sequence.warnings,
        )
