"""TriMoE (arXiv 2603.01058): hot experts on the GPU, warm ones on an AMX CPU, cold ones on DIMM-NDP.

Costs of an expert with n tokens and W bytes (equations 1 to 4): GPU hit ``f_gpu(n)``; GPU miss ``max(f_gpu(n), W/PCIe,
T_DRAM)``; CPU ``max(f_cpu(n), T_DRAM)``; NDP ``max(f_ndp(n), W/internal)`` if localised. T_DRAM is the full host
bandwidth for a striped expert, one channel for a localised one. Makespan: ``max(sum GPU, sum CPU, max over DIMMs of
(sum NDP + contention))``; greedy assignment, then bottleneck refinement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.context import Context
from planner.deal import deal
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention, collective, experts
from planner.physics.experts import Stored, spread
from planner.physics.memory import Ledger, host_tier
from planner.physics.operation import Array, Phase, phase_times
from planner.policies.base import (
    TIER_CODE,
    Option,
    Placed,
    Policy,
    Prepared,
    hottest,
    mean_expert_bytes,
    mixed_widths,
)
from planner.policies.hybrid import (
    add_dense_side,
    add_host_kv,
    counts_rows,
    host_experts,
    hybrid_gpu_tier,
    streamed_prefill,
    sync_s,
)
from planner.policies.near_data import EXCLUSION, NDP_COMPUTE, check_widths, host_read_rate
from planner.result import ScheduleReport
from planner.routing import RoutingState
from planner.schedule import START_GREEDY, START_LAYOUT, ScheduleResult, schedule_layers
from planner.step import Pass

GPU, CPU, NDP = 0, 1, 2


class TriMoe(Policy):
    id = "trimoe"
    name = "TriMoE, three domains"
    sentence = (
        "Hot experts on the GPU, warm ones on the CPU, cold ones on NDP DIMMs, assigned anew in every layer and step."
    )
    source = "TriMoE (arXiv 2603.01058)"
    needs = ("gpu", "host", "pcie", "dimm_ndp")
    options = (
        Option(
            "start",
            "choice",
            "greedy",
            "first assignment: greedy (least cost of each expert) or layout",
            choices=("greedy", "layout"),
        ),
        Option(
            "schedule",
            "choice",
            "published",
            "published: greedy and bottleneck refinement as described; improved: near the optimum, with a proven gap; "
            "greedy: the first assignment alone",
            choices=("published", "improved", "greedy"),
        ),
        NDP_COMPUTE,
        EXCLUSION,
    )
    notes = (
        "The paper keeps the KV cache in host DIMMs and does not say which device computes decode attention; here the "
        "cache stays in HBM while it fits beside the weights.",
        "The classes hot, warm and cold follow from the costs; the paper's thresholds are not published.",
    )

    def check(self, ctx: Context) -> None:
        check_widths(ctx, "dimm_ndp", (w for w, _ in ctx.other_widths()))

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        each = mean_expert_bytes(ctx.other_widths())
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, resident, batch, context_tokens, 2.0 * each / layout.tensor)
        host = host_tier(ctx.machine, name="Host DIMMs (CPU and NDP share them)")
        # All routed experts stay in the DIMMs, those in HBM too: a hot one can turn warm.
        host_experts(ctx, host, each * ctx.experts * ctx.moe_layers, layout.data, resident / ctx.experts)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        return [gpu, host]

    # --- layout ----------------------------------------------------------------------------------------------------
    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        widths = ctx.other_widths()
        stored = mixed_widths(routing.profile, widths)
        resident = hottest(routing.profile, ready.resident_per_layer)
        striped, home = self._layout(ctx, routing, stored, resident)
        tier = np.full(resident.shape, TIER_CODE["dimm_ndp"], np.int8)
        tier[striped] = TIER_CODE["host"]
        tier[resident] = TIER_CODE["gpu"]
        return Placed(
            tier,
            resident,
            stored,
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: "hot: among the most loaded experts of its layer, as many as HBM has room for",
                TIER_CODE["host"]: "warm: with this load the CPU finishes it sooner; striped over all DIMMs",
                TIER_CODE["dimm_ndp"]: "cold: few tokens, so its DIMM finishes it where it lies",
            },
            home,
        )

    def _layout(
        self, ctx: Context, routing: RoutingState, stored: Stored, resident: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Striped (for the CPU) or localised (one DIMM each): the split by learnt load that balances the two.

        Experts outside HBM are sorted by expected load; the first m go to the CPU, the rest to the DIMMs, m where
        ``max(sum CPU, sum NDP / DIMMs)`` of the expected costs is least. DIMMs are dealt out by expected NDP time.
        """
        ndp = ctx.machine.dimm_ndp
        assert ndp is not None
        pairs = routing.tokens_per_pass * ctx.top_k
        share = routing.profile / np.maximum(routing.profile.sum(axis=1, keepdims=True), 1e-30)
        mean = np.minimum(share * pairs, routing.tokens_per_pass)
        _, *others = expected_costs(ctx, mean, stored)
        cpu, near = (np.where(resident, 0.0, seconds) for seconds in others)
        order = np.argsort(np.where(resident, np.inf, -mean), axis=1, kind="stable")
        cpu_sum = np.cumsum(np.take_along_axis(cpu, order, 1), axis=1)
        near_sum = np.cumsum(np.take_along_axis(near, order, 1), axis=1)
        zero = np.zeros((cpu.shape[0], 1))
        on_cpu = np.hstack([zero, cpu_sum])
        on_ndp = (near_sum[:, -1:] - np.hstack([zero, near_sum])) / ndp.units
        split = np.argmin(np.maximum(on_cpu, on_ndp), axis=1)
        rank = np.argsort(order, axis=1)
        striped = (rank < split[:, None]) & ~resident
        home = deal(np.where(resident | striped, -1.0, near), ndp.units)
        return striped, home

    # --- passes ----------------------------------------------------------------------------------------------------
    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        run, phase, base = self.begin(ctx, ready, routing.counts)
        costs = expert_costs(ctx, placed, routing.counts)
        plan = self._schedule(ctx, placed, routing.counts, costs, base)
        self._domains(ctx, run, phase, placed, routing.counts, costs, plan)
        self.finish(ctx, ready, run)
        return run

    def begin(self, ctx: Context, ready: Prepared, counts: np.ndarray) -> tuple[Pass, Phase, Array]:
        """A decode pass up to the routed experts: the pass, the phase that they run in, and what the GPU does in it
        before any of them, float64 [moe_layers], s."""
        layout = ready.layout
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, layout))
        copies = replicas_at_work(ctx.scenario.workload.batch, layout)
        run = Pass(tokens=rows.tokens, copies=copies, repeats=float(self.passes_per_step(ctx, layout)))
        attention.add_attention(ctx, run, rows, layout, ready.kv_location, ready.attention_device)
        self._hand_over(ctx, run, counts)
        phase = run.phase("three domains")
        add_dense_side(ctx, run, phase, rows, layout)
        if layout.tensor > 1:
            sent = collective.all_reduce_bytes(rows.tokens * ctx.hidden_bytes, layout.tensor)
            attention.add_collective(ctx, run, phase, sent * np.asarray(ctx.work.is_moe, float), layout.tensor)
        return run, phase, phase_times(phase).total.mean(axis=(0, 1))[ctx.moe]

    def finish(self, ctx: Context, ready: Prepared, run: Pass) -> None:
        """What follows the last layer, and the launches."""
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        attention.add_head(ctx, run, rows, ready.layout)
        attention.add_overhead(ctx, run, rows, ready.layout, sync_s(ctx))

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        return streamed_prefill(
            ctx,
            ready,
            placed.stored,
            placed.resident,
            routing.prefill_counts,
            tokens,
            placed.widths[0].format,
            overlap=1.0,
        )

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("stream",)

    def _schedule(
        self, ctx: Context, placed: Placed, counts: np.ndarray, costs: dict[str, Any], base_gpu: Array
    ) -> ScheduleResult:
        instance = scheduling_problem(ctx, placed, counts, costs, base_gpu)
        start = START_LAYOUT if ctx.option("start", "greedy") == "layout" else START_GREEDY
        chosen = ctx.option("schedule", "published")
        published = schedule_layers(**instance, start=start, refine=chosen != "greedy")
        if chosen != "improved":
            return published
        from planner.schedule_improved import improve_layers

        return improve_layers(**instance, published=published)

    def schedule_report(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState
    ) -> ScheduleReport | None:
        """One sampled step scheduled as published and improved: what the published refinement leaves on the table."""
        from planner.schedule_improved import improve_layers

        counts = routing.counts[:1]
        _, _, base = self.begin(ctx, ready, counts)
        instance = scheduling_problem(ctx, placed, counts, expert_costs(ctx, placed, counts), base)
        start = START_LAYOUT if ctx.option("start", "greedy") == "layout" else START_GREEDY
        published = schedule_layers(**instance, start=start)
        improved = improve_layers(**instance, published=published)
        chosen = str(ctx.option("schedule", "published"))
        used = {"published": published, "improved": improved}.get(chosen)
        used_s = float((used or schedule_layers(**instance, start=start, refine=False)).makespan_s.sum())
        bound_s = float(improved.lower_bound_s.sum())
        return ScheduleReport(
            mode=chosen,
            published_s=float(published.makespan_s.sum()),
            improved_s=float(improved.makespan_s.sum()),
            used_s=used_s,
            lower_bound_s=bound_s,
            gap=used_s / bound_s - 1.0 if bound_s > 0 else None,
            moves_per_layer=float(published.moves.mean()),
        )

    def _domains(
        self,
        ctx: Context,
        run: Pass,
        phase: Phase,
        placed: Placed,
        counts: np.ndarray,
        costs: dict[str, Any],
        plan: ScheduleResult,
    ) -> None:
        """The schedule as pieces of the phase, each second on the resource that it waits for."""
        dram, gpu = ctx.machine.dram, ctx.machine.gpu
        assert dram is not None and gpu is not None
        domain = plan.domain.reshape(counts.shape)
        resident = np.broadcast_to(placed.resident, counts.shape)
        hit, miss = (domain == GPU) & resident, (domain == GPU) & ~resident
        hot, fetched, link_s = costs["hot"], costs["fetched"], np.broadcast_to(costs["link_s"], counts.shape)

        def add(lane: Any, part: Any, resource: Any, seconds: Array) -> None:
            phase.add(lane, part, resource, spread(ctx, seconds.sum(axis=2)))

        for work, mask in ((hot, hit), (fetched, miss & (fetched.seconds >= link_s))):
            waits = work.compute_s >= work.bytes_s
            add("gpu", "routed_gpu", "gpu_compute", np.where(mask & waits, work.seconds, 0.0))
            add("gpu", "routed_gpu", "hbm", np.where(mask & ~waits, work.seconds, 0.0))
        add("gpu", "link", "link", np.where(miss & (fetched.seconds < link_s), link_s, 0.0))
        on_cpu = domain == CPU
        work = costs["cpu"]
        waits = work.compute_s >= work.bytes_s
        add("cpu", "routed_cpu", "cpu_compute", np.where(on_cpu & waits, work.seconds, 0.0))
        add("cpu", "routed_cpu", "dram", np.where(on_cpu & ~waits, work.seconds, 0.0))
        reads = np.where(on_cpu | miss, placed.stored.bytes, 0.0)
        phase.add("dram", "routed_cpu", "dram", spread(ctx, plan.host_s.reshape(counts.shape[:2])))
        self._add_dimms(ctx, phase, placed, domain, costs, plan)
        self._count(ctx, run, placed, counts, hit, miss, on_cpu, domain == NDP, reads)

    @staticmethod
    def _add_dimms(
        ctx: Context, phase: Phase, placed: Placed, domain: np.ndarray, costs: dict[str, Any], plan: ScheduleResult
    ) -> None:
        ndp = ctx.machine.dimm_ndp
        assert ndp is not None
        shape = domain.shape
        load = plan.ndp_s.reshape(*shape[:2], ndp.units)
        busiest = load.argmax(axis=2)
        there = (domain == NDP) & (placed.home[None] == busiest[..., None])
        work = costs["ndp"]
        on_compute = np.where(there & (work.compute_s >= work.bytes_s), work.seconds, 0.0).sum(axis=2)
        rest = np.maximum(load.max(axis=2) - on_compute, 0.0)
        phase.add("ndp", "routed_ndp", "ndp_compute", spread(ctx, on_compute))
        phase.add("ndp", "routed_ndp", "ndp_memory", spread(ctx, rest))

    @staticmethod
    def _count(
        ctx: Context,
        run: Pass,
        placed: Placed,
        counts: np.ndarray,
        hit: np.ndarray,
        miss: np.ndarray,
        on_cpu: np.ndarray,
        on_ndp: np.ndarray,
        reads: Array,
    ) -> None:
        width, flows, gpu = ctx.gpu_width, run.flows, ctx.machine.gpu
        assert gpu is not None
        experts.count_gpu(ctx, flows, counts, hit, width.expert_bytes, width.format)
        samples = counts.shape[0]
        pairs, moved = experts.tokens_and_bytes(counts, miss, placed.stored.bytes)
        rate = gpu.flop_per_s(ctx.gpu_rate(placed.widths[0].format))
        flows.gpu_flop += 2.0 * ctx.expert_parameters * pairs
        flows.gpu_peak_s += 2.0 * ctx.expert_parameters * pairs / rate
        flows.hbm_bytes += moved
        flows.hbm_achieved_s += moved / gpu.bandwidth_bytes_per_s
        flows.pcie_bytes += moved
        pairs, _ = experts.tokens_and_bytes(counts, on_cpu, placed.stored.bytes)
        flows.cpu_flop += 2.0 * ctx.expert_parameters * pairs
        flows.dram_bytes += float(reads.sum()) / samples
        mapping = str(ctx.option("ndp_compute", "gemv"))
        experts.count_ndp(ctx, flows, counts, on_ndp, placed.stored, "dimm_ndp", mapping)
        flows.ndp_host_bytes += float(reads.sum()) / samples

    @staticmethod
    def _hand_over(ctx: Context, run: Pass, counts: np.ndarray) -> None:
        """Activations to the host and results back once per layer, before and after the three domains."""
        pcie, gpu, ndp, dram = ctx.machine.pcie, ctx.machine.gpu, ctx.machine.dimm_ndp, ctx.machine.dram
        assert pcie is not None and gpu is not None and ndp is not None and dram is not None
        phase = run.phase("hand-over")
        moved = counts_rows(counts, ctx) * ctx.hidden_bytes
        rate = min(ctx.machine.host_to_gpus_bytes_per_s, dram.bandwidth_bytes_per_s / 2.0)
        phase.add("link", "link", "link", spread(ctx, np.full((1, ctx.moe_layers), 2.0 * moved / rate)))
        fixed = 2.0 * pcie.latency_s + 2.0 * ndp.command_s
        attention.add_latency(run, spread(ctx, np.full((1, ctx.moe_layers), fixed)))
        run.flows.pcie_bytes += moved * ctx.moe_layers
        run.flows.dram_bytes += 2.0 * moved * ctx.moe_layers

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        text = f"{ready.resident_per_layer} hot experts of each layer in HBM"
        if placed is not None:
            warm = float((placed.tier == TIER_CODE["host"]).sum(axis=1).mean())
            cold = float((placed.tier == TIER_CODE["dimm_ndp"]).sum(axis=1).mean())
            text += f", on average {warm:.0f} warm ones striped for the CPU and {cold:.0f} cold ones on single DIMMs"
        return text + "."


