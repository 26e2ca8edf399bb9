"""CPU experts (KTransformers, SOSP'25): attention, shared experts and KV on the GPU, routed experts on the CPU.

``t_layer = t_attention + max(t_shared + t_hot, t_cpu) + t_sync``: the GPU's shared and resident experts run beside
the CPU's routed ones.

Expert Deferral (decode only): of a token's k experts the d with the least gate weight are added one layer later, so the
CPU computes them beside the next layer's attention (:mod:`planner.policies.early_cpu`). Each expert is read once in a
pass, so one with n tokens is late only if all of them defer it: a share ``(d/k)^n`` in the mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.errors import PlanError
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention, experts, transfers
from planner.physics.experts import Counts, spread
from planner.physics.memory import Ledger, host_tier
from planner.physics.operation import Array, Phase
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
from planner.policies.early_cpu import add_deferred_cpu
from planner.policies.hybrid import (
    add_dense_side,
    add_host_kv,
    add_residents,
    host_experts,
    hybrid_gpu_tier,
    streamed_prefill,
    sync_s,
)
from planner.result import Details
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
        Option(
            "deferred_experts",
            "int",
            0,
            "experts of a token whose results are added one layer later (published: 6 of 8 for DeepSeek-V3, 4 of 8 for "
            "Qwen2-57B, 4 of 6 for DeepSeek-V2.5; outputs change slightly)",
            low=0,
            high=1000,
        ),
        Option(
            "hot_placement",
            "choice",
            "layers",
            "which experts are kept in HBM, given how many: layers: the most loaded of each layer; frequency: the most "
            "loaded of the model; dynamic: of each layer, by the prefill of these sequences; uniform: as many of each "
            "layer, without statistics; front-loading: whole layers from the first one on",
            choices=("layers", "frequency", "dynamic", "uniform", "front-loading"),
        ),
    )
    notes = (
        "Prefill runs on the CPU, or on the GPU with the experts streamed, whichever is faster for this prompt.",
        "The published system keeps no routed expert in HBM; set GPU experts per layer to keep the most loaded ones.",
    )

    def check(self, ctx: Context) -> None:
        deferred, most = int(ctx.option("deferred_experts", 0)), max(ctx.top_k - LEAST_IMMEDIATE, 0)
        if deferred > most:
            raise PlanError(
                f"policy.options.deferred_experts is {deferred}; of the {ctx.top_k} experts of a token at least "
                f"{LEAST_IMMEDIATE} stay in their layer, so it takes 0 to {most}."
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
        strategy = str(ctx.option("hot_placement", "layers"))
        resident = hot_experts(strategy, ready.resident_per_layer, routing)
        tier = np.where(resident, TIER_CODE["gpu"], TIER_CODE["host"]).astype(np.int8)
        return Placed(
            tier,
            resident,
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: f"{WHY_HOT[strategy]}, kept in HBM as asked",
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
        sent = rows.tokens * ctx.hidden_bytes * np.asarray(ctx.work.is_moe, float)
        transfers.add_round_trip(ctx, run, phase, "cpu", sent)
        deferred, on_cpu = int(ctx.option("deferred_experts", 0)), np.broadcast_to(~placed.resident, counts.shape)
        if deferred and not rows.prefill:
            add_deferred_cpu(ctx, run, phase, placed, counts, on_cpu, _late_share(ctx, counts))
        else:
            add_cpu_experts(ctx, run, phase, placed, counts, on_cpu)
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout, sync_s(ctx))
        return run

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        reads = np.maximum((routing.counts > 0).sum(), 1)
        on_cpu = (routing.counts > 0) & ~placed.resident
        facts = []
        if placed.resident.any():
            facts.append(("Hit rate", f"{1 - on_cpu.sum() / reads:.1%} of the experts that a pass reads are in HBM."))
        if int(ctx.option("deferred_experts", 0)):
            late = (_late_share(ctx, routing.counts) * on_cpu).sum() / max(on_cpu.sum(), 1)
            facts.append(("Deferred", f"{late:.1%} of the CPU's experts are awaited one layer later; outputs change."))
        return Details(facts=tuple(facts)) if facts else None

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        kept, deferred = ready.resident_per_layer, int(ctx.option("deferred_experts", 0))
        text = f"{ctx.experts - kept} experts of each layer on the CPU" + (f", {kept} in HBM" if kept else "")
        return text + (f"; {deferred} of a token's {ctx.top_k} are added one layer later." if deferred else ".")


def _late_share(ctx: Context, counts: Counts) -> Array:
    """Mean share of each expert's work that may be late: all of its tokens must have it among their least."""
    late: Array = (int(ctx.option("deferred_experts", 0)) / ctx.top_k) ** np.maximum(counts, 1)
    late[:, -1] = 0.0  # nothing follows the last MoE layer that could wait for it
    return late


LEAST_IMMEDIATE = 2  # experts of a token that are never deferred (KTransformers, SOSP'25)
WHY_HOT = {
    "layers": "among the most loaded experts of its layer",
    "frequency": "among the most loaded experts of the model",
    "dynamic": "among the most used experts of its layer in the prefill of these sequences",
    "uniform": "one of as many of each layer, chosen without statistics",
    "front-loading": "in one of the first layers, which fill the room in HBM",
}


def hot_experts(strategy: str, per_layer: int, routing: RoutingState) -> NDArray[np.bool_]:
    """Experts in HBM, bool [layers, experts], ``per_layer`` times the layers in all (kt-kernel's placement strategies).

    Without statistics the choice is by index, which says nothing about load.
    """
    layers, experts_each = routing.shape
    if strategy == "dynamic":
        return hottest(routing.context, per_layer)
    if strategy == "uniform":
        return np.broadcast_to(np.arange(experts_each) < per_layer, routing.shape).copy()
    if strategy == "layers":
        return hottest(routing.profile, per_layer)
    load = (
        routing.profile if strategy == "frequency" else -np.arange(layers, dtype=float)[:, None] * np.ones(experts_each)
    )
    chosen = np.zeros(load.size, bool)
    chosen[np.argsort(-load.ravel(), kind="stable")[: per_layer * layers]] = True
    return chosen.reshape(load.shape)


def add_cpu_experts(
    ctx: Context, run: Pass, phase: Phase, placed: Placed, counts: Counts, mask: NDArray[np.bool_]
) -> None:
    """Masked experts on the CPU in a phase of the pass: kernel time, and their share of the host channels."""
    dram = ctx.machine.dram
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
