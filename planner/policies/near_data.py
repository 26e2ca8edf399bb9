"""What the policies with near-data processors share: experts computed where they lie, some moved to the GPU."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from models import formats
from planner.context import Context, Width
from planner.deal import deal
from planner.devices import Ndp
from planner.errors import PlanError
from planner.physics import attention, collective, experts, transfers
from planner.physics.attention import Rows
from planner.physics.experts import Counts, Stored, spread
from planner.physics.operation import Array, Phase
from planner.policies.base import Option, Prepared
from planner.policies.hybrid import add_cxl_to_gpu, add_dense_side, add_residents, counts_rows, sync_s
from planner.step import Pass

NDP_COMPUTE = Option(
    "ndp_compute",
    "choice",
    "gemv",
    "row mapping of the NDP arrays: gemv (all units used at few tokens), padded (whole tiles), scaled (gemv, faster by "
    "16 / bits)",
    choices=("gemv", "padded", "scaled"),
)
EXCLUSION = Option(
    "whole_dimm_exclusion",
    "bool",
    False,
    "a host read blocks the whole DIMM at its channel's rate; off = it takes rank time, bytes / (ranks x rank rate)",
)
BOUNCE = Option(
    "cxl_bounce", "bool", False, "GPU and CXL device exchange data through host DRAM instead of peer to peer"
)


def check_widths(ctx: Context, kind: str, widths: Iterable[Width]) -> None:
    """Refuse weight formats that near-data processors of ``kind`` cannot compute: PlanError, one sentence."""
    for width in widths:
        if formats.compute_path(width.format, kind).how == "no":
            named = ctx.scenario.policy.expert_format == width.format
            field = "policy.expert_format" if named else "model.weight_format"
            raise PlanError(
                f"{field} is {width.format!r}, which near-data processors cannot compute; choose another for the "
                "experts, such as bf16, fp8-block, int4-g128, mxfp4 or gguf-q4_0."
            )


def ndp_of(ctx: Context, kind: str) -> Ndp:
    ndp = ctx.machine.dimm_ndp if kind == "dimm_ndp" else ctx.machine.cxl_ndp
    assert ndp is not None
    return ndp


def kind_of(ctx: Context) -> str:
    """The near-data processors that a policy open to both uses: CXL if the system has it."""
    return "cxl_ndp" if ctx.machine.cxl_ndp is not None else "dimm_ndp"


def buffer_notes(ctx: Context, kind: str) -> tuple[str, ...]:
    """A sentence where nobody says how large the buffer of the NDP DIMMs is."""
    if kind == "dimm_ndp" and ndp_of(ctx, kind).buffer_bytes is None:
        return (
            "The buffer of these NDP DIMMs is not known (system.overrides.ndp.buffer_bytes), so it sets no limit: the "
            "weights of an expert are read once, whatever its tokens.",
        )
    return ()


def homes(ctx: Context, load: Array, kind: str, placed: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Unit that holds each placed expert, [moe_layers, experts], loads dealt out evenly; -1 elsewhere."""
    return deal(np.where(placed, load, -1.0), ndp_of(ctx, kind).units)


def host_read_rate(ctx: Context, kind: str) -> float:
    """Bytes/s at which a host read occupies one unit: rank time, or its channel's rate if the DIMM is excluded."""
    ndp, dram = ndp_of(ctx, kind), ctx.machine.dram
    if kind == "dimm_ndp" and ctx.option("whole_dimm_exclusion", False) and dram is not None:
        return dram.channel_bandwidth_bytes_per_s
    return ndp.rank_bandwidth_bytes_per_s


def per_unit(values: Array, home: NDArray[np.int16], units: int) -> Array:
    """Sum of ``values`` [samples, layers, experts] by unit, [units, samples, layers]."""
    if units == 1:
        return np.where(home >= 0, values, 0.0).sum(axis=2)[None]
    return np.stack([np.where(home == u, values, 0.0).sum(axis=2) for u in range(units)])


def moved_hot(ctx: Context, counts: Counts, resident: NDArray[np.bool_], kind: str) -> NDArray[np.bool_]:
    """Experts that MoNDE moves to the GPU in a pass: the H most loaded active ones, [samples, layers, experts].

    H = ceil(active x B_link / (B_link + B_ndp)), at least 1 (MoNDE, arXiv 2405.18832, as re-implemented by DynaNDE);
    active residents count towards H; with ``residency`` any-resident, one of them is enough and nothing moves.
    """
    ndp = ndp_of(ctx, kind)
    link = ctx.machine.cxl_link if kind == "cxl_ndp" else ctx.machine.pcie
    assert link is not None
    hit = counts > 0
    active = hit.sum(axis=2)
    asked = int(ctx.option("hot_experts", 0))
    if asked > 0:
        wanted = np.minimum(asked, active)
    else:
        alpha = link.peak_bytes_per_s / (link.peak_bytes_per_s + ndp.peak_bandwidth_bytes_per_s * ndp.units)
        wanted = np.where(active > 0, np.maximum(np.ceil(alpha * active), 1), 0)
    there = (hit & resident).sum(axis=2)
    wanted = np.maximum(wanted - there, 0)
    if ctx.option("residency", "static") == "any-resident":
        wanted = np.where(there > 0, 0, wanted)
    candidates = np.where(resident, 0, counts)
    rank = np.argsort(np.argsort(-candidates, axis=2, kind="stable"), axis=2)
    return np.asarray((rank < wanted[..., None]) & hit & ~resident)


