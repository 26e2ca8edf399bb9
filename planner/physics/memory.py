"""Who fits where: the ledger of each memory tier, in bytes, all devices together and on the fullest one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import models
from planner.context import Context
from planner.devices import Machine
from planner.parallel import Layout, attention_ranks, fullest_stage
from planner.physics.operation import Array
from planner.result import MemoryItem, MemoryTier

TIER_NAMES = {"gpu": "GPU HBM", "host": "Host DRAM", "dimm_ndp": "NDP DIMMs", "cxl_ndp": "CXL-NDP memory"}


@dataclass
class Tier:
    """One tier: items as (bytes on all devices, bytes on the fullest device)."""

    id: str
    devices: int
    device_capacity_bytes: float
    name: str
    items: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, name: str, total_bytes: float, fullest_bytes: float | None = None) -> None:
        """Add an item; ``fullest_bytes`` defaults to an even spread."""
        if total_bytes <= 0:
            return
        fullest = total_bytes / self.devices if fullest_bytes is None else fullest_bytes
        before = self.items.get(name, (0.0, 0.0))
        self.items[name] = (before[0] + total_bytes, before[1] + fullest)

    @property
    def fullest_bytes(self) -> float:
        return sum(f for _, f in self.items.values())

    @property
    def short_bytes(self) -> float:
        """Bytes missing, the fullest device times the devices; negative = free."""
        return (self.fullest_bytes - self.device_capacity_bytes) * self.devices

    def record(self) -> MemoryTier:
        return MemoryTier(
            tier=self.id,
            name=self.name,
            devices=self.devices,
            capacity_bytes=self.device_capacity_bytes * self.devices,
            items=tuple(MemoryItem(name=n, bytes=total) for n, (total, _) in self.items.items()),
            used_bytes=sum(t for t, _ in self.items.values()),
            free_bytes=-self.short_bytes,
            fullest_device_bytes=self.fullest_bytes,
            device_capacity_bytes=self.device_capacity_bytes,
        )


Ledger = list[Tier]


def fits(ledger: Ledger) -> bool:
    return all(t.short_bytes <= 0 for t in ledger)


def activation_bytes(ctx: Context, tokens: float, logits_rows: float, ranks: int) -> float:
    """Peak activations of one GPU: residual stream, attention and expert intermediates, logits at 32 bit.

    Assumed: six hidden vectors per row live at once, and the up and gate projections of its k experts.
    """
    inner = ctx.expert_parameters / (3.0 * ctx.arch.hidden_size)
    row = 6.0 * ctx.hidden_bytes + 2.0 * ctx.top_k * inner * 2.0 / ranks
    return tokens * row + logits_rows * ctx.arch.vocab_size * 4.0 / ranks


def kv_bytes_per_sequence(ctx: Context, context_tokens: float, layout: Layout) -> float:
    """KV cache and recurrent state of one sequence on the GPUs of one replica, copies on ranks included."""
    return float(_kv_bytes(ctx, context_tokens, layout).sum())


def _kv_bytes(ctx: Context, context_tokens: float, layout: Layout) -> Array:
    """:func:`kv_bytes_per_sequence` of each layer, [layers]."""
    held = models.kv_bytes_held(ctx.arch, ctx.scenario.model.kv_format, context_tokens)
    copies = 1.0 if layout.attention_data else layout.tensor / attention_ranks(ctx, layout)
    return np.asarray(held * copies + ctx.state_bytes)  # recurrent state divides by heads over all ranks


def gpu_tier(
    ctx: Context,
    layout: Layout,
    batch: int,
    context_tokens: float,
    *,
    kv_on_gpu: bool,
    expert_bytes: float,
    expert_fullest_share: float = 1.0,
    buffer_bytes: float = 0.0,
    prefill_on_gpu: bool = True,
) -> Tier:
    """Ledger of the GPUs. ``expert_bytes``: routed experts of one replica; ``buffer_bytes``: streaming, per GPU."""
    gpu = ctx.machine.gpu
    assert gpu is not None
    name = TIER_NAMES["gpu"] if not ctx.machine.unified_memory else "Unified memory"
    tier = Tier("gpu", layout.gpus, gpu.capacity_bytes, name)
    copies = layout.data

    def add(item: str, replica_bytes: float, skew: float = 1.0) -> None:
        """``skew``: bytes of the fullest GPU over the mean of all."""
        tier.add(item, replica_bytes * copies, replica_bytes * copies / layout.gpus * skew)

    def add_layers(item: str, per_layer: Array, skew: float = 1.0) -> None:
        """Bytes of each layer: the fullest pipeline stage counts."""
        add(item, float(per_layer.sum()), fullest_stage(per_layer, layout) * skew)

    for item, replica_bytes, skew in _weights(ctx, layout):
        add(item, replica_bytes, skew)
    moe = np.asarray(ctx.work.is_moe, float)
    add_layers("experts", expert_bytes * moe / max(float(moe.sum()), 1.0), expert_fullest_share)
    if kv_on_gpu:
        replica = math.ceil(batch / layout.data)
        # Whole sequences on each GPU where attention is data parallel.
        own = math.ceil(replica / layout.tensor) * layout.tensor / replica if layout.attention_data else 1.0
        add_layers("KV cache", _kv_bytes(ctx, context_tokens, layout) * replica, own)
    chunk = min(ctx.chunk_tokens, batch * ctx.new_prompt_tokens) if prefill_on_gpu else 0
    decode = math.ceil(batch / layout.data) * ctx.tokens_per_sequence
    rows = max(chunk, decode)
    add("activations", activation_bytes(ctx, rows, decode, layout.tensor) * layout.tensor * layout.pipeline, 1.0)
    add("streaming buffers", buffer_bytes * layout.tensor * layout.pipeline, 1.0)
    tier.add("framework reserve", gpu.reserve_bytes * layout.gpus)
    return tier


def _weights(ctx: Context, layout: Layout) -> tuple[tuple[str, float, float], ...]:
    """Weights of one replica outside the routed experts: item, bytes, bytes of the fullest GPU over the mean."""
    key = (layout, ctx.scenario.workload.draft_tokens > 0)
    if key in ctx.weight_ledgers:
        return ctx.weight_ledgers[key]
    work = ctx.work
    mixer = ctx.group_bytes("mixer", work.mixer_parameters) * (layout.tensor if layout.attention_data else 1)
    dense = ctx.group_bytes("dense", work.dense_parameters) + ctx.group_bytes("shared", work.shared_parameters)
    dense = dense + ctx.group_bytes("router", work.router_parameters) * layout.tensor
    embed = float(ctx.group_bytes("embed", work.embed_parameters))
    head = 0.0 if ctx.arch.tied_embeddings else float(ctx.group_bytes("lm_head", work.lm_head_parameters))
    # One table on the first stage, one on the last, and the drafting module beside the latter.
    one_stage = embed + head if layout.pipeline == 1 else max(embed, head)
    rows = [
        ("attention", float(mixer.sum()), fullest_stage(mixer, layout)),
        ("dense and shared", float(dense.sum()), fullest_stage(dense, layout)),
        ("embedding and head", embed + head, one_stage * layout.pipeline / max(embed + head, 1.0)),
    ]
    if ctx.scenario.workload.draft_tokens > 0:
        rows.append(("drafting module", float(ctx.group_bytes("mixer", work.mtp_parameters)), float(layout.pipeline)))
    found = tuple(rows)
    ctx.weight_ledgers[key] = found
    return found


def host_tier(machine: Machine, *, name: str = TIER_NAMES["host"]) -> Tier:
    """Host memory with the operating system's and framework's reserve; a node is a device."""
    dram, cpu = machine.dram, machine.cpu
    assert dram is not None
    tier = Tier("host", machine.nodes, dram.capacity_bytes, name)
    if cpu is not None:
        tier.add("framework reserve", cpu.reserve_bytes * machine.nodes)
    return tier


def cxl_tier(machine: Machine) -> Tier:
    ndp = machine.cxl_ndp
    assert ndp is not None
    return Tier("cxl_ndp", ndp.units * machine.nodes, ndp.capacity_bytes, TIER_NAMES["cxl_ndp"])


def largest(fits_at: Callable[[int], bool], limit: int, guess: int = 0) -> int:
    """Largest whole number from 1 to ``limit`` at which a plan fits, 0 if none (fitting is monotone).

    ``guess``: where that is likely; asked there first, then ever further away until the limit lies between.
    """
    low, high, reach = 0, limit + 1, 1
    guess = min(max(guess, 1), limit)
    while high - low > 1:
        if guess <= low or guess >= high:
            guess = (low + high) // 2
        if fits_at(guess):
            low, guess = guess, guess + reach
        else:
            high, guess = guess, guess - reach
        reach *= 4
    return low


def likely(short_at: Callable[[int], Sequence[float]], limit: int) -> int:
    """Largest whole number from 1 to ``limit`` where none of ``short_at`` is above zero (each grows), 0 if none.

    Each is nearly a straight line, so between a number that is short and one that is not the first line to cross zero
    tells where to look next; every third time the middle does, for what is not straight.
    """
    low, high = 1, limit
    free, short = short_at(low), short_at(high)
    if max(free) > 0 or max(short) <= 0:
        return 0 if max(free) > 0 else limit
    turn = 0
    while high - low > 1:
        turn += 1
        part = min(-f / (s - f) for f, s in zip(free, short, strict=True) if s > 0) if turn % 3 else 0.5
        middle = min(max(low + int((high - low) * part), low + 1), high - 1)
        value = short_at(middle)
        if max(value) > 0:
            high, short = middle, value
            continue
        low, free = middle, value
        if turn % 3 and high - low > 1:  # a straight ledger ends right above
            value = short_at(low + 1)
            if max(value) > 0:
                return low
            low, free = low + 1, value
    return low
