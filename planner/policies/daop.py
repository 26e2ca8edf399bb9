"""DAOP (arXiv 2501.10375, DATE'25): residents swapped for each sequence, CPU work started one layer early.

At the start every layer keeps as many popular experts in HBM. In prefill the most used experts outside change places
with the least used ones inside, up to half of the experts, while ``n_hot > 1.05 n_cold``; each expert that is not in
HBM goes to the CPU or over the link, whichever takes less time. In decode nothing moves. From layer 5 on, a layer's
routing is predicted one layer early; the CPU's experts start then, with the earlier input, so that

    t_layer = max( t_attention + t_gpu,  t_cpu ),

and a token has at most half of its experts on the CPU (one of two): the others are replaced by resident ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.physics import attention
from planner.physics.experts import Counts
from planner.policies.base import TIER_CODE, Option, Placed, Prepared, hottest
from planner.policies.early_cpu import add_foreseen_cpu
from planner.policies.hybrid import add_dense_side
from planner.policies.split import Slots, SplitPolicy
from planner.policies.split_pass import (
    Split,
    add_cpu_transfer,
    add_head_and_overhead,
    add_in_hbm,
    looked_up,
    tables,
)
from planner.result import Details, MigrationReport
from planner.routing import RoutingState
from planner.split import CPU, HIT, NONE, STREAM
from planner.step import Pass

SWAP_RATIO = 1.05  # swap_in_out of the released code: a pair changes places if the hot one has 5 % more tokens


@dataclass(frozen=True)
class Swapped(Placed):
    """Residents after the swap; ``before`` and during prefill they were others."""

    before: NDArray[np.bool_]


class Daop(SplitPolicy):
    id = "daop"
    name = "DAOP (per-sequence residents, CPU one layer early)"
    sentence = (
        "Residents are swapped for each sequence after its prefill; the CPU starts on a layer's experts one layer "
        "early, by predicted routing. Outputs are approximate."
    )
    source = "DAOP (arXiv 2501.10375, DATE'25) and its released code"
    host_keeps_all = False
    per_layer = False
    options = (
        Option(
            "first_predicted_layer",
            "int",
            5,
            "first layer whose routing is predicted one layer early",
            low=1,
            high=1000,
        ),
        Option(
            "cpu_experts_per_token",
            "int",
            0,
            "experts of a token that may stay on the CPU, the others are replaced by resident ones; 0 = half of them "
            "(one of two, as published)",
            low=0,
            high=1000,
        ),
        Option("degradation", "bool", True, "replace a token's further CPU experts by resident ones"),
    )
    notes = (
        "Outputs are approximate: predicted routing, the earlier layer's input on the CPU, replaced experts.",
        "Each sequence is taken to start from the popular residents; both copies of a swap cross the link at once, one "
        "each way.",
        "Published for two experts per token; with more, at most half of them on the CPU is an assumption.",
    )

    # --- placement -------------------------------------------------------------------------------------------------
    def chosen(self, ctx: Context, ready: Prepared, routing: RoutingState) -> NDArray[np.bool_]:
        """As many popular experts of each layer, the rest of the room by popularity over all layers."""
        assert isinstance(ready, Slots)
        even = hottest(routing.profile, ready.resident_per_layer)
        left = ready.slots - int(even.sum())
        rest = np.where(even, -1.0, routing.profile).ravel()
        even.ravel()[np.argsort(-rest, kind="stable")[:left]] = True
        return even

    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Swapped:
        placed = super().place(ctx, ready, routing)
        after = swapped(placed.resident, routing.context, ctx.experts // 2)
        return Swapped(
            np.where(after, TIER_CODE["gpu"], TIER_CODE["host"]).astype(np.int8),
            after,
            placed.stored,
            placed.widths,
            placed.why,
            placed.home,
            before=placed.resident,
        )

    def why_gpu(self) -> str:
        return "popular, or swapped in because the prefill of these sequences used it more"

    def why_host(self) -> str:
        return "used less in the prefill of these sequences; computed by the CPU in decode"

    # --- passes ----------------------------------------------------------------------------------------------------
    def split(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Split:
        counts = routing.counts
        if self._degrades(ctx):
            counts = self._degraded(ctx, placed, routing)
        place = np.where(counts > 0, np.where(placed.resident, HIT, CPU), NONE).astype(np.int8)
        return Split(counts, place)

    def computed_counts(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Counts:
        return self.split(ctx, ready, placed, routing).counts

    def _degrades(self, ctx: Context) -> bool:
        one_token = ctx.scenario.workload.batch * ctx.tokens_per_sequence == 1
        return one_token and bool(ctx.option("degradation", True))

    def _degraded(self, ctx: Context, placed: Placed, routing: RoutingState) -> Counts:
        """Tokens after graceful degradation, batch 1: too many CPU experts of a token change for resident ones."""
        allowed = int(ctx.option("cpu_experts_per_token", 0)) or max(ctx.top_k // 2, 1)
        counts, score = routing.counts, routing.context[None]
        predicted = ctx.moe >= int(ctx.option("first_predicted_layer", 5))
        on_cpu = (counts > 0) & ~placed.resident
        free = (counts == 0) & placed.resident
        over = np.clip(on_cpu.sum(axis=2) - allowed, 0, free.sum(axis=2)) * predicted
        dropped = _first(np.where(on_cpu, score, np.inf), over) & on_cpu
        added = _first(np.where(free, -score, np.inf), over) & free
        return np.asarray(counts - dropped + added, np.int32)

    def split_prefill(self, ctx: Context, ready: Prepared, placed: Placed, counts: Counts) -> NDArray[np.int8]:
        found = tables(ctx, placed, counts)
        sent_s = found.move_s[placed.stored.format.astype(np.int64)] + looked_up(found.gpu_s, placed, counts)
        away = np.where(looked_up(found.cpu_s, placed, counts) < sent_s, CPU, STREAM)
        return np.where(counts > 0, np.where(placed.resident, HIT, away), NONE).astype(np.int8)

    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        assert isinstance(placed, Swapped)
        tier = np.where(placed.before, TIER_CODE["gpu"], TIER_CODE["host"]).astype(np.int8)
        return super().prefill(ctx, ready, replace(placed, resident=placed.before, tier=tier), routing, mode, tokens)

    def _pass(self, ctx: Context, ready: Prepared, placed: Placed, rows: attention.Rows, split: Split) -> Pass:
        if rows.prefill:
            return super()._pass(ctx, ready, placed, rows, split)
        layout = ready.layout
        run = Pass(tokens=rows.tokens, copies=layout.data)
        attention.add_attention(ctx, run, rows, layout, ready.kv_location, ready.attention_device)
        phase = run.phase("experts on the GPU beside those on the CPU")
        add_dense_side(ctx, run, phase, rows, layout)
        add_in_hbm(ctx, run, phase, placed, split.counts, split.place == HIT, ctx.gpu_width, layout)
        early = (ctx.moe >= int(ctx.option("first_predicted_layer", 5))).astype(float)[None, :, None]
        add_foreseen_cpu(ctx, run, phase, placed, split.counts, split.place == CPU, early)
        add_cpu_transfer(ctx, run, phase, split.counts, split.place == CPU)
        add_head_and_overhead(ctx, run, rows, layout, split.place)
        return run

    # --- the swap --------------------------------------------------------------------------------------------------
    def prompt_extra_s(self, ctx: Context, ready: Prepared, placed: Placed, prefill_s: float) -> float:
        return self._migration(ctx, placed, prefill_s).exposed_s / ctx.scenario.workload.batch

    def _migration(self, ctx: Context, placed: Placed, prefill_s: float) -> MigrationReport:
        """The swap runs beside the prefill of the layers after it; the last layer's always shows."""
        assert isinstance(placed, Swapped)
        incoming = placed.resident & ~placed.before
        moved = float(incoming.sum()) * ctx.gpu_width.expert_bytes
        fill = moved / ctx.machine.host_to_gpus_bytes_per_s
        last = float(incoming[-1].sum()) * ctx.gpu_width.expert_bytes / ctx.machine.host_to_gpus_bytes_per_s
        exposed = max(fill - prefill_s * (ctx.moe_layers - 1) / ctx.moe_layers, last)
        return MigrationReport(bytes=moved, fill_s=fill, hidden_s=fill - exposed, exposed_s=exposed)

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details:
        from planner.serving import time_prefill  # serving itself knows the policies

        split = self.split(ctx, ready, placed, routing)
        reads = max(float((split.place != NONE).sum()), 1.0)
        hits = float((split.place == HIT).sum()) / reads
        prefill_s = time_prefill(ctx, self, ready, placed, routing).prompt_s
        return Details(
            migration=self._migration(ctx, placed, prefill_s),
            facts=(
                ("Hit rate", f"{hits:.1%} of the experts that a pass reads are in HBM, {1 - hits:.1%} on the CPU."),
            ),
        )

    def plan_notes(self, ctx: Context) -> tuple[str, ...]:
        if ctx.scenario.workload.batch * ctx.tokens_per_sequence == 1:
            return ()
        return (
            "DAOP serves one sequence at a time; here residents follow the summed prefill of the batch, and no expert "
            "is replaced, because the tokens of a pass are not kept apart.",
        )

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        kept = ready.slots if isinstance(ready, Slots) else ready.resident_per_layer * ctx.moe_layers
        return (
            f"{kept} of {ctx.experts * ctx.moe_layers} experts in HBM, swapped for each sequence after prefill; the "
            "others on the CPU, started one layer early."
        )