def expert_costs(ctx: Context, placed: Placed, counts: np.ndarray) -> dict[str, Any]:
    """Equations 1 to 4 for every expert of every sampled step, [samples, moe_layers, experts].

    ``gpu_s``, ``cpu`` and ``ndp_s`` are the seconds on each domain, inf where an expert cannot run; the other entries
    are what they are made of.
    """
    m, resident, stored = ctx.machine, placed.resident, placed.stored
    dram, pcie, gpu, cpu = m.dram, m.pcie, m.gpu, m.cpu
    assert dram is not None and pcie is not None and gpu is not None and cpu is not None
    localised = placed.home >= 0
    host_rate = np.where(localised, dram.channel_bandwidth_bytes_per_s, dram.bandwidth_bytes_per_s)
    cpu_rate = np.where(localised, dram.channel_bandwidth_bytes_per_s, dram.cpu_bandwidth_bytes_per_s)
    hot = experts.on_gpu(ctx, counts, ctx.gpu_width.expert_bytes, ctx.gpu_width.format, gpu.per_node)
    fetched = experts.on_gpu(ctx, counts, stored.bytes, placed.widths[0].format, gpu.per_node)
    link = np.maximum(stored.bytes / (ctx.machine.host_to_gpus_bytes_per_s), stored.bytes / host_rate)
    on_cpu = experts.on_cpu(ctx, counts, stored)
    read = stored.bytes / cpu_rate - stored.bytes / dram.cpu_bandwidth_bytes_per_s
    on_cpu = experts.Work(on_cpu.compute_s, on_cpu.bytes_s + np.where(counts > 0, read, 0.0), on_cpu.overlap)
    near = experts.on_ndp(ctx, counts, stored, "dimm_ndp", str(ctx.option("ndp_compute", "gemv")))
    return {
        "hot": hot,
        "fetched": fetched,
        "link_s": link,
        "gpu_s": np.where(resident, hot.seconds, np.maximum(fetched.seconds, link)),
        "cpu": on_cpu,
        "ndp": near,
        "ndp_s": np.where(localised & ~resident, near.seconds, np.inf),
    }


