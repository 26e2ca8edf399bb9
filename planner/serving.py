"""From passes to what users and operators see: TTFT, TPOT, rates per user and per system. No queueing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.context import Context
from planner.errors import PlanError
from planner.parallel import passes_per_step
from planner.physics import launches
from planner.policies.base import Placed, Policy, Prepared
from planner.routing import RoutingState, routing_state
from planner.step import Timing, time_pass


@dataclass(frozen=True)
class PrefillTiming:
    """Prefill in the chosen mode: a steady-state pass, one prompt alone, and the other modes."""

    mode: str
    timing: Timing  # steady-state pass
    tokens_per_pass: int
    seconds_per_pass: float  # machine time of a steady-state pass (pipeline stages overlap passes)
    passes_per_prompt: int
    prompt_s: float  # one prompt alone, latency
    extra_s: float  # added to each prompt, such as the part of a migration that shows
    alternatives: dict[str, float | None]  # mode -> seconds of one prompt alone
    pass_s: float = 0.0  # one pass of one prompt alone, launches apart
    launched_s: float = 0.0  # host time to launch a pass kernel by kernel: no pass is shorter

    @property
    def alone_s(self) -> float:
        """One prompt alone on the machine, what is added to each prompt included."""
        return self.prompt_s + self.extra_s


@dataclass(frozen=True)
class Serving:
    ttft_s: float
    tpot_s: float
    tokens_per_s_system: float
    tokens_per_s_end_to_end: float
    prefill_tokens_per_s: float
    prefill_machine_s_per_prompt: float
    passes_in_flight: float


def time_prefill(ctx: Context, policy: Policy, ready: Prepared, placed: Placed, routing: RoutingState) -> PrefillTiming:
    """Time prefill in every mode that the policy has, and choose: as asked, else the fastest for one prompt."""
    new = ctx.new_prompt_tokens
    passes = math.ceil(new / ctx.chunk_tokens)
    alone = math.ceil(new / passes)
    modes = policy.prefill_modes(ctx)
    asked = ctx.scenario.policy.prefill
    if asked != "auto" and asked not in modes:
        raise PlanError(f"policy.prefill is {asked!r}; {policy.name} runs prefill in: auto, {', '.join(modes)}.")
    single = _single(ctx, routing, alone)
    seconds: dict[str, float | None] = {}
    pass_s: dict[str, float] = {}
    least: dict[str, float] = {}
    for mode in modes:
        run = policy.prefill(ctx, ready, placed, single, mode, alone)
        pass_s[mode], least[mode] = time_pass(run, ctx.machine).step.total_s, _launched_s(ctx, mode)
        seconds[mode] = max(pass_s[mode], least[mode]) * passes
    mode = asked if asked != "auto" else min(modes, key=lambda m: seconds[m] or math.inf)
    prompt_s = seconds[mode]
    assert prompt_s is not None
    steady = policy.prefill(ctx, ready, placed, routing, mode, routing.prefill_tokens)
    timing = time_pass(steady, ctx.machine)
    return PrefillTiming(
        mode=mode,
        timing=timing,
        tokens_per_pass=routing.prefill_tokens,
        seconds_per_pass=max(timing.step.total_s, least[mode]) / steady.in_flight,
        passes_per_prompt=passes,
        prompt_s=prompt_s,
        extra_s=policy.prompt_extra_s(ctx, ready, placed, prompt_s),
        alternatives=seconds,
        pass_s=pass_s[mode],
        launched_s=least[mode],
    )


def _launched_s(ctx: Context, mode: str) -> float:
    """Time to launch a prefill pass of the GPU alone; other modes wait for other devices."""
    gpu = ctx.machine.gpu
    return (
        launches.launched_s(ctx, gpu.kernel_launch_eager_s)
        if gpu and gpu.kernel_launch_eager_s and mode == "gpu"
        else 0.0
    )


def _single(ctx: Context, routing: RoutingState, tokens: int) -> RoutingState:
    """Routing of one prompt's pass of ``tokens`` rows."""
    if tokens == routing.prefill_tokens:
        return routing
    return routing_state(
        ctx.scenario.routing,
        ctx.arch.id,
        ctx.moe_layers,
        ctx.experts,
        ctx.top_k,
        1,
        1,
        ctx.scenario.workload.prompt_tokens,
        tokens,
        1,
    )


def serve(ctx: Context, ready: Prepared, decode: Timing, prefill: PrefillTiming) -> Serving:
    """Serve the workload without queueing.

    TTFT: one prompt arrives while the others decode; prefill passes and decode steps alternate, so each of its
    passes waits for one decode step of the running batch (none at batch 1); and what the engine spends on a request.
    TPOT: mean over the output tokens at growing context, of the decode step alone; what clients in a closed loop
    measure holds the prompts of others as well (:mod:`planner.closed_loop`). End to end: the machine prefills and
    decodes in turn, each request costing its machine time, at the share of steady throughput that runs in service
    reach, and what the engine's host process spends on it.
    """
    w = ctx.scenario.workload
    tpot = decode.step.total_s
    step = tpot * ctx.accepted_per_pass
    interleaved = prefill.passes_per_prompt * step if w.batch > 1 else 0.0
    per_token = prefill.seconds_per_pass / (prefill.tokens_per_pass * ready.layout.data)
    machine_s = per_token * ctx.new_prompt_tokens + prefill.extra_s
    steady = ctx.machine.gpu.serving_efficiency if ctx.machine.gpu else 1.0
    request_s = ctx.machine.gpu.request_overhead_s if ctx.machine.gpu else 0.0
    serial_s = ctx.machine.gpu.request_serial_s if ctx.machine.gpu else 0.0
    per_request = (machine_s + w.output_tokens * tpot / w.batch) / steady + serial_s
    return Serving(
        ttft_s=prefill.alone_s + interleaved + request_s,
        tpot_s=tpot,
        tokens_per_s_system=w.batch / tpot,
        tokens_per_s_end_to_end=w.output_tokens / per_request,
        prefill_tokens_per_s=w.prompt_tokens / machine_s,
        prefill_machine_s_per_prompt=machine_s,
        passes_in_flight=float(passes_per_step(w.batch, ready.layout)),
    )
