"""Known good practice that a scenario departs from, each with its source and how sure it is.

A rule speaks only where the plan uses the part that it is about. Thresholds are the field's, not ours; what a rule is
worth in this very plan is told by the plan's own figures, so that one that costs nothing here can be seen as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hardware import System
from models import checkpoint_bytes
from planner.evaluate import Evaluation
from planner.result import Advice
from planner.words.formats import share

MOST_VECTOR_TOKENS = 4
"""Tokens per expert up to which matrix units (tiles of 16 rows) gain nothing over vector units (KTransformers)."""
FEWEST_CORES = 16
LARGE_MEMORY_BYTES = 2e12
OFFLINE_BATCH = 256
HYBRID_LANES = ("cpu", "ndp")


def advice(found: Evaluation) -> tuple[Advice, ...]:
    """Advice on a plan, in a fixed order; empty where nothing departs or nothing was timed."""
    return tuple(item for rule in RULES for item in rule(found))


def _system(found: Evaluation) -> System:
    return found.ctx.machine.figures.system


def _busy(found: Evaluation, lane: str) -> float:
    """Share of the decode step in which a lane works; 0 where the plan does not use it."""
    domains = found.decode.step.domains if found.decode else ()
    return next((domain.busy_share for domain in domains if domain.id == lane), 0.0)


def _cpu_experts(found: Evaluation) -> bool:
    parts = found.decode.step.parts if found.decode else ()
    return any(part.part == "routed_cpu" and part.busy_s > 0 for part in parts)


def _tokens_per_expert(found: Evaluation) -> float:
    """Mean tokens of an expert that is hit in a decode pass."""
    assert found.routing is not None
    counts = found.routing.counts
    hit = int((counts > 0).sum())
    return float(counts.sum()) / hit if hit else 0.0


def _amx(found: Evaluation) -> Iterator[Advice]:
    system = _system(found)
    if not _cpu_experts(found) or system.cpu_class in (None, "amx", "neon"):
        return
    tokens = _tokens_per_expert(found)
    pays = (
        f"Here an expert that is hit receives {tokens:.1f} tokens per step in the mean, so decode gains little; "
        "prefill on the CPU gains."
        if tokens <= MOST_VECTOR_TOKENS
        else f"Here an expert that is hit receives {tokens:.0f} tokens per step in the mean: enough for matrix units."
    )
    yield Advice(
        id="amx",
        text=f"{system.cpu_name} computes experts without AMX. A CPU with AMX, enabled in firmware and kernel, "
        f"multiplies several tokens per expert about four times as fast. {pays}",
        source="KTransformers, doc/en/AMX.md and SOSP 2025: 21.3 TFLOP/s in BF16 per Xeon 4 socket with AMX kernels, "
        "3.9 times oneDNN on the same chip",
        certainty="measured",
    )


def _cores(found: Evaluation) -> Iterator[Advice]:
    system = _system(found)
    cores, sockets = system.get("cpu.cores_per_socket"), system.get("cpu.sockets")
    if not _cpu_experts(found) or not cores or not sockets or cores * sockets >= FEWEST_CORES:
        return
    yield Advice(
        id="cores",
        text=f"{cores * sockets:.0f} physical cores compute experts; {FEWEST_CORES} or more are advised, "
        "so that the cores can ask for all that the memory channels give.",
        source="practice of CPU offloading (KTransformers and llama.cpp users); no measurement isolates the number",
        certainty="rule of thumb",
    )


def _dimms_for_speed(found: Evaluation) -> Iterator[Advice]:
    system = _system(found)
    per_channel, rate = system.get("dram.dimms_per_channel"), system.get("dram.mt_per_s")
    alone, host = system.get("cpu.memory_mt_per_s_1dpc"), _host_bytes(found)
    module = system.get("dram.module_mt_per_s")
    if not _reads_host(found) or per_channel != 2 or not rate or not alone or host is None:
        return
    alone = min(alone, module) if module else alone
    used, capacity = host
    if alone <= rate:
        return
    half = capacity / 2
    room = (
        f"One per channel would still hold what this plan keeps there ({used / 1e9:,.0f} of {half / 1e9:,.0f} GB)"
        if used <= half
        else f"One per channel of twice the size would hold what this plan keeps there ({used / 1e9:,.0f} GB)"
    )
    yield Advice(
        id="one_dimm_per_channel",
        text=f"Two memory modules per channel run at {rate:,.0f} MT/s, one at {alone:,.0f}: one is "
        f"for speed, two are for capacity. {room}.",
        worth=f"{share(alone / rate - 1)} more host memory bandwidth; this plan's host memory is busy "
        f"{share(_busy(found, 'dram'))} of a decode step",
        source=f"memory speeds of {system.cpu_name}: {system.figures['cpu.memory_mt_per_s_1dpc'].source}",
        certainty="datasheet",
    )


def _memory(found: Evaluation) -> Iterator[Advice]:
    """Host memory below 2 TB and below what the model needs at its native format."""
    host = _host_bytes(found)
    if not _reads_host(found) or host is None or found.ready is None:
        return
    used, capacity = host
    need = checkpoint_bytes(found.ctx.arch)["native"]
    if capacity >= min(LARGE_MEMORY_BYTES, need):
        return
    yield Advice(
        id="host_memory",
        text=f"Host memory of {capacity / 1e9:,.0f} GB is below 2 TB and below the {need / 1e9:,.0f} GB of the model "
        f"as published; the plan fits with {used / 1e9:,.0f} GB because its experts are narrower or few of them live "
        "there. A wider format or a larger model would not fit.",
        source="practice of offloading: 2 TB, or what the model needs; the bytes are this plan's own",
        certainty="rule of thumb",
    )


def _offline_batch(found: Evaluation) -> Iterator[Advice]:
    work = found.ctx.scenario.workload
    offline = work.preset == "offline-batch" or (work.slo_tpot_s is None and work.slo_ttft_s is None and work.batch > 1)
    if not offline or work.batch >= OFFLINE_BATCH or not any(_busy(found, lane) > 0 for lane in HYBRID_LANES):
        return
    yield Advice(
        id="offline_batch",
        text=f"Nobody waits (no target for TTFT or TPOT) and batch {work.batch:,} is below {OFFLINE_BATCH}: where "
        "GPU, CPU and near-data memory share the experts, a larger batch reads each expert once for more tokens. "
        "The Explore page shows throughput against batch.",
        source="TriMoE (arXiv 2603.01058) is evaluated offline at batches of 256 to 768",
        certainty="published",
    )


def _reads_host(found: Evaluation) -> bool:
    return _busy(found, "dram") > 0


def _host_bytes(found: Evaluation) -> tuple[float, float] | None:
    """Bytes used and there in host memory, whole system; None without such a tier."""
    for tier in found.ready.ledger if found.ready else ():
        if tier.id == "host":
            return tier.fullest_bytes * tier.devices, tier.device_capacity_bytes * tier.devices
    return None


RULES: tuple[Callable[[Evaluation], Iterator[Advice]], ...] = (_amx, _cores, _dimms_for_speed, _memory, _offline_batch)
