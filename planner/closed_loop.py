"""TPOT and TTFT as clients see them who each send their next request when the last one ends (a closed loop).

``plan`` states the decode step alone: what a running request sees while nobody arrives. Load generators measure more
than that. Each request that ends makes room for a prompt, and its prefill passes stand between the decode steps of all
others; the first prompts of all clients come at once, and clients whose requests are equally long keep coming at once.
Two laws of the steady state show the size of both, for ``c`` clients, prompts of ``P`` and outputs of ``O`` tokens and
``w`` seconds of prefill per token::

    TPOT  =  step + (c - 1) w P / O            a wave of c prompts at once: mean wait (c + 1) w P / 2

Between these two lies what is measured, so the loop is played through, event by event: prompts wait in order, each pass
takes chunks of them up to a limit (chunked prefill; Agrawal et al., Sarathi-Serve, OSDI 2024), running requests yield
one token in the same pass (mixed batches, as vLLM and TensorRT-LLM do) or wait for it (SGLang's default). The time of
a pass comes from the plan's own prefill and decode passes. Lengths are drawn from a seed: equal input, equal result.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from planner.evaluate import Evaluation
from planner.parallel import Layout, replicas_at_work

REQUESTS_EACH = 10
"""Requests that each client sends, as InferenceX and vLLM's serving benchmark are run (10 prompts per client)."""
LEAST_STEP_S = 1e-9


@dataclass(frozen=True)
class Clients:
    """Who sends what. ``shortest``: lengths are uniform from this share of the stated ones up to the whole."""

    count: int
    prompt_tokens: int
    output_tokens: int
    shortest: float = 1.0
    requests_each: int = REQUESTS_EACH
    slots: int | None = None
    """Requests in service at once at most (KV cache); None = as many as there are clients."""
    mixed: bool = True
    seed: int = 0


@dataclass(frozen=True)
class PassTimes:
    """Seconds of the passes of one replica."""

    step_s: float
    """A decode step of the full batch; one pass, whatever it yields."""
    rides_s: float
    """Part of that step that a pass with prompt tokens still has for the running requests: their attention."""
    prefill_base_s: float
    prefill_token_s: float
    chunk_tokens: int
    prefill_least_s: float = 0.0
    """What a pass with prompt tokens takes at least: its kernels are launched one by one."""
    request_s: float = 0.0
    """Tokenisation, admission and return of the first token of a request."""
    yields: float = 1.0
    """Tokens per sequence of a decode pass (speculation)."""

    def prefill_s(self, tokens: int) -> float:
        return max(self.prefill_base_s + self.prefill_token_s * tokens, self.prefill_least_s)


@dataclass(frozen=True)
class Served:
    """Means over all requests, and what the system gave out."""

    ttft_s: float
    tpot_s: float
    ttft_median_s: float
    ttft_p99_s: float
    tokens_per_s: float
    running: float
    """Requests decoding at once, mean over the run."""


def pass_times(found: Evaluation) -> PassTimes:
    """Times of the passes of a plan that fits: its decode step, one prompt's pass and a full one."""
    assert found.decode is not None and found.prefill is not None and found.serving is not None
    ctx, prefill = found.ctx, found.prefill
    step = found.decode.step
    whole = step.total_s * ctx.accepted_per_pass
    attention = sum(p.exposed_s for p in step.parts if p.part == "attention") * ctx.accepted_per_pass
    passes = prefill.passes_per_prompt
    few, alone_s = math.ceil(ctx.new_prompt_tokens / passes), prefill.pass_s
    many, steady_s = prefill.tokens_per_pass, prefill.timing.step.total_s
    fixed = prefill.timing.step.fixed_s
    if many > 1.1 * few:
        token = max((steady_s - alone_s) / (many - few), 0.0)
        base = max(alone_s - token * few, min(fixed, alone_s))
    else:
        base = min(fixed, alone_s)
    token = max(alone_s - base, 0.0) / few
    gpu = ctx.machine.gpu
    return PassTimes(
        step_s=whole,
        rides_s=min(attention, whole),
        prefill_base_s=base,
        prefill_token_s=token,
        chunk_tokens=ctx.chunk_tokens,
        prefill_least_s=prefill.launched_s,
        request_s=gpu.request_overhead_s if gpu else 0.0,
        yields=ctx.accepted_per_pass,
    )