def scheduling_problem(
    ctx: Context, placed: Placed, counts: np.ndarray, costs: dict[str, Any], base_gpu: Array
) -> dict[str, Any]:
    """The scheduling problem of every sampled step and layer, as the scheduler takes it."""
    dram, ndp = ctx.machine.dram, ctx.machine.dimm_ndp
    assert dram is not None and ndp is not None
    samples, layers, count = counts.shape
    rows = samples * layers

    def flat(values: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.broadcast_to(values, counts.shape).reshape(rows, count))

    reads = flat(placed.stored.bytes)
    zero = np.zeros(rows)
    return {
        "gpu_s": flat(costs["gpu_s"]),
        "cpu_s": flat(costs["cpu"].seconds),
        "ndp_s": flat(costs["ndp_s"]),
        "tokens": flat(counts),
        "home": flat(placed.home),
        "gpu_reads": np.where(flat(placed.resident), 0.0, reads),
        "cpu_reads": reads,
        "dimm_read_bytes_per_s": host_read_rate(ctx, "dimm_ndp"),
        "host_bytes_per_s": dram.bandwidth_bytes_per_s,
        "base_gpu_s": np.tile(base_gpu, samples),
        "base_cpu_s": zero,
        "base_host_s": zero,
        "dimms": ndp.units,
    }


def expected_costs(ctx: Context, mean_tokens: Array, stored: Stored) -> tuple[Array, Array, Array]:
    """Expected seconds of a step of each expert from HBM, on the CPU (striped) and on its DIMM (localised).

    mean_tokens: float64 [layers, experts], as the results: an expert with a small mean load is hit in only some steps.
    """
    gpu = ctx.machine.gpu
    assert gpu is not None
    hit = 1.0 - np.exp(-mean_tokens)
    tokens = np.maximum(mean_tokens / np.maximum(hit, 1e-30), 1.0)
    width, mapping = ctx.gpu_width, str(ctx.option("ndp_compute", "gemv"))
    hot = experts.on_gpu(ctx, tokens, width.expert_bytes, width.format, gpu.per_node).seconds
    warm = experts.on_cpu(ctx, tokens, stored).seconds
    return hit * hot, hit * warm, hit * experts.on_ndp(ctx, tokens, stored, "dimm_ndp", mapping).seconds
