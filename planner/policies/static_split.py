"""Static split (llama.cpp ``--n-cpu-moe N`` and ``-ot``): the experts of N layers on the CPU, strictly in turn.

Attention, shared experts, router and KV cache on the GPU; the routed experts of whole layers in HBM, those of the N
others in host memory and computed there. GPU and CPU take turns, nothing overlaps:

    t_layer = t_attention + t_shared + t_sync + 2 tokens d / B_link + max( sum n_e F / P_cpu, distinct W / B_cpu )

With enough rows in a micro-batch (``op_offload_rows``, 32 in llama.cpp) the CPU layers' experts are copied to the GPU
and computed there instead ("op offload"), copy and compute in turn, once per micro-batch of ``ubatch`` rows:

    t_ubatch = bytes of the CPU layers' experts / B_link + t_gpu(ubatch)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.errors import PlanError
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention, transfers
from planner.physics.attention import Rows
from planner.physics.experts import Counts, spread
from planner.physics.memory import Ledger, host_tier
from planner.policies.base import TIER_CODE, Option, Placed, Policy, Prepared, mean_expert_bytes, mixed_widths, nowhere
from planner.policies.cache import add_expert_collective, add_form_on_gpu, add_on_cpu
from planner.policies.hybrid import add_dense_side, add_host_kv, hybrid_gpu_tier, sync_s
from planner.result import Details
from planner.routing import RoutingState, routing_state
from planner.step import Pass


@dataclass(frozen=True)
class SplitReady(Prepared):
    cpu_layers: int = 0


class StaticSplit(Policy):
    id = "static-split"
    name = "Static layer split (llama.cpp)"
    sentence = "The routed experts of some layers are computed by the CPU, those of the others by the GPU, in turn."
    source = "llama.cpp --n-cpu-moe and -ot (github.com/ggml-org/llama.cpp); op offload as modelled in ik_llama.cpp"
    needs = ("gpu", "host", "pcie")
    options = (
        Option(
            "cpu_layers", "int", -1, "N, MoE layers with their experts on the CPU; -1 = fewest that fit", (), -1, 10_000
        ),
        Option(
            "which",
            "choice",
            "first",
            "which layers these are: --n-cpu-moe takes the first, a pattern of -ot any",
            ("first", "last"),
        ),
        Option("ubatch", "int", 512, "rows of a prefill micro-batch (llama.cpp -ub)", (), 1, 1_000_000),
        Option(
            "op_offload_rows",
            "int",
            32,
            "rows from which the CPU layers' experts are copied to the GPU instead",
            (),
            1,
            1_000_000,
        ),
        Option(
            "offload_copy",
            "choice",
            "all",
            "what op offload copies: all experts of a layer, or only those that are hit",
            ("all", "hit"),
        ),
    )
    notes = (
        "Whole layers are split: GPU experts per layer are read as the same number of experts in whole layers.",
        "The op-offload rule holds for decode passes too: from 32 sequences on, the copies cross in every step. Raise "
        "op_offload_rows to keep the CPU computing.",
        "Prefill is shown both ways, and the faster one is taken unless the scenario says which; llama.cpp decides by "
        "the rows of the micro-batch alone.",
    )

    # --- memory ----------------------------------------------------------------------------------------------------
    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        on_gpu = round(resident * ctx.moe_layers / ctx.experts)
        return self.tiers(ctx, layout, kv_location, ctx.moe_layers - on_gpu, batch, context_tokens)

    def tiers(
        self, ctx: Context, layout: Layout, kv_location: str, cpu_layers: int, batch: int, context_tokens: float
    ) -> Ledger:
        """Memory with the experts of ``cpu_layers`` MoE layers in host memory."""
        each = mean_expert_bytes(ctx.other_widths())
        buffer = each * ctx.experts / layout.tensor if cpu_layers else 0.0  # one layer of copies for op offload
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, 0, batch, context_tokens, buffer)
        on_gpu = (ctx.moe_layers - cpu_layers) * ctx.experts
        gpu.add("experts", ctx.gpu_width.expert_bytes * on_gpu * layout.data)
        host = host_tier(ctx.machine)
        if cpu_layers:
            whole = each * ctx.experts * layout.data
            host.add("experts", whole * cpu_layers)
            host.add("load peak", whole)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        return [gpu, host]

    def prepare(self, ctx: Context) -> SplitReady:
        layout = self.layout(ctx)
        location = self._kv_location(ctx, layout)
        batch, context = ctx.scenario.workload.batch, float(ctx.full_context_tokens)
        number = self._asked(ctx, layout, location)
        if number is None:
            low, number = 0, ctx.moe_layers  # fewest CPU layers with which HBM holds the rest
            while low < number:
                middle = (low + number) // 2
                if self.tiers(ctx, layout, location, middle, batch, context)[0].short_bytes <= 0:
                    number = middle
                else:
                    low = middle + 1
        ledger = self.tiers(ctx, layout, location, number, batch, context)
        mean = round((ctx.moe_layers - number) * ctx.experts / max(ctx.moe_layers, 1))
        return SplitReady(layout, location, self._attention_device(ctx, location), mean, ledger, number)

    def _asked(self, ctx: Context, layout: Layout, location: str) -> int | None:
        asked, per_layer = int(ctx.option("cpu_layers", -1)), ctx.scenario.policy.gpu_experts_per_layer
        if asked > ctx.moe_layers:
            raise PlanError(f"policy.options.cpu_layers is {asked}; the model has {ctx.moe_layers} MoE layers.")
        if asked >= 0:
            return asked
        if per_layer is None:
            return None
        kept = self._resident(ctx, layout, location, 1, 1.0)  # refuses more than there are, in words
        return ctx.moe_layers - round(kept * ctx.moe_layers / ctx.experts)

    # --- placement ---------------------------------------------------------------------------------------------------
    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        assert isinstance(ready, SplitReady)
        widths = ctx.other_widths()
        shape = routing.shape
        number = np.arange(ctx.moe_layers)
        first = ctx.option("which", "first") == "first"
        on_cpu = number < ready.cpu_layers if first else number >= ctx.moe_layers - ready.cpu_layers
        resident = np.broadcast_to(~on_cpu[:, None], shape).copy()
        return Placed(
            np.where(resident, TIER_CODE["gpu"], TIER_CODE["host"]).astype(np.int8),
            resident,
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {
                TIER_CODE["gpu"]: "its layer is one of those whose experts stay in HBM",
                TIER_CODE["host"]: "its layer is one of those whose experts the CPU computes",
            },
            nowhere(shape),
        )

    # --- passes ----------------------------------------------------------------------------------------------------
    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        offloads = rows.tokens >= int(ctx.option("op_offload_rows", 32))
        run = self._pass(ctx, ready, placed, rows, routing.counts, offloads=offloads)
        run.repeats = float(self.passes_per_step(ctx, ready.layout))
        run.copies = replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        return run

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        """``tokens`` rows as micro-batches of ``ubatch`` rows one after the other."""
        rows = min(int(ctx.option("ubatch", 512)), tokens)
        counts = routing.prefill_counts if rows == tokens else self._micro_batch(ctx, rows)
        run = self._pass(ctx, ready, placed, attention.prefill_rows(ctx, rows), counts, offloads=mode == "stream")
        run.repeats = tokens / rows
        return run

    @staticmethod
    def _micro_batch(ctx: Context, rows: int) -> Counts:
        state = routing_state(
            ctx.scenario.routing, ctx.arch.id, ctx.moe_layers, ctx.experts, ctx.top_k, 1, 1,
            ctx.scenario.workload.prompt_tokens, rows, 1,
        )  # fmt: skip
        return state.prefill_counts

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        rows = min(int(ctx.option("ubatch", 512)), ctx.new_prompt_tokens)
        return ("stream", "cpu") if rows >= int(ctx.option("op_offload_rows", 32)) else ("cpu",)

    def _pass(
        self, ctx: Context, ready: Prepared, placed: Placed, rows: Rows, counts: Counts, *, offloads: bool
    ) -> Pass:
        layout, hot = ready.layout, ctx.gpu_width
        run = Pass(tokens=rows.tokens, copies=layout.data)
        kv, device = ("gpu", "gpu") if rows.prefill else (ready.kv_location, ready.attention_device)
        attention.add_attention(ctx, run, rows, layout, kv, device)
        phase = run.phase("dense, shared and experts in HBM")
        add_dense_side(ctx, run, phase, rows, layout)
        add_form_on_gpu(ctx, run, phase, counts, placed.resident[None], hot.expert_bytes, hot.format, layout)
        add_expert_collective(ctx, run, phase, counts, layout)
        handed = 0.0
        if offloads:
            self._offload(ctx, run, placed, counts, layout)
        elif not placed.resident.all():
            beside = run.phase("experts on the CPU")
            add_on_cpu(ctx, run, beside, rows, placed.stored, counts, (counts > 0) & ~placed.resident)
            handed = sync_s(ctx)
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout)
        on_cpu = (~placed.resident).any(axis=1).astype(float) * handed
        if on_cpu.any():
            run.phase("host round trip").add("overhead", "overhead", "overhead", spread(ctx, on_cpu[None]))
        return run

    @staticmethod
    def _offload(ctx: Context, run: Pass, placed: Placed, counts: Counts, layout: Layout) -> None:
        """Experts of the CPU layers copied to the GPU, then computed there."""
        away: NDArray[np.bool_] = np.broadcast_to(~placed.resident, counts.shape)
        if ctx.option("offload_copy", "all") == "hit":
            away = away & (counts > 0)
        copy, compute = run.phase("copies to the GPU"), run.phase("copied experts on the GPU")
        transfers.add_host_to_gpu(ctx, run, copy, "link", spread(ctx, (away * placed.stored.bytes).sum(axis=2)))
        for index, width in enumerate(placed.widths):
            mask = ~placed.resident & (placed.stored.format == index)
            add_form_on_gpu(ctx, run, compute, counts, mask[None], width.expert_bytes, width.format, layout)

    # --- what there is to tell -------------------------------------------------------------------------------------
    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        assert isinstance(ready, SplitReady)
        rows = self.sequences_per_pass(ctx, ready.layout) * ctx.tokens_per_sequence
        limit = int(ctx.option("op_offload_rows", 32))
        how = "copied to the GPU in every step" if rows >= limit else "computed by the CPU"
        if not ready.cpu_layers:
            return Details(facts=(("Split", f"All {ctx.moe_layers} MoE layers have their experts in HBM."),))
        return Details(
            facts=(
                (
                    "Split",
                    f"--n-cpu-moe {ready.cpu_layers}: the experts of {ready.cpu_layers} of {ctx.moe_layers} MoE layers "
                    f"lie in host memory; in decode they are {how} ({rows:,} rows, op offload from {limit:,}).",
                ),
            )
        )

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        number = ready.cpu_layers if isinstance(ready, SplitReady) else 0
        return (
            f"The experts of the {ctx.option('which', 'first')} {number} of {ctx.moe_layers} MoE layers on the CPU, "
            "the others in HBM."
        )