def serve_clients(found: Evaluation, clients: Clients) -> Served:
    """Play the loop of ``clients`` against a plan that fits; they divide evenly over its replicas."""
    assert found.ready is not None
    return serve_with(pass_times(found), found.ready.layout, clients)


def serve_with(times: PassTimes, layout: Layout, clients: Clients) -> Served:
    """Play the loop against the passes of a plan with this layout; clients and slots divide over its replicas."""
    replicas = int(replicas_at_work(clients.count, layout))
    each = math.ceil(clients.count / replicas)
    slots = None if clients.slots is None else max(math.ceil(clients.slots / replicas), 1)
    one = play(times, replace(clients, count=each, slots=slots))
    return replace(one, tokens_per_s=one.tokens_per_s * clients.count / each)


def play(times: PassTimes, clients: Clients) -> Served:
    """Play the loop on one replica."""
    total = clients.count * clients.requests_each
    random = np.random.default_rng(clients.seed)
    prompts = _lengths(random, clients.prompt_tokens, clients.shortest, total)
    outputs = _lengths(random, clients.output_tokens, clients.shortest, total)
    passes = [max(math.ceil((o - 1) / times.yields), 0) for o in outputs]
    slots = clients.slots or clients.count
    arrival, first, end = np.zeros(total), np.zeros(total), np.zeros(total)
    waiting: deque[int] = deque(range(min(clients.count, total)))
    left = list(prompts)
    running: list[tuple[int, int]] = []  # (count of passes at which it ends, request)
    begun: set[int] = set()
    sent, now, steps, held = len(waiting), 0.0, 0, 0.0
    while waiting or running:
        took, done = 0, []
        while waiting and took < times.chunk_tokens and (waiting[0] in begun or len(running) + len(begun) < slots):
            request = waiting[0]
            begun.add(request)
            part = min(left[request], times.chunk_tokens - took)
            left[request] -= part
            took += part
            if left[request]:
                break
            done.append(waiting.popleft())
            begun.discard(request)
            if len(running) + len(done) >= slots:
                break
        before = len(running)
        if took:
            rides = clients.mixed and before > 0
            spent, ahead = times.prefill_s(took) + (times.rides_s * before / slots if rides else 0.0), int(rides)
        else:
            ahead = max(running[0][0] - steps, 1)
            spent = ahead * max(times.step_s, LEAST_STEP_S)
        now += spent
        steps += ahead
        held += before * spent
        for request in done:
            first[request] = now + times.request_s
            heapq.heappush(running, (steps + passes[request], request))
        while running and running[0][0] <= steps:
            _, request = heapq.heappop(running)
            end[request] = now
            if sent < total:
                arrival[sent] = now
                waiting.append(sent)
                sent += 1
    return _means(arrival, first, end, np.asarray(outputs), times.request_s, held / now if now else 0.0)


def _means(
    arrival: np.ndarray, first: np.ndarray, end: np.ndarray, outputs: np.ndarray, request_s: float, running: float
) -> Served:
    ttft = first - arrival
    more = outputs > 1
    tpot = (end + request_s - first)[more] / (outputs[more] - 1)
    span = float(end.max())
    return Served(
        ttft_s=float(ttft.mean()),
        tpot_s=float(tpot.mean()) if more.any() else 0.0,
        ttft_median_s=float(np.median(ttft)),
        ttft_p99_s=float(np.quantile(ttft, 0.99)),
        tokens_per_s=float(outputs.sum()) / span if span > 0 else 0.0,
        running=running,
    )


def _lengths(random: np.random.Generator, tokens: int, shortest: float, count: int) -> list[int]:
    low = max(int(tokens * shortest), 1)
    return [int(n) for n in random.integers(low, tokens + 1, count)]