def add_ndp(
    ctx: Context,
    run: Pass,
    phase: Phase,
    kind: str,
    stored: Stored,
    counts: Counts,
    mask: NDArray[np.bool_],
    home: NDArray[np.int16],
    host_reads: Array | None = None,
    *,
    sharded: bool = False,
) -> None:
    """Masked experts on their units; the unit that takes longest sets the time.

    ``host_reads`` [samples, layers, experts] are bytes that others read from the units in the same phase.
    ``sharded``: every expert is divided over all units, whatever its home.
    """
    ndp = ndp_of(ctx, kind)
    mapping = str(ctx.option("ndp_compute", "gemv"))
    work = experts.on_ndp(ctx, counts, stored, kind, mapping).only(mask)
    seconds = work.seconds
    waits = np.where(work.compute_s >= work.bytes_s, seconds, 0.0)

    def by_unit(values: Array) -> Array:
        if sharded:
            return values.sum(axis=2)[None] / ndp.units
        return per_unit(values, home, ndp.units)

    own, compute = by_unit(seconds), by_unit(waits)
    taken = np.zeros_like(own)
    if host_reads is not None:
        taken = by_unit(host_reads / host_read_rate(ctx, kind))
    busiest = (own + taken).argmax(axis=0)[None]

    def of_busiest(values: Array) -> Array:
        return np.take_along_axis(values, busiest, 0)[0]

    on_compute = of_busiest(compute)
    phase.add("ndp", "routed_ndp", "ndp_compute", spread(ctx, on_compute))
    phase.add("ndp", "routed_ndp", "ndp_memory", spread(ctx, of_busiest(own) - on_compute + of_busiest(taken)))
    experts.count_ndp(ctx, run.flows, counts, mask, stored, kind, mapping)
    _add_activations(ctx, run, phase, kind, counts, mask, sharded=sharded)


def _add_activations(
    ctx: Context, run: Pass, phase: Phase, kind: str, counts: Counts, mask: NDArray[np.bool_], *, sharded: bool = False
) -> None:
    """Tokens to the units and results back, serial with the units' work, plus a command each way per layer."""
    ndp, pcie, gpu = ndp_of(ctx, kind), ctx.machine.pcie, ctx.machine.gpu
    assert pcie is not None and gpu is not None
    used = np.where(mask, counts, 0).sum(axis=2)
    # A token crosses once for each unit that it has experts on (and its summed result comes back once).
    vectors = np.minimum(used, counts_rows(counts, ctx) * collective.distinct_ranks(ctx.top_k, ndp.units))
    if sharded:  # every unit works for every token
        vectors = np.minimum(used, counts_rows(counts, ctx)) * ndp.units
    moved = vectors * ctx.hidden_bytes
    busy = (used > 0).astype(float)
    commands = 2.0 * ndp.command_s * busy
    in_dram = 2.0 * moved  # written by the host side and read by the units, or the other way round
    if kind == "cxl_ndp":
        link = ctx.machine.cxl_link
        assert link is not None
        rate = min(link.bytes_per_s * ndp.units, ctx.machine.host_to_gpus_bytes_per_s)
        run.flows.cxl_link_bytes += float(moved.mean(axis=0).sum())
        in_dram = 4.0 * moved if ctx.option("cxl_bounce", False) else 0.0 * moved  # a buffer on the way, both ways
    else:
        rate = ctx.machine.host_to_gpus_bytes_per_s
        commands = commands + 2.0 * pcie.latency_s * busy
        moved = np.minimum(used, counts_rows(counts, ctx)) * ctx.hidden_bytes
        run.flows.pcie_bytes += float(moved.mean(axis=0).sum())
    dram = ctx.machine.dram
    if dram is not None and in_dram.any():
        phase.add("dram", "link", "dram", spread(ctx, in_dram / dram.bandwidth_bytes_per_s))
        run.flows.dram_bytes += float(in_dram.mean(axis=0).sum())
    phase.add("ndp", "link", "link", spread(ctx, 2.0 * moved / rate))
    # Results share the link with the experts that are moved the same way meanwhile.
    phase.add("cxl_link" if kind == "cxl_ndp" else "link", "link", "link", spread(ctx, moved / rate))
    transfers.add_latency(run, spread(ctx, commands))


