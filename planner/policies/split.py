"""What policies share that keep some experts in HBM and give the others to GPU or CPU pass by pass."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.parallel import Layout, replicas_at_work
from planner.physics import attention
from planner.physics.attention import Rows
from planner.physics.experts import Counts
from planner.physics.memory import Ledger, gpu_tier, host_tier
from planner.policies.base import TIER_CODE, Placed, Policy, Prepared, hottest, mean_expert_bytes, mixed_widths, nowhere
from planner.policies.hybrid import add_dense_side, add_host_kv, add_streamed, host_experts
from planner.policies.split_pass import Split, add_head_and_overhead, add_in_hbm, add_split
from planner.routing import RoutingState, automatic_steps
from planner.step import Pass


@dataclass(frozen=True)
class Slots(Prepared):
    """Prepared, with the experts in HBM counted over all layers (room for part of a layer is used too)."""

    slots: int = 0


class SplitPolicy(Policy):
    """Residents or a cache in HBM, the other experts in host memory, computed by GPU or CPU as each pass says."""

    needs = ("gpu", "host", "pcie")
    dynamic: ClassVar[bool] = False  # a cache: what enters was sent, so slots hold the stored form
    host_keeps_all: ClassVar[bool] = True  # host memory also holds the experts that are in HBM
    per_layer: ClassVar[bool] = True  # room in HBM is the same for each layer
    serial: ClassVar[bool] = False

    # --- memory ----------------------------------------------------------------------------------------------------
    def slot_bytes(self, ctx: Context) -> float:
        """HBM bytes of one slot: the stored form for a cache, else the form of residents."""
        if self.dynamic:
            return max(w.expert_bytes for w, _ in ctx.other_widths())
        return ctx.gpu_width.expert_bytes

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        each = mean_expert_bytes(ctx.other_widths())
        gpu = gpu_tier(
            ctx,
            layout,
            batch,
            context_tokens,
            kv_on_gpu=kv_location == "gpu",
            expert_bytes=self.slot_bytes(ctx) * resident * ctx.moe_layers,
            buffer_bytes=2.0 * each / layout.tensor,  # one expert arrives while another is computed
        )
        host = host_tier(ctx.machine)
        share = resident / ctx.experts
        whole = each * ctx.experts * ctx.moe_layers
        if self.host_keeps_all:
            host_experts(ctx, host, whole, layout.data, share)
        else:
            host_experts(ctx, host, whole * (1.0 - share), layout.data)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        return [gpu, host]

    def prepare(self, ctx: Context) -> Slots:
        ready = super().prepare(ctx)
        slots, more = ready.resident_per_layer * ctx.moe_layers, 0
        if not self.per_layer and ctx.scenario.policy.gpu_experts_per_layer is None and ctx.moe_layers:
            room = -ready.ledger[0].short_bytes / (self.slot_bytes(ctx) * ready.layout.data)
            more = min(max(int(room), 0), ctx.moe_layers - 1, ctx.experts * ctx.moe_layers - slots)
            moved = more * self.slot_bytes(ctx) * ready.layout.data
            ready.ledger[0].add("experts", moved)
            if more and not self.host_keeps_all:
                host, gone = ready.ledger[1], more * mean_expert_bytes(ctx.other_widths()) * ready.layout.data
                total, fullest = host.items.pop("experts")
                host.add("experts", total - gone, fullest - gone / host.devices)
        return Slots(
            ready.layout,
            ready.kv_location,
            ready.attention_device,
            ready.resident_per_layer,
            ready.ledger,
            slots + more,
        )

    # --- placement -------------------------------------------------------------------------------------------------
    def chosen(self, ctx: Context, ready: Prepared, routing: RoutingState) -> NDArray[np.bool_]:
        """Experts in HBM at the start, [layers, experts]: the most loaded of each layer in the calibration run."""
        return hottest(routing.profile, ready.resident_per_layer)

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        widths = ctx.other_widths()
        chosen = self.chosen(ctx, ready, routing)
        return Placed(
            np.where(chosen, TIER_CODE["gpu"], TIER_CODE["host"]).astype(np.int8),
            chosen,
            mixed_widths(routing, widths),
            tuple(w for w, _ in widths),
            {TIER_CODE["gpu"]: self.why_gpu(), TIER_CODE["host"]: self.why_host()},
            nowhere(chosen.shape),
            one_form=self.dynamic,
        )

    def why_gpu(self) -> str:
        return "among the most loaded experts of the calibration run; in the GPU's cache at the start of decode"

    @abstractmethod
    def why_host(self) -> str: ...

    # --- passes ----------------------------------------------------------------------------------------------------
    @abstractmethod
    def split(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Split:
        """Decode passes, in order, with the history of the cache."""

    @abstractmethod
    def split_prefill(self, ctx: Context, ready: Prepared, placed: Placed, counts: Counts) -> NDArray[np.int8]:
        """Places of one prefill pass, [passes, layers, experts]."""

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        rows = attention.decode_rows(ctx, self.sequences_per_pass(ctx, ready.layout))
        run = self._pass(ctx, ready, placed, rows, self.split(ctx, ready, placed, routing))
        run.repeats = float(self.passes_per_step(ctx, ready.layout))
        run.copies = replicas_at_work(ctx.scenario.workload.batch, ready.layout)
        return run

    def computed_counts(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Counts:
        return routing.counts[warm_up(routing.counts.shape[0]) :] if self.dynamic else routing.counts

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        """cpu: this policy's own rule, the CPU beside the GPU; stream: every expert that is not in HBM is sent."""
        return ("cpu", "stream")

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        rows, counts = attention.prefill_rows(ctx, tokens), routing.prefill_counts
        if mode == "stream":
            return self._streamed(ctx, ready, placed, rows, counts)
        return self._pass(ctx, ready, placed, rows, Split(counts, self.split_prefill(ctx, ready, placed, counts)))

    def _pass(self, ctx: Context, ready: Prepared, placed: Placed, rows: Rows, split: Split) -> Pass:
        layout = ready.layout
        run = Pass(tokens=rows.tokens, copies=layout.data)
        kv, device = ("gpu", "gpu") if rows.prefill else (ready.kv_location, ready.attention_device)
        attention.add_attention(ctx, run, rows, layout, kv, device)
        width = None if self.dynamic else ctx.gpu_width
        add_split(ctx, run, rows, layout, placed, split, width, serial=self.runs_serial(ctx))
        add_head_and_overhead(ctx, run, rows, layout, split.place)
        return run

    def runs_serial(self, ctx: Context) -> bool:
        return self.serial

    def _streamed(self, ctx: Context, ready: Prepared, placed: Placed, rows: Rows, counts: Counts) -> Pass:
        """Layer-wise prefill with two buffers: all experts of a layer that are not in HBM cross, hit or not."""
        layout = ready.layout
        run = Pass(tokens=rows.tokens, copies=layout.data)
        attention.add_attention(ctx, run, rows, layout, "gpu", "gpu")
        phase = run.phase("experts, streamed")
        held = placed.resident
        add_dense_side(ctx, run, phase, rows, layout)
        add_in_hbm(ctx, run, phase, placed, counts, held, None if self.dynamic else ctx.gpu_width, layout)
        for index, width in enumerate(placed.widths):
            others = held | (placed.stored.format != index)
            add_streamed(ctx, run, phase, placed.stored, others, counts, width.format, True)
        add_head_and_overhead(ctx, run, rows, layout, np.zeros((1, ctx.moe_layers, ctx.experts), np.int8))
        return run


def history(ctx: Context, policy: Policy) -> int:
    """Ordered steps for a cache: half as many again as are timed, to leave its start behind."""
    sequences = policy.sequences_per_pass(ctx, policy.layout(ctx))
    return min(3 * automatic_steps(sequences, ctx.moe_layers, ctx.experts) // 2, 1024)


def warm_up(steps: int) -> int:
    """Steps that only fill the cache: the first third."""
    return steps // 3