def swapped(resident: NDArray[np.bool_], load: NDArray[np.float64], pairs: int) -> NDArray[np.bool_]:
    """Residents [layers, experts] after at most ``pairs`` of a layer's most loaded outsiders took a place inside."""
    outside = np.where(resident, -np.inf, load)
    inside = np.where(resident, load, np.inf)
    hot, cold = np.argsort(-outside, axis=1, kind="stable"), np.argsort(inside, axis=1, kind="stable")
    result = resident.copy()
    for i in range(min(pairs, resident.shape[1])):
        h, c = hot[:, i : i + 1], cold[:, i : i + 1]
        n_hot, n_cold = np.take_along_axis(outside, h, 1), np.take_along_axis(inside, c, 1)
        change = np.isfinite(n_hot) & np.isfinite(n_cold) & (n_hot > SWAP_RATIO * n_cold)
        np.put_along_axis(result, h, np.take_along_axis(result, h, 1) | change, 1)
        np.put_along_axis(result, c, np.take_along_axis(result, c, 1) & ~change, 1)
    return result


def _first(key: NDArray[np.float64], number: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The ``number`` [passes, layers] smallest of ``key`` [passes, layers, experts]."""
    rank = np.argsort(np.argsort(key, axis=2, kind="stable"), axis=2)
    return np.asarray(rank < number[..., None])
