"""The bound: a step time that no placement and no policy on this machine beats under this routing.

A relaxation. Every expert that is hit may be split freely over all the ways to compute it (from HBM, streamed to the
GPU, on the CPU, on NDP DIMMs, in a CXL device), all devices of a kind share work perfectly, compute and bytes overlap
fully, nothing is launched or synchronised, layers do not wait for each other, and which experts are resident in HBM may
be chosen anew, for free, in every step. What is left are capacities: for any prices p >= 0 of the resources that add
up to 1, and any price m >= 0 of a byte of HBM,

    T >= p . base + mean over steps of sum over experts of min over ways w of (p . seconds(w, tokens) + m bytes(w))
         - m free HBM

(weak duality of the linear programme). Any prices give a valid bound; they are improved by subgradient steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.computed_work import ComputedWork, computed_work
from planner.context import Context
from planner.evaluate import Evaluation
from planner.physics import attention
from planner.physics.operation import Array
from planner.result import BoundReport
from planner.routing import routing_state

ITERATIONS = 400
RESOURCES = (
    "gpu_compute",
    "hbm",
    "link",
    "dram",
    "cpu_compute",
    "ndp_compute",
    "ndp_memory",
    "cxl_compute",
    "cxl_memory",
    "cxl_link",
)
INDEX = {name: i for i, name in enumerate(RESOURCES)}


@dataclass(frozen=True)
class Way:
    """One way to compute an expert: seconds on each resource per token and per hit, and HBM bytes that it holds."""

    per_token_s: Array  # [resources]
    per_hit_s: Array  # [resources]
    resident_bytes: float


def _vector(**seconds: float) -> Array:
    values = np.zeros(len(RESOURCES))
    for name, value in seconds.items():
        values[INDEX[name]] = value
    return values


def _ways(ctx: Context, least_bytes: float, least_bits: float) -> list[Way]:
    m, flop = ctx.machine, 2.0 * ctx.expert_parameters
    ways: list[Way] = []
    gpu = m.gpu
    nodes = m.nodes
    if gpu is not None:
        width = ctx.gpu_width
        small = min(width.expert_bytes, least_bytes)
        # The fastest number format that the silicon has: no product on this GPU is faster.
        peak = max(v for v in gpu.peak_flop_per_s.values() if v)
        compute = flop / (peak * gpu.compute_efficiency_max * gpu.count)
        read = small / (gpu.bandwidth_bytes_per_s * gpu.count)
        ways.append(Way(_vector(gpu_compute=compute), _vector(hbm=read), small))
        if m.dram is not None and m.host_to_gpus_bytes_per_s > 0:
            link = least_bytes / (m.host_to_gpus_bytes_per_s * nodes)
            dram = least_bytes / (m.dram.bandwidth_bytes_per_s * nodes)
            ways.append(Way(_vector(gpu_compute=compute), _vector(hbm=read, link=link, dram=dram), 0.0))
        if m.cxl_ndp is not None and m.cxl_link is not None:
            link = least_bytes / (m.cxl_link.bytes_per_s * m.cxl_ndp.units * nodes)
            ways.append(Way(_vector(gpu_compute=compute), _vector(hbm=read, cxl_link=link), 0.0))
    if m.cpu is not None and m.dram is not None:
        # Under a placement that knows the sockets no share of them is lost.
        known = ctx.option("numa", "fitted") != "fitted"
        sockets = m.figures.value("cpu.numa_compute_efficiency") if known and m.cpu.sockets > 1 else 1.0
        rate = max(m.cpu.matrix_flop_per_s or 0.0, m.cpu.vector_flop_per_s, m.cpu.block_flop_per_s) / sockets * nodes
        dram = least_bytes / (m.dram.bandwidth_bytes_per_s * nodes)
        ways.append(Way(_vector(cpu_compute=flop / rate), _vector(dram=dram), 0.0))
    for ndp, compute_name, memory_name in (
        (m.dimm_ndp, "ndp_compute", "ndp_memory"),
        (m.cxl_ndp, "cxl_compute", "cxl_memory"),
    ):
        if ndp is not None:
            scaled = least_bits / 16.0 if ctx.option("ndp_compute", "gemv") == "scaled" else 1.0
            units = ndp.units * nodes
            per_token = flop * min(scaled, 1.0) / (ndp.flop_per_s * units)
            per_hit = least_bytes / (ndp.bandwidth_bytes_per_s * units)
            ways.append(Way(_vector(**{compute_name: per_token}), _vector(**{memory_name: per_hit}), 0.0))
    return ways


def _base(ctx: Context, tokens: float, sequences: float) -> tuple[Array, float]:
    """Seconds that everything but experts and attention cores takes on the GPUs, and the HBM bytes of those weights."""
    gpu, work = ctx.machine.gpu, ctx.work
    assert gpu is not None
    groups = (
        ("mixer", work.mixer_parameters),
        ("dense", work.dense_parameters),
        ("shared", work.shared_parameters),
        ("router", work.router_parameters),
        ("lm_head", float(work.lm_head_parameters)),
    )
    stored = sum(float(np.sum(ctx.group_bytes(name, values))) for name, values in groups)
    parameters = sum(float(np.sum(values)) for _, values in groups)
    peak = max(v for v in gpu.peak_flop_per_s.values() if v)
    compute = 2.0 * parameters * tokens / (peak * gpu.compute_efficiency_max * gpu.count)
    return _vector(gpu_compute=compute, hbm=stored / (gpu.bandwidth_bytes_per_s * gpu.count)), stored


def _attention_ways(ctx: Context, sequences: int) -> list[Way]:
    """KV cache of all sequences: in HBM, shipped from the host, or attended to by the CPU. One 'hit' per step."""
    m, gpu = ctx.machine, ctx.machine.gpu
    assert gpu is not None
    rows = attention.decode_rows(ctx, sequences)
    kv = float(rows.kv_read_bytes.mean(axis=0).sum() + 2.0 * rows.state_bytes.sum())
    flop = float(rows.attention_flop.mean(axis=0).sum())
    compute = flop / (gpu.flop_per_s("bf16") * gpu.compute_efficiency_max * gpu.count)
    read = kv / (gpu.kv_bandwidth_bytes_per_s * gpu.count)
    nothing = _vector()
    ways = [Way(nothing, _vector(gpu_compute=compute, hbm=read), kv)]
    if m.dram is not None and m.host_to_gpus_bytes_per_s > 0:
        dram = kv / (m.dram.bandwidth_bytes_per_s * m.nodes)
        link = kv / (m.host_to_gpus_bytes_per_s * m.nodes)
        ways.append(Way(nothing, _vector(gpu_compute=compute, hbm=read, link=link, dram=dram), 0.0))
        if m.cpu is not None:
            cpu = flop / (m.cpu.vector_flop_per_s * m.nodes)
            ways.append(Way(nothing, _vector(cpu_compute=cpu, dram=dram), 0.0))
    return ways


def bound(found: Evaluation) -> BoundReport | None:
    """Lower bound on the decode time per output token of a plan that fits."""
    if found.decode is None or found.ready is None or found.placed is None or found.routing is None:
        return None
    ctx = found.ctx
    work = computed_work(found)
    counts = _all_counts(found, work)
    least_bytes = min([float(found.placed.stored.bytes.min()), ctx.gpu_width.expert_bytes])
    least_bits = min(float(found.placed.stored.bits.min()), ctx.gpu_width.bits)
    step_s, prices = lower_bound_s(ctx, counts, least_bytes, least_bits)
    step_s /= ctx.accepted_per_pass
    mine = found.decode.step.total_s
    names = {
        "gpu_compute": "GPU compute",
        "hbm": "HBM bandwidth",
        "link": "the links to the GPUs",
        "dram": "host memory bandwidth",
        "cpu_compute": "CPU compute",
        "ndp_compute": "NDP compute",
        "ndp_memory": "bandwidth inside the NDP DIMMs",
        "cxl_compute": "compute in the CXL devices",
        "cxl_memory": "bandwidth inside the CXL devices",
        "cxl_link": "the CXL link",
    }
    top = [names[RESOURCES[i]] for i in np.argsort(-prices)[:2] if prices[i] > 0.1]
    return BoundReport(
        step_s=step_s,
        limited_by=" and ".join(top),
        share=step_s / mine,
        sentence=f"Yours {_ms(mine)}, nothing on this machine beats {_ms(step_s)} under this routing.{_less(work)}",
        computed_share=work.share,
        exchanged_share=work.exchanged,
    )


def _ms(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _less(work: ComputedWork) -> str:
    return "" if work.as_routed else f" Both count what this policy computes: {work.sentence}"


def _all_counts(found: Evaluation, work: ComputedWork) -> np.ndarray:
    """Tokens per expert of the whole batch in one step, [steps, layers, experts]."""
    ctx, ready, routing = found.ctx, found.ready, found.routing
    assert ready is not None and routing is not None
    batch = ctx.scenario.workload.batch
    sequences = found.policy.sequences_per_pass(ctx, ready.layout)
    if sequences == batch:
        return work.counts
    if not work.as_routed:
        return _merged(work.counts, batch / sequences)
    whole = routing_state(
        ctx.scenario.routing,
        ctx.arch.id,
        ctx.moe_layers,
        ctx.experts,
        ctx.top_k,
        batch,
        ctx.tokens_per_sequence,
        ctx.scenario.workload.prompt_tokens,
        routing.prefill_tokens,
        min(routing.counts.shape[0], 8),
    )
    return whole.counts


def _merged(counts: np.ndarray, passes: float) -> np.ndarray:
    """The whole batch as so many passes run at once, each expert hit once for all of them; float64."""
    each = min(max(int(passes), 1), len(counts))
    groups = len(counts) // each
    merged = counts[: groups * each].reshape(groups, each, *counts.shape[1:]).sum(axis=1)
    return np.asarray(merged * (passes / each))


def lower_bound_s(ctx: Context, counts: np.ndarray, least_bytes: float, least_bits: float) -> tuple[float, Array]:
    """Bound on one pass over the whole batch, s, and the prices of the resources that prove it."""
    gpu, w = ctx.machine.gpu, ctx.scenario.workload
    assert gpu is not None
    base, dense_bytes = _base(ctx, w.batch * ctx.tokens_per_sequence, w.batch)
    ways, kv_ways = _ways(ctx, least_bytes, least_bits), _attention_ways(ctx, w.batch)
    free = max(gpu.capacity_bytes * gpu.count - dense_bytes - gpu.reserve_bytes * gpu.count, 0.0)
    # All experts have one size, so only how many have n tokens matters.
    tokens, number = np.unique(counts[counts > 0], return_counts=True)
    number = number / counts.shape[0]
    per_token = np.stack([x.per_token_s for x in ways])
    per_hit = np.stack([x.per_hit_s for x in ways])
    held = np.array([x.resident_bytes for x in ways])
    kv_hit = np.stack([x.per_hit_s for x in kv_ways])
    kv_held = np.array([x.resident_bytes for x in kv_ways])
    usable = (base > 0) | (per_token.max(axis=0) > 0) | (per_hit.max(axis=0) > 0) | (kv_hit.max(axis=0) > 0)
    price = usable / usable.sum()
    byte_price = 0.0
    best, best_price = 0.0, price
    step_of_bytes = (float(base.sum()) + float(kv_hit[0].sum()) + float(per_hit[0].sum()) * float(number.sum())) / max(
        free, 1.0
    )
    for iteration in range(ITERATIONS):
        cost = (per_token @ price)[:, None] * tokens + (per_hit @ price + byte_price * held)[:, None]
        chosen = cost.argmin(axis=0)
        kv_cost = kv_hit @ price + byte_price * kv_held
        kv = int(kv_cost.argmin())
        value = float(base @ price + kv_cost[kv] + (cost.min(axis=0) * number).sum() - byte_price * free)
        if value > best:
            best, best_price = value, price
        load = base + kv_hit[kv] + (number * tokens) @ per_token[chosen] + number @ per_hit[chosen]
        used = float((number * held[chosen]).sum() + kv_held[kv])
        size = 0.5 / np.sqrt(1.0 + iteration)
        weight = price * np.exp(size * load / max(float(load.max()), 1e-30))
        price = np.where(usable, weight, 0.0)
        price = price / price.sum()
        if free > 0:
            byte_price = max(0.0, byte_price + size * step_of_bytes * (used - free) / max(used, free))
    return best, best_price
