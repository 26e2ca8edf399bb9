"""Layer streaming: the GPU computes everything, experts that are not resident cross PCIe in every pass.

Sources: DeepSpeed ZeRO-Inference and FlexGen (double buffer, zig-zag over micro-batches, arXiv 2303.06865); vLLM
``--cpu-offload-gb`` (no double buffer).
"""

from __future__ import annotations

import numpy as np

from planner.context import Context
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention
from planner.physics.memory import Ledger, host_tier
from planner.policies.base import (
    TIER_CODE,
    Option,
    Placed,
    Policy,
    Prepared,
    hottest,
    mean_expert_bytes,
    mixed_widths,
    nowhere,
)
from planner.policies.hybrid import (
    add_dense_side,
    add_host_kv,
    add_residents,
    add_streamed,
    host_experts,
    hybrid_gpu_tier,
    streamed_prefill,
)
from planner.routing import RoutingState
from planner.step import Pass


class LayerStreaming(Policy):
    id = "layer-streaming"
    name = "Layer streaming over PCIe"
    sentence = (
        "The GPU computes every expert; those that do not fit in HBM are streamed from host memory in every pass."
    )
    source = "FlexGen (arXiv 2303.06865), DeepSpeed ZeRO-Inference, vLLM cpu-offload"
    needs = ("gpu", "host", "pcie")
    options = (
        Option(
            "double_buffer", "bool", True, "stream the next layer while this one computes; off = one after the other"
        ),
        Option(
            "stream_set",
            "choice",
            "all",
            "all: every expert of the layer crosses; hit: only the experts that were routed to",
            choices=("all", "hit"),
        ),
    )
    notes = (
        "Micro-batches form a zig-zag group: a layer crosses the link once for all of them, and each reads the "
        "experts that it hits from HBM.",
    )

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        each = mean_expert_bytes(ctx.other_widths())
        buffers = 2 if ctx.option("double_buffer", True) else 1
        layer = each * (ctx.experts - resident) / layout.tensor
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, resident, batch, context_tokens, buffers * layer)
        host = host_tier(ctx.machine)
        host_experts(ctx, host, each * (ctx.experts - resident) * ctx.moe_layers, layout.data)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        return [gpu, host]

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        widths = ctx.other_widths()
        resident = hottest(routing.profile, ready.resident_per_layer)
        tier = np.where(resident, TIER_CODE["gpu"], TIER_CODE["streamed"]).astype(np.int8)
        return Placed(
            tier,
            resident,
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: "among the most loaded experts of its layer; HBM has room for these",
                TIER_CODE["streamed"]: "does not fit in HBM; crosses PCIe in every pass",
            },
            nowhere(resident.shape),
        )

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        passes = self.passes_per_step(ctx, ready.layout)
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        layout = ready.layout
        copies = replicas_at_work(ctx.scenario.workload.batch, layout)
        run = Pass(tokens=rows.tokens, copies=copies, repeats=float(passes))
        whole_layers = ctx.option("stream_set", "all") == "all"
        overlap = 1.0 if ctx.option("double_buffer", True) else 0.0
        if ready.attention_device == "gpu" and ready.kv_location == "gpu" and whole_layers:
            # The next layer streams behind the whole of this one, attention included.
            attention.add_attention(ctx, run, rows, layout, "gpu", "gpu")
            phase = run.phases[-1]
            phase.overlap = overlap
        else:
            attention.add_attention(ctx, run, rows, layout, ready.kv_location, ready.attention_device)
            phase = run.phase("experts, streamed", overlap)
        add_dense_side(ctx, run, phase, rows, layout)
        add_residents(ctx, run, phase, routing.counts, placed.resident, layout)
        for index, width in enumerate(placed.widths):
            others = placed.resident | (placed.stored.format != index)
            add_streamed(
                ctx, run, phase, placed.stored, others, routing.counts, width.format, whole_layers, 1.0 / passes
            )
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout)
        return run

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
            overlap=1.0 if ctx.option("double_buffer", True) else 0.0,
        )

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("stream",)

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        streamed = ctx.experts - ready.resident_per_layer
        return (
            f"{ready.resident_per_layer} experts of each layer in HBM; the other {streamed} cross PCIe "
            f"{'once per step' if ctx.option('stream_set', 'all') == 'all' else 'when they are hit'}."
        )