def channel_s(ctx: Context, values_bytes: Array, home: NDArray[np.int16]) -> Array:
    """Seconds of the busiest host channel while bytes [samples, layers, experts] leave the DIMMs that they lie on.

    DIMM d is on channel d modulo the channels. An expert on one DIMM never leaves it faster than its channel; several
    on different channels leave side by side. A unit that stands for more than a channel's DIMMs has all of their
    channels. Shape [samples, layers].
    """
    dram = ctx.machine.dram
    assert dram is not None
    groups = max(min(dram.channels, ndp_of(ctx, "dimm_ndp").units), 1)
    on = np.where(home >= 0, home % groups, -1).astype(np.int16)
    return per_unit(values_bytes, on, groups).max(axis=0) * groups / dram.bandwidth_bytes_per_s


def add_moved(
    ctx: Context,
    run: Pass,
    phase: Phase,
    kind: str,
    stored: Stored,
    fmt: str,
    counts: Counts,
    moved: NDArray[np.bool_],
    home: NDArray[np.int16] | None = None,
) -> None:
    """Experts moved to the GPU for this pass: all transfers, then the compute of the last one (MoNDE's PMove side).

    home: the DIMM that each expert lies on, whose channel limits its transfer; None: each is divided over all of them.
    """
    gpu = ctx.machine.gpu
    assert gpu is not None
    leaving = np.where(moved, stored.bytes, 0.0)
    crossing = spread(ctx, leaving.sum(axis=2))[None]
    if kind == "cxl_ndp":
        add_cxl_to_gpu(ctx, run, phase, crossing)
        lane = "cxl_link"
    else:
        transfers.add_host_to_gpu(ctx, run, phase, "link", crossing)
        lane = "link"
        if home is not None:
            over_pcie = leaving.sum(axis=2) / ctx.machine.host_to_gpus_bytes_per_s
            behind = np.maximum(channel_s(ctx, leaving, home) - over_pcie, 0.0)
            phase.add("link", "link", "dram", spread(ctx, behind))
    work = experts.on_gpu(ctx, counts, stored.bytes, fmt, gpu.per_node).only(moved)
    seconds = work.seconds
    phase.add(
        "gpu",
        "routed_gpu",
        "gpu_compute",
        spread(ctx, np.where(work.compute_s >= work.bytes_s, seconds, 0.0).sum(axis=2)),
    )
    phase.add(
        "gpu", "routed_gpu", "hbm", spread(ctx, np.where(work.compute_s < work.bytes_s, seconds, 0.0).sum(axis=2))
    )
    last = seconds.max(axis=2)
    phase.add(lane, "routed_gpu", "hbm", spread(ctx, last))  # type: ignore[arg-type]
    pairs, read = experts.tokens_and_bytes(counts, moved, stored.bytes)
    flop = 2.0 * ctx.expert_parameters * pairs
    run.flows.gpu_flop += flop
    run.flows.gpu_peak_s += flop / gpu.flop_per_s(ctx.gpu_rate(fmt))
    run.flows.hbm_bytes += read
    run.flows.hbm_achieved_s += read / gpu.bandwidth_bytes_per_s


def near_data_pass(
    ctx: Context,
    ready: Prepared,
    rows: Rows,
    kind: str,
    stored: Stored,
    fmt: str,
    counts: Counts,
    resident: NDArray[np.bool_],
    home: NDArray[np.int16],
    *,
    move: bool,
) -> Pass:
    """One pass with residents on the GPU, the rest on near-data units, and MoNDE's hot ones moved if ``move``."""
    layout = ready.layout
    run = Pass(tokens=rows.tokens, copies=layout.data)
    kv, device = ("gpu", "gpu") if rows.prefill else (ready.kv_location, ready.attention_device)
    attention.add_attention(ctx, run, rows, layout, kv, device)
    phase = run.phase("GPU experts beside near-data experts")
    add_dense_side(ctx, run, phase, rows, layout)
    add_residents(ctx, run, phase, counts, resident, layout)
    moved = moved_hot(ctx, counts, resident, kind) if move else np.zeros(counts.shape, bool)
    reads = None
    if move and moved.any():
        add_moved(ctx, run, phase, kind, stored, fmt, counts, moved, home)
        reads = np.where(moved, stored.bytes, 0.0)
    add_ndp(ctx, run, phase, kind, stored, counts, ~resident & ~moved, home, reads)
    attention.add_head(ctx, run, rows, layout)
    attention.add_overhead(ctx, run, rows, layout, sync_s(ctx) if kind == "dimm_ndp" else 0.0)
    return run
