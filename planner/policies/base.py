"""What every policy is: where experts live, what moves, what overlaps, all through the same physics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from planner.context import Context, Width
from planner.devices import Machine
from planner.errors import PlanError
from planner.parallel import Layout, node_layout, passes_per_step, sequences_per_pass
from planner.physics import attention
from planner.physics.experts import Counts, Stored
from planner.physics.memory import Ledger, fits, likely
from planner.physics.operation import Array
from planner.result import TIERS, Details, MigrationReport, ScheduleReport
from planner.routing import RoutingState
from planner.step import Pass

TIER_CODE: dict[str, int] = {name: code for code, name in enumerate(TIERS)}


@dataclass(frozen=True)
class Option:
    """One further option of a policy, as its page and the command line list it."""

    name: str
    type: str  # "bool", "int", "float", "choice", "text"
    default: bool | int | float | str
    description: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PolicyEntry:
    id: str
    name: str
    sentence: str
    needs: tuple[str, ...]
    options: tuple[Option, ...]
    source: str


@dataclass(frozen=True)
class Prepared:
    """What is decided before any routing is known: layout, places of KV and attention, residency, ledger."""

    layout: Layout
    kv_location: str  # "gpu" or "host"
    attention_device: str  # "gpu" or "cpu"
    resident_per_layer: int  # routed experts of each layer in HBM
    ledger: Ledger


@dataclass(frozen=True)
class Placed:
    """Where each expert lives, ``[moe_layers, experts]``, and how."""

    tier: NDArray[np.int8]  # index into TIERS
    resident: NDArray[np.bool_]  # computed from HBM
    stored: Stored  # form away from HBM
    widths: tuple[Width, ...]
    why: dict[int, str]  # tier code -> reason, in words
    home: NDArray[np.int16]  # near-data unit that holds each expert, -1 = striped or elsewhere
    # Experts in HBM have their stored form too, not the form of resident ones.
    one_form: bool = field(default=False, kw_only=True)


class Policy(ABC):
    """A placement and scheduling scheme. Subclasses say what they need, place, and build passes."""

    id: ClassVar[str]
    name: ClassVar[str]
    sentence: ClassVar[str]
    source: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]  # of "gpu", "host", "pcie", "dimm_ndp", "cxl_ndp", "ndp"
    options: ClassVar[tuple[Option, ...]] = ()
    default_bits: ClassVar[float | None] = None
    kv_choices: ClassVar[tuple[str, ...]] = ("gpu", "host")
    notes: ClassVar[tuple[str, ...]] = ()
    ordered: ClassVar[bool] = False  # what a pass finds depends on those before it: timed on steps in order

    # --- before routing --------------------------------------------------------------------------------------------
    def layout(self, ctx: Context) -> Layout:
        return node_layout(ctx)

    @abstractmethod
    def ledger(
        self, ctx: Context, layout: Layout, kv_location: str, resident: int, batch: int, context_tokens: float
    ) -> Ledger:
        """Memory of every tier with ``resident`` routed experts of each layer in HBM."""

    def resident_default(self, ctx: Context) -> int | None:
        """Routed experts of each layer in HBM when the scenario leaves it open; None = as many as fit."""
        return None

    def least_resident(self, ctx: Context) -> int:
        return 0

    def check(self, ctx: Context) -> None:  # noqa: B027 (a hook: most policies take everything)
        """Refuse what this policy cannot do with these formats or this model: PlanError, one sentence."""

    def prepare(self, ctx: Context) -> Prepared:
        """Choose what the scenario leaves open: KV in HBM if it fits there, then as many resident experts as fit."""
        self.check(ctx)
        layout = self.layout(ctx)
        location = self._kv_location(ctx, layout)
        w = ctx.scenario.workload
        context = float(ctx.full_context_tokens)
        resident = self._resident(ctx, layout, location, w.batch, context)
        ledger = self.ledger(ctx, layout, location, resident, w.batch, context)
        return Prepared(layout, location, self._attention_device(ctx, location), resident, ledger)

    def kv_places(self, ctx: Context) -> tuple[str, ...]:
        """Where the KV cache may lie."""
        asked = ctx.scenario.policy.kv_location
        if asked != "auto":
            return (asked,)
        alone = ctx.machine.dram is None or ctx.machine.unified_memory
        return ("gpu",) if alone and "gpu" in self.kv_choices else self.kv_choices

    def short_bytes(self, ctx: Context, kv_location: str) -> list[float]:
        """Bytes that each tier lacks with as few experts in HBM as may be; none above zero where a plan fits.

        One ledger: quick, for finding limits. :meth:`prepare` has the last word.
        """
        least = ctx.scenario.policy.gpu_experts_per_layer
        if least is None:
            least = self.resident_default(ctx) or self.least_resident(ctx)
        w, context = ctx.scenario.workload, float(ctx.full_context_tokens)
        ledger = self.ledger(ctx, self.layout(ctx), kv_location, min(least, ctx.experts), w.batch, context)
        return [tier.short_bytes for tier in ledger]

    def _resident(self, ctx: Context, layout: Layout, location: str, batch: int, context: float) -> int:
        asked = ctx.scenario.policy.gpu_experts_per_layer
        if asked is None:
            asked = self.resident_default(ctx)
        if asked is not None:
            if asked > ctx.experts:
                raise PlanError(
                    f"policy.gpu_experts_per_layer is {asked}; the model has {ctx.experts} routed experts per layer."
                )
            return asked
        least = self.least_resident(ctx)

        def short_at(more: int) -> list[float]:
            return [self.ledger(ctx, layout, location, least + more, batch, context)[0].short_bytes]

        # The largest number whose HBM ledger still fits.
        return least + likely(short_at, ctx.experts - least) if ctx.experts > least else least

    def _kv_location(self, ctx: Context, layout: Layout) -> str:
        asked = ctx.scenario.policy.kv_location
        if asked != "auto":
            if asked not in self.kv_choices:
                raise PlanError(
                    f"policy.kv_location is {asked!r}; {self.name} keeps the KV cache in: {', '.join(self.kv_choices)}."
                )
            if asked == "host" and ctx.machine.dram is None:
                raise PlanError("policy.kv_location is 'host'; this system has no host memory of its own.")
            return asked
        if "host" not in self.kv_choices or ctx.machine.dram is None or ctx.machine.unified_memory:
            return "gpu"
        if ctx.scenario.policy.attention_device == "cpu":  # attention is computed where the cache lies
            return "host"
        w = ctx.scenario.workload
        least = ctx.scenario.policy.gpu_experts_per_layer
        if least is None:
            least = self.resident_default(ctx) or self.least_resident(ctx)
        ledger = self.ledger(ctx, layout, "gpu", min(least, ctx.experts), w.batch, float(ctx.full_context_tokens))
        if ledger[0].short_bytes <= 0:
            return "gpu"
        beside = self.ledger(ctx, layout, "host", min(least, ctx.experts), w.batch, float(ctx.full_context_tokens))
        return "host" if fits(beside) else "gpu"

    def _attention_device(self, ctx: Context, kv_location: str) -> str:
        asked = ctx.scenario.policy.attention_device
        if asked == "cpu":
            if kv_location != "host":
                raise PlanError(
                    "policy.attention_device is 'cpu', which needs policy.kv_location 'host'; the KV cache is in HBM "
                    "here, so it takes auto or gpu."
                )
            if ctx.machine.cpu is None:
                raise PlanError("policy.attention_device is 'cpu'; this system has no CPU figures.")
            return "cpu"
        if asked == "gpu" or kv_location == "gpu" or ctx.machine.cpu is None:
            return "gpu"
        # Beside the KV cache, whichever is faster: shipping the cache, or computing where it lies.
        rows = attention.decode_rows(ctx, ctx.scenario.workload.batch)
        dram, pcie, gpu = ctx.machine.dram, ctx.machine.pcie, ctx.machine.gpu
        assert dram is not None and pcie is not None and gpu is not None
        kv = float(rows.kv_read_bytes.mean(axis=0).sum())
        shipped = kv / min(ctx.machine.host_to_gpus_bytes_per_s, dram.bandwidth_bytes_per_s)
        computed = max(
            kv / dram.cpu_kv_bandwidth_bytes_per_s,
            float(rows.attention_flop.mean(axis=0).sum()) / ctx.machine.cpu.vector_flop_per_s,
        )
        return "cpu" if computed < shipped else "gpu"

    def sequences_per_pass(self, ctx: Context, layout: Layout) -> int:
        return sequences_per_pass(ctx.scenario.workload.batch, layout)

    def passes_per_step(self, ctx: Context, layout: Layout) -> int:
        return passes_per_step(ctx.scenario.workload.batch, layout)

    # --- with routing ----------------------------------------------------------------------------------------------
    @abstractmethod
    def place(self, ctx: Context, ready: Prepared, routing: RoutingState) -> Placed: ...

    @abstractmethod
    def decode(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Pass: ...

    @abstractmethod
    def prefill(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState, mode: str, tokens: int
    ) -> Pass:
        """One prefill pass of ``tokens`` rows in one of :meth:`prefill_modes`; routing.prefill_counts belongs to it."""

    def prefill_modes(self, ctx: Context) -> tuple[str, ...]:
        """Ways in which this policy can run prefill, its usual one first."""
        return ("gpu",)

    def computed_counts(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Counts:
        """Tokens per expert that the timed decode passes compute, [passes, layers, experts].

        The last passes of ``routing.counts`` as they are, for a policy that computes what the router chose; one that
        times fewer of them, skips experts or exchanges them says so here. The lower bound counts this work.
        """
        return routing.counts

    def prompt_extra_s(self, ctx: Context, ready: Prepared, placed: Placed, prefill_s: float) -> float:
        """Seconds added to a prompt's prefill, such as a hot-set migration that prefill does not hide."""
        return 0.0

    def steps_wanted(self, ctx: Context) -> int | None:
        """Decode steps to sample if the scenario leaves it open; None = automatic. Caches ask for a longer history."""
        return None

    def details(self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState) -> Details | None:
        """What this policy has to tell beyond placement and times."""
        return None

    def schedule_report(
        self, ctx: Context, ready: Prepared, placed: Placed, routing: RoutingState
    ) -> ScheduleReport | None:
        """How far the schedule of one sampled step is from the best; takes longer than a plan, so it is asked apart."""
        return None

    def migration(self, ctx: Context, placed: Placed, prefill_s: float) -> MigrationReport | None:
        """Move of a hot set into HBM after prefill, and how much of it ``prefill_s`` seconds of prefill hide."""
        return None

    def describe(self, ctx: Context, ready: Prepared, placed: Placed | None) -> str:
        return self.sentence

    def plan_notes(self, ctx: Context) -> tuple[str, ...]:
        return ()

    @classmethod
    def entry(cls) -> PolicyEntry:
        return PolicyEntry(cls.id, cls.name, cls.sentence, cls.needs, cls.options, cls.source)

    def missing(self, machine: Machine) -> list[str]:
        """Parts that the policy needs and the system lacks, in words."""
        have = {
            "gpu": machine.gpu is not None,
            "host": machine.dram is not None and machine.cpu is not None,
            "pcie": machine.pcie is not None,
            "dimm_ndp": machine.dimm_ndp is not None,
            "cxl_ndp": machine.cxl_ndp is not None,
            "ndp": machine.dimm_ndp is not None or machine.cxl_ndp is not None,
        }
        words = {
            "gpu": "a GPU",
            "host": "host memory with a CPU",
            "pcie": "a link from host to GPU",
            "dimm_ndp": "NDP DIMMs",
            "cxl_ndp": "a CXL-NDP device",
            "ndp": "near-data processors (NDP DIMMs or a CXL-NDP device)",
        }
        return [words[n] for n in self.needs if not have[n]]


