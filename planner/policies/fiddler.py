"""Fiddler (arXiv 2402.07033, ICLR'25): popular experts stay in HBM; each of the others is computed where it costs less.

HBM that is left after everything else holds the most popular (layer, expert) pairs of the whole model, from a
calibration run; nothing moves in between. In each layer, for each expert e that is hit and not in HBM,

    on the CPU if  t_cpu(n_e) < t_link + t_gpu(n_e),  else sent over the link, used once and dropped,

where the published constants make t_cpu proportional to the tokens n_e (7 against 70 for a transfer: ten tokens). The
released code runs the GPU's experts, then the CPU's ones; a variant in the DAOP fork runs them at the same time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.context import Context
from planner.physics import experts
from planner.physics.experts import Counts
from planner.policies.base import Option, Placed, Prepared
from planner.policies.split import Slots, SplitPolicy
from planner.policies.split_pass import Split, looked_up, tables
from planner.result import Details
from planner.routing import RoutingState
from planner.split import CPU, HIT, NONE, STREAM


class Fiddler(SplitPolicy):
    id = "fiddler"
    name = "Fiddler (popular experts, CPU or link)"
    sentence = (
        "The most popular experts of the model stay in HBM; each other one is computed by the CPU or sent to the GPU, "
        "whichever takes less time."
    )
    source = "Fiddler (arXiv 2402.07033, ICLR'25) and its released code"
    host_keeps_all = False
    per_layer = False
    options = (
        Option(
            "overlap",
            "choice",
            "serial",
            "serial: GPU experts, transfers and CPU experts follow each other, as in the released code; beside: they "
            "run at the same time",
            choices=("serial", "beside"),
        ),
        Option(
            "crossover_tokens",
            "int",
            0,
            "tokens from which an expert is sent to the GPU instead of computed by the CPU; 0 = whichever takes less "
            "time on this machine (the released constants give 10)",
            low=0,
            high=1_000_000,
        ),
    )
    notes = (
        "The published rule counts a transfer as one constant; here its cost is the transfer plus the GPU's compute, "
        "both from this machine's figures.",
        "Experts that are in HBM are not kept in host memory too, as in the released code.",
    )

    def chosen(self, ctx: Context, ready: Prepared, routing: RoutingState) -> NDArray[np.bool_]:
        """The most popular (layer, expert) pairs of the whole model; every layer has the same tokens in the profile."""
        assert isinstance(ready, Slots)
        return most_popular(routing.profile, ready.slots)

    def why_gpu(self) -> str:
        return "among the most popular experts of the whole model in the calibration run; fixed in HBM"

    def why_host(self) -> str:
        return "less popular; computed by the CPU or sent to the GPU for one pass, whichever takes less time"

    def split(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Split:
        return Split(routing.counts, self.split_prefill(ctx, ready, placed, routing.counts))

    def split_prefill(self, ctx: Context, ready: Prepared, placed: Placed, counts: Counts) -> NDArray[np.int8]:
        crossover = int(ctx.option("crossover_tokens", 0))
        if crossover:
            on_cpu = counts < crossover
        else:
            found = tables(ctx, placed, counts)
            sent_s = found.move_s[placed.stored.format.astype(np.int64)] + looked_up(found.gpu_s, placed, counts)
            on_cpu = looked_up(found.cpu_s, placed, counts) < sent_s
        away = np.where(on_cpu, CPU, STREAM)
        return np.where(counts > 0, np.where(placed.resident, HIT, away), NONE).astype(np.int8)

    def runs_serial(self, ctx: Context) -> bool:
        return str(ctx.option("overlap", "serial")) == "serial"

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details:
        place = self.split_prefill(ctx, ready, placed, routing.counts)
        pairs, reads = float(routing.counts.sum()), float((place != NONE).sum())
        in_hbm, _ = experts.tokens_and_bytes(routing.counts, placed.resident, placed.stored.bytes)
        sent = float((place == STREAM).sum())
        return Details(
            facts=(
                ("Hit rate", f"{in_hbm * routing.counts.shape[0] / pairs:.1%} of the tokens' experts are in HBM."),
                ("Misses", f"{sent / max(reads, 1.0):.1%} of the experts that a pass reads are sent to the GPU."),
            )
        )

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        kept = ready.slots if isinstance(ready, Slots) else ready.resident_per_layer * ctx.moe_layers
        total = ctx.experts * ctx.moe_layers
        return f"The {kept} most popular of {total} experts fixed in HBM, the others on CPU or link."


def most_popular(load: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """The ``count`` largest of ``load`` [layers, experts] over all layers, ties to the lower index."""
    chosen = np.zeros(load.size, bool)
    chosen[np.argsort(-load.ravel(), kind="stable")[:count]] = True
    return chosen.reshape(load.shape)
