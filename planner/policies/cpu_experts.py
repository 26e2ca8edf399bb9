"""CPU experts (KTransformers, SOSP'25): attention, shared experts and KV on the GPU, routed experts on the CPU.

``t_layer = t_attention + max(t_shared + t_hot, t_cpu) + t_sync``: the GPU's shared and resident experts run beside
the CPU's routed ones.
"""

from __future__ import annotations

import numpy as np

from planner.context import Context
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention, experts
from planner.physics.experts import Counts, spread
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
    host_experts,
    hybrid_gpu_tier,
    streamed_prefill,
    sync_s,
)
from planner.routing import RoutingState
from planner.step import Pass


class CpuExperts(Policy):
    id = "cpu-experts"
    name = "Experts on the CPU (KTransformers)"
    sentence = (
        "Attention, shared experts and the KV cache on the GPU; routed experts are computed by the CPU from its memory."
    )
    source = "KTransformers (SOSP'25) and kt-kernel; Fiddler (arXiv 2402.07033) for the split by place"
    needs = ("gpu", "host", "pcie")
    options = (
        Option(
            "prefill_overlap",
            "float",
            0.5,
            "how much of the shorter of streaming and computing hides in a streamed prefill: published runs lie "
            "between 0 (they add up) and 1 (kt-kernel's layer-wise prefill)",
            low=0.0,
            high=1.0,
        ),
    )
    notes = (
        "Prefill runs on the CPU, or on the GPU with the experts streamed, whichever is faster for this prompt.",
        "The published system keeps no routed expert in HBM; set GPU experts per layer to keep the most loaded ones.",
    )

    def resident_default(self, ctx: Context) -> int | None:
        return 0

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        each = mean_expert_bytes(ctx.other_widths())
        streams = ctx.scenario.policy.prefill in ("auto", "stream")
        buffer = 2.0 * each if streams else 0.0
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, resident, batch, context_tokens, buffer)
        host = host_tier(ctx.machine)
        # kt-kernel keeps all experts in host memory, the resident ones too.
        host_experts(ctx, host, each * ctx.experts * ctx.moe_layers, layout.data, resident / ctx.experts)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        return [gpu, host]

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        widths = ctx.other_widths()
        resident = hottest(routing.profile, ready.resident_per_layer)
        tier = np.where(resident, TIER_CODE["gpu"], TIER_CODE["host"]).astype(np.int8)
        return Placed(
            tier,
            resident,
            mixed_widths(routing.profile, widths),
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: "among the most loaded experts of its layer, kept in HBM as asked",
                TIER_CODE["host"]: "this policy computes routed experts on the CPU, next to host memory",
            },
            nowhere(resident.shape),
        )

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        run = self._cpu_pass(ctx, ready, placed, rows, routing.counts)
        run.repeats = float(self.passes_per_step(ctx, ready.layout))
        run.copies = replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        return run

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        if mode == "cpu":
            rows = attention.prefill_rows(ctx, tokens)
            return self._cpu_pass(ctx, ready, placed, rows, routing.prefill_counts)
        return streamed_prefill(
            ctx,
            ready,
            placed.stored,
            placed.resident,
            routing.prefill_counts,
            tokens,
            placed.widths[0].format,
            overlap=float(ctx.option("prefill_overlap", 0.5)),
        )

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("cpu", "stream")

    def _cpu_pass(self, ctx: Context, ready: Prepared, placed: Placed, rows: attention.Rows, counts: Counts) -> Pass:
        layout = ready.layout
        run = Pass(tokens=rows.tokens, copies=layout.data)
        kv, device = ("gpu", "gpu") if rows.prefill else (ready.kv_location, ready.attention_device)
        attention.add_attention(ctx, run, rows, layout, kv, device)
        phase = run.phase("routed experts beside shared ones")
        add_dense_side(ctx, run, phase, rows, layout)
        add_residents(ctx, run, phase, counts, placed.resident, layout)
        add_cpu_experts(ctx, run, placed, counts, ~placed.resident)
        sent = rows.tokens * ctx.hidden_bytes * np.asarray(ctx.work.is_moe, float)
        attention.add_round_trip(ctx, run, phase, "cpu", sent)
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout, sync_s(ctx))
        return run

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        kept = ready.resident_per_layer
        return f"{ctx.experts - kept} experts of each layer on the CPU" + (f", {kept} in HBM." if kept else ".")


def add_cpu_experts(ctx: Context, run: Pass, placed: Placed, counts: Counts, mask: np.ndarray) -> None:
    """Masked experts on the CPU in the last phase of the pass: kernel time, and their share of the host channels."""
    phase, dram = run.phases[-1], ctx.machine.dram
    assert dram is not None
    work = experts.on_cpu(ctx, counts, placed.stored).only(mask)
    seconds = work.seconds
    waits = np.where(work.compute_s >= work.bytes_s, seconds, 0.0)
    phase.add("cpu", "routed_cpu", "cpu_compute", spread(ctx, waits.sum(axis=2)))
    phase.add("cpu", "routed_cpu", "dram", spread(ctx, (seconds - waits).sum(axis=2)))
    read = np.where((counts > 0) & mask, placed.stored.bytes, 0.0).sum(axis=2)
    phase.add("dram", "routed_cpu", "dram", spread(ctx, read / dram.bandwidth_bytes_per_s))
    pairs, moved = experts.tokens_and_bytes(counts, mask, placed.stored.bytes)
    run.flows.cpu_flop += 2.0 * ctx.expert_parameters * pairs
    run.flows.dram_bytes += moved
