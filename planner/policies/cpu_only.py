"""Everything on the CPU (llama.cpp and SGLang without a GPU): one memory, one set of cores, all in turn.

Per layer, with n_e tokens of expert e and B_cpu what the kernels achieve of the memory's bandwidth:

    t_layer = t(projections) + t(attention core) + t(shared, dense) + sum_e max(n_e F / P_cpu, W / B_cpu) + t_sync

Every weight outside the routed experts is read once per pass as well, from the same channels.
"""

from __future__ import annotations

import numpy as np

from planner.context import Context
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention, experts
from planner.physics import cpu as cpu_physics
from planner.physics.attention import Rows
from planner.physics.experts import Counts, Stored, spread
from planner.physics.memory import Ledger, activation_bytes, host_tier, kv_bytes_per_sequence
from planner.physics.operation import Array, Phase
from planner.policies.base import TIER_CODE, Placed, Policy, Prepared, mean_expert_bytes, mixed_widths, nowhere
from planner.result import PartId
from planner.routing import RoutingState
from planner.step import Pass


class CpuOnly(Policy):
    id = "cpu-only"
    name = "CPU only"
    sentence = "All weights and the KV cache in host memory; the CPU computes everything."
    source = "llama.cpp and ik_llama.cpp without a GPU; SGLang CPU backend (LMSYS, 2025-07-14)"
    needs = ("host",)
    kv_choices = ("host",)
    notes = (
        "Attention, shared experts and the head are read from the same channels as the routed experts.",
        "GPUs of the machine, if it has any, stand still.",
    )

    def layout(self, ctx: Context) -> Layout:
        return Layout(data=ctx.machine.nodes, micro_batches=ctx.scenario.policy.micro_batches)

    def prepare(self, ctx: Context) -> Prepared:
        layout = self.layout(ctx)
        w = ctx.scenario.workload
        ledger = self.ledger(ctx, layout, "host", 0, w.batch, float(ctx.full_context_tokens))
        return Prepared(layout, "host", "cpu", 0, ledger)

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        host, work = host_tier(ctx.machine), ctx.work
        nodes = ctx.machine.nodes

        def add(name: str, group: str, parameters: Array) -> None:
            host.add(name, float(np.sum(ctx.group_bytes(group, np.asarray(parameters, float)))) * nodes)

        add("attention", "mixer", work.mixer_parameters)
        add("dense and shared", "dense", work.dense_parameters)
        add("dense and shared", "shared", work.shared_parameters)
        add("dense and shared", "router", work.router_parameters)
        add("embedding and head", "embed", np.array([work.embed_parameters]))
        if not ctx.arch.tied_embeddings:
            add("embedding and head", "lm_head", np.array([work.lm_head_parameters]))
        each = mean_expert_bytes(ctx.other_widths())
        host.add("experts", each * ctx.experts * ctx.moe_layers * nodes)
        host.add("KV cache", kv_bytes_per_sequence(ctx, context_tokens, layout) * batch)
        rows = max(min(ctx.chunk_tokens, ctx.new_prompt_tokens * batch), batch)
        host.add("activations", activation_bytes(ctx, rows, batch, 1) * nodes)
        return [host]

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        shape = routing.shape
        widths = ctx.other_widths()
        code = TIER_CODE["host"]
        return Placed(
            np.full(shape, code, np.int8),
            np.zeros(shape, bool),
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {code: "the only memory of this plan"},
            nowhere(shape),
        )

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        copies = replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        run = _pass(ctx, rows, routing.counts, placed.stored, copies)
        run.repeats = float(self.passes_per_step(ctx, ready.layout))
        return run

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        rows = attention.prefill_rows(ctx, tokens)
        return _pass(ctx, rows, routing.prefill_counts, placed.stored, float(ready.layout.data))

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("cpu",)


def _pass(ctx: Context, rows: Rows, counts: Counts, stored: Stored, copies: float) -> Pass:
    run = Pass(tokens=rows.tokens, copies=copies)
    work = ctx.work
    first = run.phase("attention")
    _weights(ctx, run, first, "attention", "mixer", work.mixer_parameters, rows.tokens)
    _weights(ctx, run, first, "dense_shared", "router", work.router_parameters, rows.tokens)
    attention.add_core_on_cpu(ctx, run, first, rows, from_gpu=False)
    second = run.phase("experts")
    _weights(ctx, run, second, "dense_shared", "dense", work.dense_parameters, rows.tokens)
    _weights(ctx, run, second, "dense_shared", "shared", work.shared_parameters, rows.tokens)
    _routed(ctx, run, second, counts, stored)
    _weights(
        ctx, run, run.phase("head"), "dense_shared", "lm_head", np.array([work.lm_head_parameters]), rows.logits_rows
    )
    cpu = ctx.machine.cpu
    assert cpu is not None
    # No GPU to wait for: beyond its bytes and FLOP a layer costs the barriers of all threads between operations.
    fixed = cpu.thread_sync_s * cpu.cores or cpu.layer_sync_s
    run.phase("overhead").add("overhead", "overhead", "overhead", np.full(ctx.layers, fixed))
    return run


def _weights(ctx: Context, run: Pass, phase: Phase, part: PartId, group: str, parameters: Array, tokens: float) -> None:
    """One product per layer: ``tokens`` rows against the weights of ``group``, read once."""
    cpu, dram = ctx.machine.cpu, ctx.machine.dram
    assert cpu is not None and dram is not None
    held = np.asarray(parameters, float)
    stored = ctx.group_bytes(group, held)
    compute = cpu_physics.expert_compute_s(1.0, tokens, cpu, ctx.dense_cpu_matrix) * held
    moved = stored / dram.cpu_bandwidth_bytes_per_s
    phase.add_operation("cpu", part, compute, moved, cpu.overlap, "cpu_compute", "dram")
    phase.add("dram", part, "dram", stored / dram.bandwidth_bytes_per_s)
    run.flows.cpu_flop += 2.0 * float(held.sum()) * tokens
    run.flows.dram_bytes += float(stored.sum())


def _routed(ctx: Context, run: Pass, phase: Phase, counts: Counts, stored: Stored) -> None:
    dram = ctx.machine.dram
    assert dram is not None
    work = experts.on_cpu(ctx, counts, stored)
    seconds = work.seconds
    waits = work.compute_s >= work.bytes_s
    phase.add("cpu", "routed_cpu", "cpu_compute", spread(ctx, np.where(waits, seconds, 0.0).sum(axis=2)))
    phase.add("cpu", "routed_cpu", "dram", spread(ctx, np.where(waits, 0.0, seconds).sum(axis=2)))
    pairs, moved = experts.tokens_and_bytes(counts, np.ones(counts.shape, bool), stored.bytes)
    reads = np.where(counts > 0, stored.bytes, 0.0).sum(axis=2)
    phase.add("dram", "routed_cpu", "dram", spread(ctx, reads / dram.bandwidth_bytes_per_s))
    run.flows.cpu_flop += 2.0 * ctx.expert_parameters * pairs
    run.flows.dram_bytes += moved
