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
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention, collective, transfers
from planner.physics.memory import Ledger, host_tier
from planner.physics.operation import Array, Phase, phase_times
from planner.policies import trimoe_domains, trimoe_futures, trimoe_report, trimoe_times
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
    host_experts,
    hybrid_gpu_tier,
    streamed_prefill,
    sync_s,
)
from planner.policies.near_data import EXCLUSION, NDP_COMPUTE, buffer_notes, check_widths
from planner.policies.trimoe_costs import scheduling_problem
from planner.policies.trimoe_futures import FuturePlaced
from planner.policies.trimoe_layout import starting_layout
from planner.policies.trimoe_mixed import prefill_format, warm_stored, where_warm
from planner.policies.trimoe_pass import add_domains, add_hand_over
from planner.policies.trimoe_times import TIME_TABLE
from planner.result import Details, ScheduleReport
from planner.routing import RoutingState
from planner.schedule import START_GREEDY, START_LAYOUT, ScheduleResult, schedule_layers
from planner.step import Pass


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
        TIME_TABLE,
        NDP_COMPUTE,
        EXCLUSION,
        *trimoe_futures.OPTIONS,
    )
    notes = (
        "The paper keeps the KV cache in host DIMMs and does not say which device computes decode attention; here the "
        "cache stays in HBM while it fits beside the weights.",
        "The classes hot, warm and cold follow from the costs; the paper's thresholds are not published.",
    )

    def check(self, ctx: Context) -> None:
        check_widths(ctx, "dimm_ndp", (w for w, _ in ctx.other_widths()))
        trimoe_futures.check(ctx)
        trimoe_times.check(ctx)

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        each = trimoe_futures.held_bytes(ctx, mean_expert_bytes(ctx.other_widths()))
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, resident, batch, context_tokens, 2.0 * each / layout.tensor)
        host = host_tier(ctx.machine, name="Host DIMMs (CPU and NDP share them)")
        # All routed experts stay in the DIMMs, those in HBM too: a hot one can turn warm.
        host_experts(ctx, host, each * ctx.experts * ctx.moe_layers, layout.data, resident / ctx.experts)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        return [gpu, host, *trimoe_futures.ledger(ctx, host, each, resident, layout.data)]

    # --- layout ----------------------------------------------------------------------------------------------------
    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        widths = ctx.other_widths()
        stored = mixed_widths(routing, widths)
        resident = hottest(routing.profile, ready.resident_per_layer)
        warm = warm_stored(ctx, stored, len(widths))
        start = starting_layout(ctx, routing, stored, resident, warm)
        tier = np.full(resident.shape, TIER_CODE["dimm_ndp"], np.int8)
        tier[start.striped] = TIER_CODE["host"]
        tier[resident] = TIER_CODE["gpu"]
        base = Placed(
            tier,
            resident,
            where_warm(stored, warm, start.striped),
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: "hot: among the most loaded experts of its layer, as many as HBM has room for",
                TIER_CODE["host"]: "warm: with this load the CPU finishes it sooner; striped over all DIMMs",
                TIER_CODE["dimm_ndp"]: "cold: few tokens, so its DIMM finishes it where it lies",
            },
            start.home,
        )
        return trimoe_futures.placed(ctx, base, start)

    # --- passes ----------------------------------------------------------------------------------------------------
    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        run, phase, base = self.begin(ctx, ready, routing.counts)
        costs, plan = self._assigned(ctx, ready, placed, routing.counts, base)
        add_domains(ctx, run, phase, placed, routing.counts, costs, plan)
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
        add_hand_over(ctx, run, counts)
        phase = run.phase("three domains")
        add_dense_side(ctx, run, phase, rows, layout)
        if layout.tensor > 1:
            sent = collective.all_reduce_bytes(rows.tokens * ctx.hidden_bytes, layout.tensor)
            transfers.add_collective(ctx, run, phase, sent * np.asarray(ctx.work.is_moe, float), layout.tensor)
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
            prefill_format(ctx, placed.widths),
            overlap=1.0,
        )

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("stream",)

    def _assigned(
        self, ctx: Context, ready: Prepared, placed: Placed, counts: np.ndarray, base_gpu: Array
    ) -> tuple[dict[str, Any], ScheduleResult]:
        """Costs and schedule of these counts; decode pass and details of a plan share them."""

        def answer() -> tuple[dict[str, Any], ScheduleResult]:
            costs = trimoe_futures.costs(ctx, placed, counts)
            return costs, self._schedule(ctx, placed, counts, costs, base_gpu)

        return ctx.once("trimoe schedule", (ready, placed, counts), answer)

    def _schedule(
        self, ctx: Context, placed: Placed, counts: np.ndarray, costs: dict[str, Any], base_gpu: Array
    ) -> ScheduleResult:
        start = START_LAYOUT if ctx.option("start", "greedy") == "layout" else START_GREEDY
        chosen = str(ctx.option("schedule", "published"))
        if isinstance(placed, FuturePlaced) and trimoe_domains.wanted(ctx):
            made = trimoe_domains.problem(ctx, placed, counts, costs, base_gpu)
            return trimoe_domains.schedule(made, trimoe_domains.axes(ctx), start, chosen)
        instance = scheduling_problem(trimoe_futures.view(ctx), placed, counts, costs, base_gpu)
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
        costs = trimoe_futures.costs(ctx, placed, counts)
        start = START_LAYOUT if ctx.option("start", "greedy") == "layout" else START_GREEDY
        if isinstance(placed, FuturePlaced) and trimoe_domains.wanted(ctx):
            made = trimoe_domains.problem(ctx, placed, counts, costs, base)
            return trimoe_domains.report(
                made, trimoe_domains.axes(ctx), start, str(ctx.option("schedule", "published"))
            )
        instance = scheduling_problem(trimoe_futures.view(ctx), placed, counts, costs, base)
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

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details:
        """Hot, warm and cold experts: by the domain that the schedule gives them, and by other definitions.

        All sampled steps; the improved schedule, which takes seconds, is asked for the first one only.
        """
        from planner.layout.classes import classes

        counts = routing.counts[:1] if ctx.option("schedule", "published") == "improved" else routing.counts
        _, _, base = self.begin(ctx, ready, counts)
        costs, plan = self._assigned(ctx, ready, placed, counts, base)
        facts, failure = trimoe_report.told(self, ctx, ready, placed, routing, counts, costs, plan)
        return Details(classes=classes(routing.counts, plan.domain.reshape(counts.shape)), facts=facts, failure=failure)

    def plan_notes(self, ctx: Context) -> tuple[str, ...]:
        return (*buffer_notes(ctx, "dimm_ndp"), *trimoe_times.notes(ctx))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        text = f"{ready.resident_per_layer} hot experts of each layer in HBM"
        if placed is not None:
            warm = float((placed.tier == TIER_CODE["host"]).sum(axis=1).mean())
            cold = float((placed.tier == TIER_CODE["dimm_ndp"]).sum(axis=1).mean())
            text += f", on average {warm:.0f} warm ones striped for the CPU and {cold:.0f} cold ones on single DIMMs"
            beside = float((placed.tier == TIER_CODE["cxl_ndp"]).sum(axis=1).mean())
            text += f", {beside:.0f} more in CXL-NDP" if beside else ""
        return text + "."
