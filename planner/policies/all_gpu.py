"""Everything in HBM: tensor, expert, data and pipeline parallel over the system's GPUs.

The slowest rank sets the time of every layer. Sources: Megatron-LM (tensor and pipeline parallel), GShard and
DeepSeek-V3 (expert parallel with dispatch and combine all-to-all), as served by vLLM and SGLang.
"""

from __future__ import annotations

import numpy as np

from planner.context import Context
from planner.eplb import Slots, balanced, imbalance, in_order, per_rank, tokens_of
from planner.errors import PlanError
from planner.parallel import Layout, gpu_layout, passes_per_step, pipeline_factor, replicas_at_work, sequences_per_pass
from planner.physics import attention, collective, experts, transfers
from planner.physics.attention import Rows
from planner.physics.experts import Counts, spread
from planner.physics.memory import Ledger, gpu_tier
from planner.physics.operation import Phase, phase_times
from planner.policies.base import TIER_CODE, Option, Placed, Policy, Prepared, mean_expert_bytes, mixed_widths, nowhere
from planner.result import Details, Lane
from planner.routing import RoutingState
from planner.step import Pass


class AllGpu(Policy):
    id = "all-gpu"
    name = "All on GPUs"
    sentence = "Every expert is resident in HBM; the GPUs share each layer and the slowest one sets the time."
    source = (
        "vLLM / SGLang tensor, expert, data and pipeline parallel; DeepSeek-V3 (arXiv 2412.19437) for expert parallel"
    )
    needs = ("gpu",)
    kv_choices = ("gpu",)
    options = (
        Option(
            "attention_data_parallel",
            "bool",
            False,
            "each GPU runs attention for its own sequences, weights replicated (default: on for expert-parallel MLA)",
        ),
        Option(
            "redundant_experts",
            "int",
            0,
            "further slots of each layer of an expert-parallel group for copies of its heaviest experts (EPLB; "
            "DeepSeek-V3 with 288 slots: 32)",
            low=0,
            high=100_000,
        ),
        Option(
            "expert_order",
            "choice",
            "balanced",
            "experts of an expert-parallel group: balanced: dealt out by learnt load; in-order: neighbours together",
            choices=("balanced", "in-order"),
        ),
        Option(
            "overlap_batches",
            "bool",
            False,
            "dispatch and combine of one micro-batch run beside the computing of the other (DeepSeek, SGLang two-batch "
            "overlap); needs expert parallel and two micro-batches",
        ),
    )
    notes = ("EPLB is its global policy: copies may lie on any GPU of the group; tokens divide evenly over copies.",)

    def layout(self, ctx: Context) -> Layout:
        return gpu_layout(ctx)

    def check(self, ctx: Context) -> None:
        if ctx.option("overlap_batches", False):
            layout = gpu_layout(ctx)
            if not layout.expert or layout.micro_batches < 2:
                raise PlanError(
                    "policy.options.overlap_batches is on, which needs policy.expert_parallel on and "
                    f"policy.micro_batches from 2; they are {'on' if layout.expert else 'off'} and "
                    f"{layout.micro_batches}."
                )
        more = int(ctx.option("redundant_experts", 0))
        if not more:
            return
        layout, field = gpu_layout(ctx), "policy.options.redundant_experts"
        if not layout.expert:
            raise PlanError(f"{field} is {more}, which needs policy.expert_parallel on; it takes 0 here.")
        if ctx.option("expert_order", "balanced") == "in-order":
            raise PlanError(f"{field} is {more}, which needs policy.options.expert_order 'balanced'.")
        if more > (most := ctx.experts * (layout.tensor - 1)):
            raise PlanError(f"{field} is {more}; {layout.tensor} copies of {ctx.experts} experts take at most {most}.")

    def resident_default(self, ctx: Context) -> int | None:
        return ctx.experts

    def _resident(self, ctx: Context, layout: Layout, location: str, batch: int, context: float) -> int:
        super()._resident(ctx, layout, location, batch, context)  # refuses more than there are
        return ctx.experts  # all of them, whatever is asked for

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        each = mean_expert_bytes(ctx.other_widths())
        slots = ctx.experts + int(ctx.option("redundant_experts", 0))
        per_rank = -(-slots // layout.tensor) * layout.tensor / slots if layout.expert else 1.0
        return [
            gpu_tier(
                ctx,
                layout,
                batch,
                context_tokens,
                kv_on_gpu=True,
                expert_bytes=each * slots * ctx.moe_layers,
                expert_fullest_share=per_rank,
            )
        ]

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        widths = ctx.other_widths()
        shape = routing.shape
        tier = np.full(shape, TIER_CODE["gpu"], np.int8)
        why = "fits in HBM with all the others"
        if ready.layout.expert:
            how = "dealt out by learnt load so that GPUs are even"
            if ctx.option("expert_order", "balanced") == "in-order":
                how = "neighbours together"
            elif more := int(ctx.option("redundant_experts", 0)):
                how = f"with {more} further copies of the heaviest, {how}"
            why = f"on one of {ready.layout.tensor} GPUs, the experts {how}"
        return Placed(
            tier,
            np.ones(shape, bool),
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {TIER_CODE["gpu"]: why},
            nowhere(shape),
            one_form=True,
        )

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        rows = attention.decode_rows(ctx, sequences_per_pass(ctx.scenario.workload.batch, ready.layout))
        passes = passes_per_step(ctx.scenario.workload.batch, ready.layout)
        run = self._pass(ctx, ready, placed, rows, routing.counts, routing, passes)
        run.copies = replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        return run

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        rows = attention.prefill_rows(ctx, tokens)
        return self._pass(ctx, ready, placed, rows, routing.prefill_counts, routing, 1)

    def _pass(
        self,
        ctx: Context,
        ready: Prepared,
        placed: Placed,
        rows: Rows,
        counts: Counts,
        routing: RoutingState,
        passes: int,
    ) -> Pass:
        layout = ready.layout
        run = Pass(tokens=rows.tokens, copies=layout.data)
        attention.add_attention(ctx, run, rows, layout, "gpu", "gpu")
        dense = run.phase("dense")
        attention.add_dense(ctx, run, dense, rows, layout)
        attention.add_shared(ctx, run, dense, rows, layout)
        self._routed(ctx, run, placed, rows, counts, routing, layout)
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout)
        self._stage_links(ctx, run, rows, layout)
        layer_s = np.zeros(ctx.layers)
        if layout.pipeline > 1:
            for phase in run.phases:
                total = phase_times(phase).total
                # Stages are compared by their work: launches are the same for each layer, and stay when rates change.
                if total.shape[2] == ctx.layers and phase.name != "overhead":
                    layer_s += total.mean(axis=(0, 1))
        run.repeats = pipeline_factor(layer_s, layout, passes)
        run.flow_repeats = float(passes)
        run.in_flight = layout.pipeline / pipeline_factor(layer_s, layout, layout.pipeline)
        return run

    def _routed(
        self,
        ctx: Context,
        run: Pass,
        placed: Placed,
        rows: Rows,
        counts: Counts,
        routing: RoutingState,
        layout: Layout,
    ) -> None:
        phase = run.phase("routed experts")
        t = layout.tensor
        form, slots = placed.stored.format, None
        if layout.expert:
            slots = expert_slots(ctx, routing, t)
            counts, form = tokens_of(counts, slots), np.take_along_axis(form, slots.expert, axis=1)
        seconds, waits_compute = np.zeros(counts.shape), np.zeros(counts.shape)
        for index, width in enumerate(placed.widths):
            mask = form == index
            work = experts.on_gpu(ctx, counts, width.expert_bytes, width.format, 1 if layout.expert else t).only(mask)
            seconds += work.seconds
            waits_compute += np.where(work.compute_s >= work.bytes_s, work.seconds, 0.0)
            experts.count_gpu(ctx, run.flows, counts, mask, width.expert_bytes, width.format)
        if slots is not None:
            slowest, compute_share = self._slowest_rank(seconds, waits_compute, slots, t)
            phase.add("gpu", "routed_gpu", "gpu_compute", spread(ctx, slowest * compute_share))
            phase.add("gpu", "routed_gpu", "hbm", spread(ctx, slowest * (1.0 - compute_share)))
        else:
            phase.add("gpu", "routed_gpu", "gpu_compute", spread(ctx, waits_compute.sum(axis=2)))
            phase.add("gpu", "routed_gpu", "hbm", spread(ctx, (seconds - waits_compute).sum(axis=2)))
        if t > 1:
            self._collective(ctx, run, phase, rows, layout)

    @staticmethod
    def _slowest_rank(
        seconds: np.ndarray, waits_compute: np.ndarray, slots: Slots, ranks: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Longest rank of each sample and layer, and the share of its time that waits for compute."""
        of_rank = per_rank(seconds, slots, ranks)
        slowest = of_rank.argmax(axis=0)[None]
        longest = np.take_along_axis(of_rank, slowest, 0)[0]
        waits = np.take_along_axis(per_rank(waits_compute, slots, ranks), slowest, 0)[0]
        return longest, np.divide(waits, longest, out=np.zeros_like(waits), where=longest > 0)

    @staticmethod
    def _collective(ctx: Context, run: Pass, phase: Phase, rows: Rows, layout: Layout) -> None:
        token_bytes = ctx.hidden_bytes
        whole = collective.all_reduce_bytes(rows.tokens * token_bytes, layout.tensor)
        if layout.attention_data:
            # Rows are gathered before the sliced weights and reduced back to their owners.
            whole = 2.0 * collective.all_gather_bytes(rows.tokens * token_bytes, layout.tensor)
        moe = np.asarray(ctx.work.is_moe, float)
        dense = np.asarray((np.asarray(ctx.work.dense_parameters) > 0) & ~ctx.work.is_moe, float)
        overlap = bool(ctx.option("overlap_batches", False))
        lane: Lane = "network" if overlap else "gpu"
        if not layout.expert:
            transfers.add_collective(ctx, run, phase, whole * (moe + dense), layout.tensor)
            return
        # Dispatch and combine, each once; with sliced attention the tokens are on every rank already.
        copies = collective.distinct_ranks(ctx.top_k, layout.tensor)
        per_rank = rows.tokens / layout.tensor
        # Tokens are sent at the precision that the products take, and come back at 16 bit (DeepEP).
        sent_token = token_bytes / 2.0 if ctx.dense_rate == "fp8" else token_bytes
        both = sent_token + token_bytes if layout.attention_data else token_bytes
        gpu = ctx.machine.gpu
        assert gpu is not None
        # The other batch is in attention for a part of the time, and among the experts for the rest.
        beside = [p for p in run.phases if p.name == "attention"] if overlap else []
        places, share = [phase, *beside], 1.0 / (1 + len(beside))
        if layout.attention_data and layout.tensor > gpu.per_node and ctx.machine.network is not None:
            # A token crosses to a node once and is handed on inside it.
            nodes = layout.tensor // gpu.per_node
            across = collective.all_to_all_bytes(per_rank, collective.distinct_ranks(ctx.top_k, nodes), both, nodes)
            inside = collective.all_to_all_bytes(per_rank, copies, both, gpu.per_node)
            for place in places:
                transfers.add_two_level(
                    ctx, run, place, share * across * moe, share * inside * moe, layout.tensor, lane
                )
                transfers.add_collective(ctx, run, place, share * whole * dense, layout.tensor, lane)
            return
        sent = collective.all_to_all_bytes(per_rank, copies, both, layout.tensor)
        if not layout.attention_data:
            sent += collective.all_gather_bytes(rows.tokens * token_bytes, layout.tensor)
        for place in places:
            transfers.add_collective(ctx, run, place, share * (sent * moe + whole * dense), layout.tensor, lane)

    @staticmethod
    def _stage_links(ctx: Context, run: Pass, rows: Rows, layout: Layout) -> None:
        phase = run.phase("stage hand-over")
        if layout.pipeline == 1:
            return
        gpu = ctx.machine.gpu
        assert gpu is not None
        crosses = layout.tensor * layout.pipeline > gpu.per_node
        link = ctx.machine.network if crosses and ctx.machine.network else ctx.machine.scaleup or ctx.machine.pcie
        assert link is not None
        # Each rank of a stage sends its slice; the next stage gathers it over the faster links inside the node.
        sent = rows.tokens * ctx.hidden_bytes / layout.tensor
        hops = np.full(layout.pipeline - 1, sent / link.bytes_per_s)
        phase.add("gpu", "collective", "collective", hops)
        phase.add("gpu", "overhead", "overhead", np.full(layout.pipeline - 1, link.latency_s))
        total = rows.tokens * ctx.hidden_bytes * (layout.pipeline - 1)
        if crosses and ctx.machine.network:
            run.flows.network_bytes += total
        elif ctx.machine.scaleup:
            run.flows.scaleup_bytes += total
        else:
            run.flows.pcie_bytes += total

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        """How uneven the GPUs of an expert-parallel group are, without balancing, dealt out, and with copies."""
        ranks = ready.layout.tensor
        if not ready.layout.expert:
            return None
        more = int(ctx.option("redundant_experts", 0))
        ways = [
            ("experts in order", in_order(ctx.moe_layers, ctx.experts, ranks)),
            ("dealt out by learnt load", balanced(routing.profile, ranks)),
        ]
        if more:
            ways.append((f"with {more} copies (EPLB)", balanced(routing.profile, ranks, more)))
        told = ", ".join(f"{imbalance(routing.counts, s, ranks).mean():.3f} {words}" for words, s in ways)
        label = "Imbalance of the GPUs"
        return Details(facts=((label, f"(max - mean) / mean of the tokens of a GPU, mean over passes: {told}."),))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        return f"All {ctx.experts} experts of each layer in HBM, {ready.layout.words()}."


def expert_slots(ctx: Context, routing: RoutingState, ranks: int) -> Slots:
    """Slots of the experts on the GPUs of an expert-parallel group, by learnt load or in order."""
    if ctx.option("expert_order", "balanced") == "in-order":
        return in_order(ctx.moe_layers, ctx.experts, ranks)
    return balanced(routing.profile, ranks, int(ctx.option("redundant_experts", 0)))
