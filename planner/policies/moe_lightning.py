"""MoE-Lightning (arXiv 2411.11217, ASPLOS'25): CPU attention beside the GPU, weights paged over micro-batches.

Policy tuple: N (the scenario's batch), mu (sequences of a micro-batch), A_g (attention on the GPU), F_g (experts on the
GPU), r_w (share of the experts kept in HBM), r_c (share of the KV cache kept in HBM). Default A_g = 0 with the KV cache
in host memory, F_g = 1. Hierarchical roofline: work x on level i with data on level j runs at

    P = min(P_peak_i, B_i I_i, B_ji I_j)

so a layer takes, for the whole batch,

    T = max(comm, T_cpu, T_gpu),   comm = ((1 - r_w) W_layer + hidden states) / B_link,   T_x = max(bytes / B, FLOP / P)

where W_layer crosses once for all N / mu micro-batches and each of them reads the experts that it hits from HBM.
CGOPipe: CPU attention runs two micro-batches ahead and the next layer's weights cross in N / mu pages between the
hidden states, so with three micro-batches or more nothing waits for anything but the longest; with two this holds for
half of a layer, with one for none of it: attention and experts then follow each other, and only the weights cross
beside them. The tuple is found by trying a few mu (and r_c, if attention is on the GPU) on an even load with r_w as
large as fits, through the same physics less launches; the fewest micro-batches within 1 % of the shortest step win.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.errors import PlanError
from planner.parallel import Layout, passes_per_step, replicas_at_work, sequences_per_pass
from planner.physics import attention, transfers
from planner.physics.attention import Rows
from planner.physics.experts import Counts, Stored, spread
from planner.physics.memory import Ledger, fits, host_tier, kv_bytes_per_sequence
from planner.physics.operation import Phase
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
from planner.policies.cache import add_expert_collective, add_form_on_gpu, add_on_cpu, attention_phase, idle_link_s
from planner.policies.even_load import even_counts
from planner.policies.hybrid import add_dense_side, add_host_kv, host_experts, hybrid_gpu_tier, sync_s
from planner.result import Details
from planner.routing import RoutingState
from planner.step import Pass, time_pass

TRIED = (1, 3, 4, 8, 16, 32)
"""Numbers of micro-batches that the search tries."""
NEARLY = 1.01
"""A tuple within this factor of the shortest step is as good."""
AHEAD = 2
"""Micro-batches that CPU attention runs ahead."""


@dataclass(frozen=True)
class LightningReady(Prepared):
    kv_share: float = 0.0  # r_c
    ffn: str = "gpu"


class MoeLightning(Policy):
    id = "moe-lightning"
    name = "MoE-Lightning"
    sentence = (
        "The CPU computes attention beside its KV cache while the GPU computes the experts, whose weights cross PCIe "
        "once for all micro-batches."
    )
    source = "MoE-Lightning (arXiv 2411.11217, ASPLOS'25)"
    needs = ("gpu", "host", "pcie")
    options = (
        Option("micro_batch", "int", 0, "mu, sequences of a micro-batch; 0 = searched", (), 0, 65_536),
        Option("ffn_device", "choice", "gpu", "F_g: which device computes the routed experts", ("gpu", "cpu")),
        Option(
            "kv_gpu_share",
            "float",
            -1.0,
            "r_c, share of the KV cache in HBM when attention is on the GPU; -1 = searched",
            (),
            -1,
            1,
        ),
    )
    notes = (
        "Weights of a layer cross PCIe once for all micro-batches; each micro-batch reads the experts that it hits "
        "from HBM.",
        "The source solves a mixed-integer programme; here a handful of micro-batch sizes is tried on an even load, "
        "with as many experts in HBM as fit.",
        "Fewer than three micro-batches cannot fill the pipeline: with two, attention and experts overlap for half of "
        "a layer, with one they follow each other.",
        "Prefill runs on the GPU with streamed weights; its KV cache leaves over the other direction of the link. "
        "Requests of one length are assumed, so the balancing of micro-batches has nothing to do.",
    )

    # --- places ------------------------------------------------------------------------------------------------------
    def _kv_location(self, ctx: Context, layout: Layout) -> str:
        asked = ctx.scenario.policy.kv_location
        if asked != "auto" or ctx.machine.unified_memory or ctx.scenario.policy.attention_device == "cpu":
            return super()._kv_location(ctx, layout)
        return "host"

    def _attention_device(self, ctx: Context, kv_location: str) -> str:
        asked = ctx.scenario.policy.attention_device
        if asked == "auto" and kv_location == "host":
            return "cpu"
        return super()._attention_device(ctx, kv_location)

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        return self.tiers(ctx, layout, kv_location, resident, batch, context_tokens, 0.0)

    def tiers(
        self,
        ctx: Context,
        layout: Layout,
        kv_location: str,
        resident: int,
        batch: int,
        context_tokens: float,
        kv_share: float,
    ) -> Ledger:
        """Memory with ``resident`` experts of each layer and ``kv_share`` of a host KV cache in HBM."""
        each = mean_expert_bytes(ctx.other_widths())
        streams = ctx.option("ffn_device", "gpu") == "gpu"
        layer = each * (ctx.experts - resident) / layout.tensor
        one = sequences_per_pass(batch, layout) * layout.data
        # Two layers of streamed weights: one in use, one arriving page by page (for prefill, if the CPU computes them).
        gpu = hybrid_gpu_tier(ctx, layout, "host", resident, one, context_tokens, (2.0 if streams else 1.0) * layer)
        kv = kv_bytes_per_sequence(ctx, context_tokens, layout) * batch
        gpu.add("KV cache", kv if kv_location == "gpu" else kv * kv_share)
        host = host_tier(ctx.machine)
        host_experts(ctx, host, each * (ctx.experts - resident) * ctx.moe_layers, layout.data)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        if kv_share > 0 and "KV cache" in host.items:
            total, fullest = host.items["KV cache"]
            del host.items["KV cache"]
            host.add("KV cache", total * (1.0 - kv_share), fullest * (1.0 - kv_share))
        host.add("hidden states", batch * ctx.tokens_per_sequence * ctx.hidden_bytes)
        return [gpu, host]

    # --- the tuple ---------------------------------------------------------------------------------------------------
    def _micro_batches(self, ctx: Context, layout: Layout) -> list[int]:
        w, policy = ctx.scenario.workload, ctx.scenario.policy
        replica = math.ceil(w.batch / layout.data)
        asked = int(ctx.option("micro_batch", 0))
        if asked and policy.micro_batches > 1:
            raise PlanError(
                f"policy.options.micro_batch is {asked} and policy.micro_batches is {policy.micro_batches}; both set "
                "the micro-batches of MoE-Lightning: give one of them."
            )
        if asked:
            return [math.ceil(replica / min(asked, replica))]
        if policy.micro_batches > 1:
            return [min(policy.micro_batches, replica)]
        return [n for n in TRIED if n <= replica]

    def prepare(self, ctx: Context) -> LightningReady:
        plain = super().layout(ctx)
        location = self._kv_location(ctx, plain)
        device = self._attention_device(ctx, location)
        shares = [float(ctx.option("kv_gpu_share", -1.0))]
        if device == "cpu" or location == "gpu":
            shares = [0.0]
        elif shares[0] < 0:
            shares = [0.0, 0.5, 1.0]
        tried = [
            self._with(ctx, replace(plain, micro_batches=number), location, device, share)
            for number in self._micro_batches(ctx, plain)
            for share in shares
        ]
        if len(tried) == 1:
            return tried[0]
        tried = [t for t in tried if fits(t.ledger)] or tried
        seconds = [self._estimate_s(ctx, t) for t in tried]
        # Of nearly equal ones the first: the fewest micro-batches, the least KV in HBM.
        return next(t for t, s in zip(tried, seconds, strict=True) if s <= NEARLY * min(seconds))

    def _with(self, ctx: Context, layout: Layout, location: str, device: str, share: float) -> LightningReady:
        """One tuple, with as many resident experts as fit."""
        batch, context = ctx.scenario.workload.batch, float(ctx.full_context_tokens)
        asked = ctx.scenario.policy.gpu_experts_per_layer
        if asked is None:
            empty, full = (self.tiers(ctx, layout, location, r, batch, context, share)[0] for r in (0, ctx.experts))
            slope = (full.short_bytes - empty.short_bytes) / ctx.experts  # the ledger is linear in the residents
            asked = (
                ctx.experts if full.short_bytes <= 0 else max(0, int(-empty.short_bytes / slope)) if slope > 0 else 0
            )
        elif asked > ctx.experts:
            asked = self._resident(ctx, layout, location, batch, context)  # refuses, in words
        ledger = self.tiers(ctx, layout, location, asked, batch, context, share)
        return LightningReady(layout, location, device, asked, ledger, share, str(ctx.option("ffn_device", "gpu")))

    def _estimate_s(self, ctx: Context, ready: LightningReady) -> float:
        counts = even_counts(ctx, self.sequences_per_pass(ctx, ready.layout) * ctx.tokens_per_sequence)
        shape = counts.shape[1:]  # one layer, which stands for all
        resident = np.zeros(shape, bool)
        resident[:, ctx.experts - ready.resident_per_layer :] = True
        each = mean_expert_bytes(ctx.other_widths())
        width = ctx.other_widths()[0][0]
        stored = Stored(np.full(shape, each), np.full(shape, width.bits), np.zeros(shape, np.int8), width.cpu_matrix)
        placed = Placed(np.zeros(shape, np.int8), resident, stored, (width,), {}, nowhere(shape))
        step = time_pass(self._pass(ctx, ready, placed, counts), ctx.machine).step
        return step.total_s - step.fixed_s  # the source's model has no launch cost

    # --- with routing ----------------------------------------------------------------------------------------------
    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        widths = ctx.other_widths()
        resident = hottest(routing.profile, ready.resident_per_layer)
        away = TIER_CODE["host" if ctx.option("ffn_device", "gpu") == "cpu" else "streamed"]
        return Placed(
            np.where(resident, TIER_CODE["gpu"], away).astype(np.int8),
            resident,
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: "among the most loaded experts of its layer; HBM has room for these (r_w)",
                TIER_CODE["streamed"]: "crosses PCIe once per step, for all micro-batches",
                TIER_CODE["host"]: "computed by the CPU, as asked (F_g = 0)",
            },
            nowhere(resident.shape),
        )

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        assert isinstance(ready, LightningReady)
        return self._pass(ctx, ready, placed, routing.counts)

    def _pass(self, ctx: Context, ready: LightningReady, placed: Placed, counts: Counts) -> Pass:
        """One micro-batch with its share of the weights' crossing; all lanes of a layer side by side."""
        layout, w = ready.layout, ctx.scenario.workload
        number = passes_per_step(w.batch, layout)
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, layout))
        run = Pass(tokens=rows.tokens, copies=replicas_at_work(w.batch, layout), repeats=float(number))
        shipped = ready.kv_location == "host" and ready.attention_device == "gpu"
        kv = "gpu" if shipped else ready.kv_location
        attention.add_attention(ctx, run, rows, layout, kv, ready.attention_device)
        phase = attention_phase(run)
        if shipped and ready.kv_share < 1.0:
            crossing = (rows.kv_read_bytes + 2.0 * rows.state_bytes) * (1.0 - ready.kv_share)
            transfers.add_host_to_gpu(ctx, run, phase, "attention", crossing)
        on_cpu = ready.ffn == "cpu"
        filled = min(1.0, (number - 1) / AHEAD) if ready.attention_device == "cpu" or on_cpu else 1.0
        self._layer(ctx, run, placed, counts, rows, layout, None if on_cpu else 1.0 / number, filled)
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout, sync_s(ctx) if on_cpu else 0.0)
        return run

    def _layer(
        self,
        ctx: Context,
        run: Pass,
        placed: Placed,
        counts: Counts,
        rows: Rows,
        layout: Layout,
        share: float | None,
        filled: float,
    ) -> None:
        """The rest of a layer beside its attention: for ``filled`` of it all lanes overlap, for the rest only the link.

        ``share`` of the streamed layer crosses in this pass, None = the CPU computes the experts.
        """
        first, together = attention_phase(run), run.phase("micro-batches beside each other")
        phase = run.phase("experts")
        crossing = np.zeros((1, ctx.layers))
        if share is not None:
            moved: NDArray[np.float64] = np.where(placed.resident, 0.0, placed.stored.bytes).sum(axis=1)[None]
            crossing = spread(ctx, moved * share)
        room = idle_link_s(first) * ctx.machine.host_to_gpus_bytes_per_s
        early = np.minimum(crossing, room) if filled < 1.0 else np.zeros_like(crossing)
        self._experts(ctx, run, phase, placed, counts, rows, layout, on_gpu=share is not None)
        if share is not None:
            transfers.add_host_to_gpu(ctx, run, phase, "link", crossing - early)
            transfers.add_host_to_gpu(ctx, run, first, "link", early)
        for part in (first, phase):
            together.pieces += [replace(p, seconds=p.seconds * filled) for p in part.pieces]
            part.pieces = [replace(p, seconds=p.seconds * (1.0 - filled)) for p in part.pieces] if filled < 1.0 else []

    @staticmethod
    def _experts(
        ctx: Context,
        run: Pass,
        phase: Phase,
        placed: Placed,
        counts: Counts,
        rows: Rows,
        layout: Layout,
        *,
        on_gpu: bool,
    ) -> None:
        """Dense side and routed experts, those away from HBM on the GPU or on the CPU."""
        hot = ctx.gpu_width
        add_dense_side(ctx, run, phase, rows, layout)
        add_form_on_gpu(ctx, run, phase, counts, placed.resident[None], hot.expert_bytes, hot.format, layout)
        if on_gpu:
            for index, width in enumerate(placed.widths):
                mask = ~placed.resident & (placed.stored.format == index)
                add_form_on_gpu(ctx, run, phase, counts, mask[None], width.expert_bytes, width.format, layout)
        else:
            add_on_cpu(ctx, run, phase, rows, placed.stored, counts, (counts > 0) & ~placed.resident)
        add_expert_collective(ctx, run, phase, counts, layout)

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        rows = attention.prefill_rows(ctx, tokens)
        run = Pass(tokens=rows.tokens, copies=ready.layout.data)
        attention.add_attention(ctx, run, rows, ready.layout, "gpu", "gpu")
        self._layer(ctx, run, placed, routing.prefill_counts, rows, ready.layout, 1.0, 1.0)
        attention.add_head(ctx, run, rows, ready.layout)
        attention.add_overhead(ctx, run, rows, ready.layout)
        return run

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("stream",)

    # --- what there is to tell -------------------------------------------------------------------------------------
    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        assert isinstance(ready, LightningReady)
        batch = ctx.scenario.workload.batch
        mu = self.sequences_per_pass(ctx, ready.layout)
        words = (
            f"N = {batch:,}, mu = {mu:,} ({passes_per_step(batch, ready.layout)} micro-batches), "
            f"A_g = {int(ready.attention_device == 'gpu')}, F_g = {int(ready.ffn == 'gpu')}, "
            f"r_w = {ready.resident_per_layer / ctx.experts:.3g}, "
            f"r_c = {1.0 if ready.kv_location == 'gpu' else ready.kv_share:.3g}."
        )
        return Details(facts=(("Policy tuple", words),))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        number = passes_per_step(ctx.scenario.workload.batch, ready.layout)
        where = "the CPU" if ready.attention_device == "cpu" else "the GPU"
        return (
            f"{number} micro-batches, attention on {where}, {ready.resident_per_layer} of {ctx.experts} experts of "
            "each layer in HBM."
        )
