"""FluxMoE (arXiv 2604.02715): experts are pages; two layers of them are in HBM at a time, plus a share alpha of all.

Weights: everything but routed experts in HBM. Of each layer's E experts, r = alpha E stay in HBM as they are; the
others lie in backing stores, compressed in HBM (lossless coding of exponents, saving s of the bytes of 16-bit weights)
and in pinned host memory, and are brought into a window of two layers while the layer before computes. Stores load at
the same time, so the split that lets all finish together is by bandwidth, x_k = B_k / sum B_j, as far as HBM has room:

    t_load = max( x_host n W / B_link,  x_hbm n (2 - s) W / B_hbm ),  n = E - r      t_layer = max(t_compute, t_load)

Decompression reads (1 - s) W and writes W; it is taken to run at HBM bandwidth, which the computation uses too, so in
the step it adds to the GPU's lane. The controller moves alpha with rho = t_compute / t_load: above 1 less is resident,
below 0.9 more, in between nothing happens; here this is its fixed point on an even load: the least r with rho >= 0.9,
if there is one that fits beside the KV cache, else the r with the largest rho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.parallel import Layout, passes_per_step, replicas_at_work, sequences_per_pass
from planner.physics import attention, transfers
from planner.physics.attention import Rows
from planner.physics.experts import Counts, Stored, spread
from planner.physics.memory import Ledger, host_tier
from planner.physics.operation import Phase, phase_times
from planner.policies.base import TIER_CODE, Option, Placed, Policy, Prepared, hottest, nowhere
from planner.policies.cache import add_expert_collective, add_form_on_gpu, attention_phase
from planner.policies.even_load import even_counts
from planner.policies.hybrid import add_dense_side, add_host_kv, hybrid_gpu_tier
from planner.result import Details
from planner.routing import RoutingState
from planner.step import Pass

DEAD_ZONE = (0.9, 1.0)
WINDOW_LAYERS = 2


@dataclass(frozen=True)
class FluxReady(Prepared):
    in_hbm: int = 0  # experts of each layer compressed in HBM
    rho: float = 0.0


class FluxMoe(Policy):
    id = "fluxmoe"
    name = "FluxMoE"
    sentence = (
        "Experts are paged into a window of two layers in HBM from compressed HBM and host memory together; a "
        "controller keeps as many resident as loading needs to keep up with computing."
    )
    source = "FluxMoE (arXiv 2604.02715)"
    needs = ("gpu", "host", "pcie")
    options = (
        Option("compressed_store", "bool", True, "keep experts compressed in HBM as well; off = host memory only"),
        Option("saving", "float", 0.2, "bytes that lossless compression saves of 16-bit weights", (), 0, 0.5),
    )
    notes = (
        "Whole layers are loaded before their router has spoken, so all experts of a layer count, hit or not.",
        "Lossless compression of exponents is for 16-bit weights; narrower formats have no compressed store here. Its "
        "speed is not stated: reading compressed and writing plain bytes at HBM bandwidth is assumed.",
        "HBM that the controller frees is left free: the KV cache of this batch and context is all that the plan "
        "needs. Raise the batch to use it.",
        "The controller settles on an even load. Micro-batches are taken as one group: a layer is loaded once for "
        "all of them.",
    )

    def _attention_device(self, ctx: Context, kv_location: str) -> str:
        asked = ctx.scenario.policy.attention_device
        return "gpu" if asked == "auto" else super()._attention_device(ctx, kv_location)

    # --- stores ------------------------------------------------------------------------------------------------------
    @staticmethod
    def each(ctx: Context) -> float:
        """Bytes of one expert as it is paged: the widest stored form."""
        return ctx.other_widths()[0][0].expert_bytes

    def saving(self, ctx: Context) -> float:
        """Share of the bytes that the compressed store saves; 0 where there is none."""
        if not ctx.option("compressed_store", True) or ctx.other_widths()[0][0].bits < 16:
            return 0.0
        return float(ctx.option("saving", 0.2))

    def compressed(self, ctx: Context, resident: int, free_bytes: float, copies: int) -> int:
        """Experts of each layer in the compressed store: by bandwidth, as many as ``free_bytes`` of HBM hold."""
        gpu, saving, paged = ctx.machine.gpu, self.saving(ctx), ctx.experts - resident
        assert gpu is not None
        if saving <= 0 or paged <= 0:
            return 0
        link = ctx.machine.host_to_gpus_bytes_per_s
        hbm = gpu.bandwidth_bytes_per_s * gpu.per_node / (2.0 - saving)
        wanted = round(paged * hbm / (hbm + link))
        room = int(max(free_bytes, 0.0) / ((1.0 - saving) * self.each(ctx) * ctx.moe_layers * copies))
        return min(wanted, room)

    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        return self.tiers(ctx, layout, kv_location, resident, batch, context_tokens)[0]

    def tiers(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> tuple[Ledger, int]:
        """Memory with ``resident`` plain experts of each layer, and how many more lie compressed in HBM."""
        each, paged = self.each(ctx), ctx.experts - resident
        window = min(WINDOW_LAYERS, ctx.moe_layers) * paged * each / layout.tensor
        gpu = hybrid_gpu_tier(ctx, layout, kv_location, 0, batch, context_tokens, window)
        gpu.add("experts", each * resident * ctx.moe_layers * layout.data)
        inside = self.compressed(ctx, resident, -gpu.short_bytes, layout.data)
        gpu.add("experts, compressed", (1.0 - self.saving(ctx)) * each * inside * ctx.moe_layers * layout.data)
        host = host_tier(ctx.machine)
        outside = each * (paged - inside) * layout.data
        host.add("experts", outside * ctx.moe_layers)
        host.add("load peak", outside)
        add_host_kv(ctx, host, kv_location, batch, context_tokens)
        return [gpu, host], inside

    # --- the controller --------------------------------------------------------------------------------------------
    def prepare(self, ctx: Context) -> FluxReady:
        ready = super().prepare(ctx)  # as many residents as fit
        batch, context = ctx.scenario.workload.batch, float(ctx.full_context_tokens)

        def with_residents(resident: int) -> FluxReady:
            ledger, inside = self.tiers(ctx, ready.layout, ready.kv_location, resident, batch, context)
            rho = compute_s / max(self.load_s(ctx, resident, inside), 1e-30)
            return FluxReady(ready.layout, ready.kv_location, ready.attention_device, resident, ledger, inside, rho)

        compute_s = self._compute_s(ctx, ready)
        if ctx.scenario.policy.gpu_experts_per_layer is not None or ready.ledger[0].short_bytes > 0:
            return with_residents(ready.resident_per_layer)
        tried = [with_residents(r) for r in _grid(ready.resident_per_layer)]
        enough = [t for t in tried if t.rho >= DEAD_ZONE[0]]
        return enough[0] if enough else max(tried, key=lambda t: t.rho)

    def load_s(self, ctx: Context, resident: int, inside: int) -> float:
        """Seconds to load the paged experts of one layer, both stores at once."""
        gpu, each = ctx.machine.gpu, self.each(ctx)
        assert gpu is not None
        host = (ctx.experts - resident - inside) * each / ctx.machine.host_to_gpus_bytes_per_s
        store = inside * (2.0 - self.saving(ctx)) * each / (gpu.bandwidth_bytes_per_s * gpu.per_node)
        return max(host, store)

    def _compute_s(self, ctx: Context, ready: Prepared) -> float:
        """Seconds in which the GPU computes one layer on an even load, for all micro-batches, mean over MoE layers."""
        rows = attention.decode_rows(ctx, sequences_per_pass(ctx.scenario.workload.batch, ready.layout))
        run = Pass(tokens=rows.tokens)
        attention.add_attention(ctx, run, rows, ready.layout, ready.kv_location, ready.attention_device)
        width = ctx.other_widths()[0][0]
        phase = run.phase("experts")
        add_dense_side(ctx, run, phase, rows, ready.layout)
        counts = even_counts(ctx, rows.tokens)
        everyone = np.ones((1, 1, 1), bool)
        add_form_on_gpu(ctx, run, phase, counts, everyone, width.expert_bytes, width.format, ready.layout)
        parts = (attention_phase(run), phase)
        seconds = sum(np.broadcast_to(phase_times(p).total.mean(axis=(0, 1)), ctx.layers) for p in parts)
        passes = passes_per_step(ctx.scenario.workload.batch, ready.layout)
        return float(np.asarray(seconds)[ctx.moe].mean()) * passes

    # --- with routing ----------------------------------------------------------------------------------------------
    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed:
        assert isinstance(ready, FluxReady)
        width = ctx.other_widths()[0][0]
        resident = hottest(routing.profile, ready.resident_per_layer)
        in_hbm = hottest(routing.profile, ready.resident_per_layer + ready.in_hbm)
        shape = resident.shape
        size = np.where(in_hbm & ~resident, (1.0 - self.saving(ctx)) * width.expert_bytes, width.expert_bytes)
        return Placed(
            np.where(in_hbm, TIER_CODE["gpu"], TIER_CODE["streamed"]).astype(np.int8),
            resident,
            Stored(size, np.full(shape, width.bits), np.zeros(shape, np.int8), width.cpu_matrix),
            (width,),
            {
                TIER_CODE["gpu"]: "resident in HBM (the most loaded ones), or compressed in HBM until its layer's turn",
                TIER_CODE[
                    "streamed"
                ]: "in pinned host memory; paged into the window of two layers for its layer's turn",
            },
            nowhere(shape),
        )

    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass:
        batch = ctx.scenario.workload.batch
        passes = passes_per_step(batch, ready.layout)
        rows = attention.decode_rows(ctx, sequences_per_pass(batch, ready.layout))
        run = self._pass(ctx, ready, placed, rows, routing.counts, 1.0 / passes)
        run.repeats = float(passes)
        run.copies = replicas_at_work(batch, ready.layout)
        return run

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        return self._pass(ctx, ready, placed, attention.prefill_rows(ctx, tokens), routing.prefill_counts, 1.0)

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        return ("stream",)

    def _pass(self, ctx: Context, ready: Prepared, placed: Placed, rows: Rows, counts: Counts, share: float) -> Pass:
        """Computing a layer beside loading the next one; ``share`` of the loading belongs to this micro-batch."""
        layout, width = ready.layout, placed.widths[0]
        run = Pass(tokens=rows.tokens, copies=layout.data)
        kv, device = ("gpu", "gpu") if rows.prefill else (ready.kv_location, ready.attention_device)
        attention.add_attention(ctx, run, rows, layout, kv, device)
        # The next layer loads behind the whole of this one, but CPU attention and the experts follow each other.
        phase = attention_phase(run) if device == "gpu" else run.phase("experts beside loading")
        add_dense_side(ctx, run, phase, rows, layout)
        everyone = np.ones((1, 1, 1), bool)
        add_form_on_gpu(ctx, run, phase, counts, everyone, width.expert_bytes, width.format, layout)
        add_expert_collective(ctx, run, phase, counts, layout)
        outside = placed.tier == TIER_CODE["streamed"]
        moved: NDArray[np.float64] = np.where(outside, placed.stored.bytes, 0.0).sum(axis=1)[None] * share
        transfers.add_host_to_gpu(ctx, run, phase, "link", spread(ctx, moved))
        inside = (~outside & ~placed.resident).sum(axis=1)[None] * share
        self._decompress(ctx, run, phase, spread(ctx, inside * (2.0 - self.saving(ctx)) * width.expert_bytes), layout)
        attention.add_head(ctx, run, rows, layout)
        attention.add_overhead(ctx, run, rows, layout)
        return run

    @staticmethod
    def _decompress(ctx: Context, run: Pass, phase: Phase, moved_bytes: NDArray[np.float64], layout: Layout) -> None:
        """Bytes read and written in HBM while experts are unpacked, all GPUs of the node together."""
        gpu = ctx.machine.gpu
        assert gpu is not None
        seconds = moved_bytes / (gpu.bandwidth_bytes_per_s * layout.tensor)
        if not seconds.any():
            return
        phase.add("gpu", "routed_gpu", "hbm", seconds)
        run.flows.hbm_bytes += float(moved_bytes.sum())
        run.flows.hbm_achieved_s += float(seconds.sum()) * layout.tensor

    # --- what there is to tell -------------------------------------------------------------------------------------
    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        assert isinstance(ready, FluxReady)
        outside = ctx.experts - ready.resident_per_layer - ready.in_hbm
        loaded = ready.rho if math.isfinite(ready.rho) and outside + ready.in_hbm else None
        facts = [
            (
                "Residency",
                f"alpha = {ready.resident_per_layer / ctx.experts:.3g}: of each layer's {ctx.experts} experts "
                f"{ready.resident_per_layer} stay in HBM, {ready.in_hbm} lie compressed in HBM, {outside} in host "
                f"memory; a window holds {min(WINDOW_LAYERS, ctx.moe_layers)} layers of the others.",
            )
        ]
        if loaded is not None:
            low, high = DEAD_ZONE
            where = "below" if loaded < low else "above" if loaded > high else "inside"
            facts.append(
                (
                    "Controller",
                    f"rho = t_compute / t_load = {loaded:.3g}, {where} the dead zone from {low:g} to {high:g}.",
                )
            )
        return Details(facts=tuple(facts))

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        inside = ready.in_hbm if isinstance(ready, FluxReady) else 0
        return (
            f"{ready.resident_per_layer} of {ctx.experts} experts of each layer resident, {inside} compressed in HBM, "
            "the others paged from host memory."
        )


def _grid(most: int) -> range:
    """Residents that the controller tries: every number, or about 64 of them."""
    return range(0, most + 1, max(1, most // 64))