def hottest(load: Array, count: int) -> NDArray[np.bool_]:
    """The ``count`` most loaded experts of each layer, ties to the lower index, bool [layers, experts]."""
    chosen = np.zeros(load.shape, bool)
    if count > 0:
        order = np.argsort(-load, axis=1, kind="stable")[:, :count]
        np.put_along_axis(chosen, order, True, axis=1)
    return chosen


def mixed_widths(load: Array | RoutingState, widths: Sequence[tuple[Width, float]]) -> Stored:
    """Give each expert of a layer a width: the more loaded ones the wider, in the given shares.

    load: [layers, experts], or a routing state for its calibration run, which is drawn only where widths differ.
    """
    layers, experts = load.shape
    if isinstance(load, RoutingState):
        load = load.profile if len(widths) > 1 else np.zeros(load.shape)
    rank = np.argsort(np.argsort(-load, axis=1, kind="stable"), axis=1)
    index = np.zeros((layers, experts), np.int8)
    edge = 0.0
    for position, (_, share) in enumerate(widths):
        index[rank >= round(edge * experts)] = position
        edge += share
    sizes = np.array([w.expert_bytes for w, _ in widths])
    bits = np.array([w.bits for w, _ in widths])
    return Stored(sizes[index], bits[index], index, np.array([w.cpu_matrix for w, _ in widths])[index])


def nowhere(shape: tuple[int, ...]) -> NDArray[np.int16]:
    """Homes of a policy without near-data units."""
    return np.full(shape, -1, np.int16)


def mean_expert_bytes(widths: Sequence[tuple[Width, float]]) -> float:
    return sum(w.expert_bytes * share for w, share in widths)
