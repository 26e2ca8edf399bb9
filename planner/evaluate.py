"""From a scenario to figures: resolve, prepare, place, time, serve, energy and cost. The one path that all share.

:func:`planner.plan` presents an Evaluation as a Result; ranges and marginals evaluate again with other figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import cast

from hardware import System, bill_of_materials
from planner import capacity as capacity_module
from planner import economics as economics_module
from planner import energy as energy_module
from planner.activity import Activity, Mix
from planner.context import CHUNK_TOKENS, Context, machine_parts, resolve
from planner.devices import Figures
from planner.energy import Consumption
from planner.parallel import replicas_at_work
from planner.physics.memory import fits
from planner.policies import check_options, get
from planner.policies.base import Placed, Policy, Prepared
from planner.result import Capacity, Cost, Energy
from planner.routing import RoutingState, automatic_steps, routing_state
from planner.scenario import Scenario
from planner.serving import PrefillTiming, Serving, serve, time_prefill
from planner.step import Flows, Timing, time_pass

MOST_PARTS = 8  # parts of a prompt that are tried before its chunk is the default one
QUICK_STEPS = 4  # sampled decode steps of an evaluation that only serves a comparison


@dataclass(frozen=True)
class Evaluation:
    """Everything that one evaluation found; what needs a plan that fits is None otherwise."""

    ctx: Context
    policy: Policy
    reasons: tuple[str, ...] = ()
    ready: Prepared | None = None
    routing: RoutingState | None = None
    placed: Placed | None = None
    decode: Timing | None = None
    prefill: PrefillTiming | None = None
    serving: Serving | None = None
    drawn: Consumption | None = None
    energy: Energy | None = None
    cost: Cost | None = None
    capacity: Capacity | None = None
    warnings: tuple[str, ...] = field(default=())

    @property
    def fits(self) -> bool:
        return self.serving is not None

    def figures(self) -> dict[str, float]:
        """The headline figures that have ranges, by their names in the contract; empty if the plan does not fit."""
        if self.serving is None or self.energy is None or self.cost is None or self.capacity is None:
            return {}
        s = self.serving
        return {
            "ttft_s": s.ttft_s,
            "tpot_s": s.tpot_s,
            "tokens_per_s_user": 1.0 / s.tpot_s,
            "tokens_per_s_system": s.tokens_per_s_system,
            "tokens_per_s_end_to_end": s.tokens_per_s_end_to_end,
            "prefill_tokens_per_s": s.prefill_tokens_per_s,
            "energy_j_per_output_token": self.energy.j_per_output_token,
            "usd_per_million_input_tokens": self.cost.usd_per_million_input_tokens,
            "usd_per_million_output_tokens": self.cost.usd_per_million_output_tokens,
            "usd_per_month": self.capacity.usd_per_month,
        }


def evaluate(
    scenario: Scenario, overrides: Mapping[str, float] | None = None, *, quick: bool = False, stop_at: str = ""
) -> Evaluation:
    """Evaluate a scenario with ``overrides`` of figures on top of its own.

    ``quick`` samples few steps: only for ratios between two quick evaluations. ``stop_at`` "memory" ends after the
    ledger, without placing. Raises PlanError, ModelError, HardwareError or RoutingError, each one sentence.
    """
    if quick and scenario.policy.options.get("schedule") == "improved":
        # Comparisons under the published schedule: the improved one takes seconds, and ratios hardly differ.
        options = {**scenario.policy.options, "schedule": "published"}
        scenario = scenario.model_copy(update={"policy": scenario.policy.model_copy(update={"options": options})})
    policy = get(scenario.policy.id)
    check_options(policy, scenario.policy.options)
    ctx = resolve(scenario, overrides)
    missing = policy.missing(ctx.machine)
    if missing:
        return Evaluation(ctx, policy, (f"{policy.name} needs {_and(missing)}; this system has none.",))
    if stop_at != "memory":  # a longer chunk is taken only where it fits, so it does not change what fits
        ctx = with_whole_prompts(ctx, policy)
    ready = policy.prepare(ctx)
    reasons = tuple(
        f"{tier.name}: {tier.fullest_bytes * tier.devices / 1e9:,.1f} GB needed, "
        f"{tier.device_capacity_bytes * tier.devices / 1e9:,.1f} GB there."
        for tier in ready.ledger
        if tier.short_bytes > 0
    )
    if stop_at == "memory":
        return Evaluation(ctx, policy, reasons, ready)
    routing = _routing(ctx, policy, ready, quick)
    placed = policy.place(ctx, ready, routing)
    warnings = (*routing.warnings, *policy.plan_notes(ctx), *_limits(ctx))
    if reasons or not fits(ready.ledger):
        return Evaluation(ctx, policy, reasons, ready, routing, placed, warnings=warnings)
    decode = time_pass(policy.decode(ctx, ready, placed, routing), ctx.machine, ctx.accepted_per_pass)
    prefill = time_prefill(ctx, policy, ready, placed, routing)
    serving = serve(ctx, ready, decode, prefill)
    found = Evaluation(ctx, policy, (), ready, routing, placed, decode, prefill, serving, warnings=warnings)
    return priced(found)


def with_whole_prompts(ctx: Context, policy: Policy) -> Context:
    """The context with the prefill chunk of a policy that can stream experts: a whole prompt, or as few equal parts.

    A pass streams every expert that is not in HBM, so a prompt that is cut streams them again for each part;
    kt-kernel's layer-wise prefill and FreeToken stream a layer once for the whole prompt. Kept at the default where the
    scenario names a chunk, the policy cannot stream, the prompt is no longer than that, or the activations do not fit
    (or only if the KV cache left HBM for them).
    """
    new = ctx.new_prompt_tokens
    if ctx.scenario.policy.prefill_chunk_tokens is not None or "stream" not in policy.prefill_modes(ctx):
        return ctx
    if new <= CHUNK_TOKENS:
        return ctx
    usual = policy.prepare(ctx)
    for passes in range(1, MOST_PARTS + 1):
        longer = replace(ctx, chunk_tokens=ceil(new / passes))
        if longer.chunk_tokens <= CHUNK_TOKENS:
            break
        ready = policy.prepare(longer)
        if fits(ready.ledger) and ready.kv_location == usual.kv_location:
            return longer
    return ctx


def _routing(ctx: Context, policy: Policy, ready: Prepared, quick: bool) -> RoutingState:
    sequences = policy.sequences_per_pass(ctx, ready.layout)
    asked = ctx.scenario.routing.steps
    steps = asked or policy.steps_wanted(ctx) or automatic_steps(sequences, ctx.moe_layers, ctx.experts)
    state = routing_state(
        ctx.scenario.routing,
        ctx.arch.id,
        ctx.moe_layers,
        ctx.experts,
        ctx.top_k,
        sequences,
        ctx.tokens_per_sequence,
        ctx.scenario.workload.prompt_tokens,
        prefill_tokens(ctx),
        steps,
        ctx.request_steps if policy.ordered else 0,
    )
    if not quick or steps <= QUICK_STEPS:
        return state
    return state.replaced(counts=state.counts[:QUICK_STEPS])


def prefill_tokens(ctx: Context) -> int:
    """Rows of a steady-state prefill pass: as many new prompt tokens as there are, up to the chunk."""
    return min(ctx.chunk_tokens, ctx.new_prompt_tokens * ctx.scenario.workload.batch)


def activity(ctx: Context, timing: Timing, seconds: float, tokens: float) -> Activity:
    """What energy needs to know of a pass; FLOP in 16-bit equivalents."""
    flows: Flows = timing.flows
    gpu = ctx.machine.gpu
    bf16 = gpu.flop_per_s("bf16") if gpu else 0.0

    def busy(value: float) -> float:
        return min(value, seconds)

    dimm = flows.ndp_flop > 0
    return Activity(
        seconds=seconds,
        tokens=tokens,
        gpu_busy_s=busy(timing.gpu_busy_s),
        gpu_flop=flows.gpu_peak_s * bf16,
        hbm_bytes=flows.hbm_bytes,
        cpu_busy_s=busy(timing.cpu_busy_s),
        cpu_flop=flows.cpu_flop,
        dram_bytes=flows.dram_bytes,
        ndp_busy_s=busy(timing.ndp_busy_s) if dimm else 0.0,
        ndp_flop=flows.ndp_flop,
        ndp_bytes=flows.ndp_bytes,
        cxl_busy_s=busy(timing.ndp_busy_s) if flows.cxl_flop > 0 or not dimm else 0.0,
        cxl_flop=flows.cxl_flop,
        cxl_bytes=flows.cxl_bytes,
        pcie_bytes=flows.pcie_bytes,
        cxl_link_bytes=flows.cxl_link_bytes,
        scaleup_bytes=flows.scaleup_bytes,
        network_bytes=flows.network_bytes,
    )


def priced(found: Evaluation, overrides: Mapping[str, float] | None = None) -> Evaluation:
    """Energy, cost and capacity of a timed evaluation; ``overrides`` price the same timing with other figures."""
    ctx, decode, prefill, serving = found.ctx, found.decode, found.prefill, found.serving
    assert decode is not None and prefill is not None and serving is not None and found.ready is not None
    w, economics = ctx.scenario.workload, ctx.scenario.economics
    system = ctx.machine.figures
    if overrides:
        system = Figures(machine_parts(ctx.scenario, overrides))
    stages = found.ready.layout.pipeline
    # Fewer micro-batches in flight than pipeline stages: each GPU works for its own share of a pass only.
    working = min(1.0, serving.passes_in_flight / stages)
    # Fewer sequences than replicas: the others wait.
    at_work = replicas_at_work(w.batch, found.ready.layout) / found.ready.layout.data
    out = activity(ctx, decode, serving.tpot_s, float(w.batch))
    out = replace(
        out,
        gpu_busy_s=out.gpu_busy_s * working * at_work,
        cpu_busy_s=out.cpu_busy_s * at_work,
        ndp_busy_s=out.ndp_busy_s * at_work,
        cxl_busy_s=out.cxl_busy_s * at_work,
    )
    # One pass is charged to all the prompt tokens that it stands for, those found in the prefix cache included.
    tokens = prefill.tokens_per_pass * found.ready.layout.data * w.prompt_tokens / ctx.new_prompt_tokens
    into = activity(ctx, prefill.timing, serving.prefill_machine_s_per_prompt * tokens / w.prompt_tokens, tokens)
    drawn = energy_module.consumption(system, out, into, Mix.of(out, into, w.prompt_tokens, w.output_tokens))
    bill = bill_of_materials(cast(System, system))
    return replace(
        found,
        drawn=drawn,
        energy=energy_module.energy(drawn, economics),
        cost=economics_module.cost(system, bill, economics, drawn),
        capacity=capacity_module.capacity(system, bill, w, economics, drawn),
    )


def _limits(ctx: Context) -> tuple[str, ...]:
    limit = ctx.arch.max_context_tokens
    if limit and ctx.full_context_tokens > limit:
        return (
            f"Prompt and output together are {ctx.full_context_tokens:,} tokens; "
            f"the model states a context of {limit:,}.",
        )
    return ()


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
