"""Assignment of a layer's experts to compute domains: GPU, CPU and one near-data domain for each DIMM.

The published algorithm of TriMoE (arXiv 2603.01058): a greedy start gives every expert the domain in which it alone
is fastest; then, again and again, the costliest expert of the bottleneck domain goes to the other domain that lowers
the makespan most, until no move lowers it.

    makespan = max( sum GPU, sum CPU, max_d [ sum NDP on d + contention on d ], host reads )

Contention on DIMM d is the time in which d serves reads of the GPU and the CPU: bytes read from d over the rank rate.
A localised expert is read from its home, a striped one evenly from all DIMMs. The last term is ours: all reads of the
layer share the host channels.

What the paper leaves open, and what is done here. Ties go to the lower domain (GPU, CPU, NDP) or expert. Among equal
bottlenecks GPU comes first, then CPU, the DIMMs in order, the host channels. The costliest expert of the GPU, the CPU
or a DIMM is the one with the most seconds there. Where a DIMM is the bottleneck through contention alone (no expert
computes on it), the reader that takes most bytes from it is moved; where the host channels are, the largest reader.

It is no optimum: see :func:`schedule_layers`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from planner.arrays import kernel_input

GPU, CPU, NDP, NONE = 0, 1, 2, -1
START_GREEDY, START_LAYOUT = 0, 1
IMPROVEMENT = 1.0 - 1e-12
"""A move must lower the makespan by more than rounding."""
DEFAULT_MOVES = 4096


@dataclass(frozen=True)
class ScheduleResult:
    """One schedule for each row (a sampled step of a layer)."""

    domain: np.ndarray
    """int8 [rows, experts]: 0 GPU, 1 CPU, 2 NDP on the home DIMM, -1 no tokens"""
    makespan_s: np.ndarray
    """float64 [rows]"""
    gpu_s: np.ndarray
    """float64 [rows], base load included"""
    cpu_s: np.ndarray
    """float64 [rows], base load included"""
    ndp_s: np.ndarray
    """float64 [rows, dimms], own work and contention"""
    host_s: np.ndarray
    """float64 [rows], all host reads over the host rate, base load included"""
    moves: np.ndarray
    """int32 [rows], moves that refinement made"""


@njit(nogil=True, cache=True)
def _start(gpu, cpu, ndp, tokens, home, gpu_reads, layout, domain):  # type: ignore[no-untyped-def]
    """First domain of every expert of one row."""
    for e in range(tokens.shape[0]):
        domain[e] = -1
        if tokens[e] <= 0:
            continue
        near = ndp[e] if home[e] >= 0 else np.inf
        best = 0
        value = gpu[e]
        if cpu[e] < value:
            best, value = 1, cpu[e]
        if near < value:
            best = 2
        if layout:
            if gpu_reads[e] <= 0.0 and gpu[e] < np.inf:
                best = 0
            elif home[e] < 0 and cpu[e] < np.inf:
                best = 1
            elif near < np.inf:
                best = 2
        domain[e] = best


@njit(nogil=True, cache=True)
def _sums(gpu, cpu, ndp, home, gpu_reads, cpu_reads, rank_s, stripe_s, domain, near):  # type: ignore[no-untyped-def]
    """Loads of one row without base: GPU s, CPU s, bytes read from the host, seconds of each DIMM by striped reads.

    rank_s, stripe_s: seconds of a DIMM for one byte read from it, or striped over all. Writes into near [dimms] each
    DIMM's own work and the reads of its localised experts.
    """
    dimms = near.shape[0]
    on_gpu, on_cpu, read, striped = 0.0, 0.0, 0.0, 0.0
    for d in range(dimms):
        near[d] = 0.0
    for e in range(domain.shape[0]):
        taken = 0.0
        if domain[e] == 0:
            on_gpu += gpu[e]
            taken = gpu_reads[e]
        elif domain[e] == 1:
            on_cpu += cpu[e]
            taken = cpu_reads[e]
        elif domain[e] == 2:
            near[home[e]] += ndp[e]
        read += taken
        if home[e] >= 0:
            near[home[e]] += taken * rank_s
        else:
            striped += taken * stripe_s
    return on_gpu, on_cpu, read, striped


@njit(nogil=True, cache=True)
def _refine(  # type: ignore[no-untyped-def]
    gpu,
    cpu,
    ndp,
    home,
    gpu_reads,
    cpu_reads,
    rank_s,
    stripe_s,
    host_s,
    base_share,
    base_gpu,
    base_cpu,
    base_host,
    domain,
    near,
    max_moves,
):
    """Moves the costliest expert of the bottleneck until no move lowers the makespan; returns the number of moves."""
    experts = domain.shape[0]
    dimms = near.shape[0]
    on_gpu, on_cpu, read, striped = _sums(gpu, cpu, ndp, home, gpu_reads, cpu_reads, rank_s, stripe_s, domain, near)
    base_striped = base_host * base_share
    moves = 0
    while moves < max_moves:
        top = near[0]
        worst = 0
        for d in range(1, dimms):
            if near[d] > top:
                top, worst = near[d], d
        now = base_gpu + on_gpu
        bottleneck = 0
        if base_cpu + on_cpu > now:
            now, bottleneck = base_cpu + on_cpu, 1
        if top + striped + base_striped > now:
            now, bottleneck = top + striped + base_striped, 2
        if base_host + read * host_s > now:
            now, bottleneck = base_host + read * host_s, 3

        pick = -1
        cost = 0.0
        if bottleneck < 3:
            for e in range(experts):
                if domain[e] != bottleneck:
                    continue
                if bottleneck == 0:
                    own = gpu[e]
                elif bottleneck == 1:
                    own = cpu[e]
                elif home[e] == worst:
                    own = ndp[e]
                else:
                    continue
                if own > cost:
                    cost, pick = own, e
        if bottleneck == 3 or (bottleneck == 2 and pick < 0):
            for e in range(experts):
                if domain[e] != 0 and domain[e] != 1:
                    continue
                own = gpu_reads[e] if domain[e] == 0 else cpu_reads[e]
                if bottleneck == 2:
                    if home[e] < 0:
                        own /= dimms
                    elif home[e] != worst:
                        continue
                if own > cost:
                    cost, pick = own, e
        if pick < 0:
            break

        here = domain[pick]
        place = home[pick]
        # loads without the picked expert
        gpu_left = on_gpu - gpu[pick] if here == 0 else on_gpu
        cpu_left = on_cpu - cpu[pick] if here == 1 else on_cpu
        taken = gpu_reads[pick] if here == 0 else (cpu_reads[pick] if here == 1 else 0.0)
        read_left = read - taken
        striped_left = striped - taken * stripe_s if place < 0 else striped
        home_left = 0.0
        others = -np.inf
        if place >= 0:
            home_left = near[place] - taken * rank_s
            if here == 2:
                home_left = near[place] - ndp[pick]
        for d in range(dimms):
            if d != place and near[d] > others:
                others = near[d]

        best = now * IMPROVEMENT
        target = -1
        for there in range(3):
            if there == here:
                continue
            own = gpu[pick] if there == 0 else (cpu[pick] if there == 1 else (ndp[pick] if place >= 0 else np.inf))
            if own == np.inf:
                continue
            taken = gpu_reads[pick] if there == 0 else (cpu_reads[pick] if there == 1 else 0.0)
            after = base_gpu + (gpu_left + own if there == 0 else gpu_left)
            other = base_cpu + (cpu_left + own if there == 1 else cpu_left)
            after = other if other > after else after
            top = others
            shared = striped_left
            if place >= 0:
                filled = home_left + (own if there == 2 else taken * rank_s)
                top = filled if filled > top else top
            else:
                shared = striped_left + taken * stripe_s
            other = top + shared + base_striped
            after = other if other > after else after
            other = base_host + (read_left + taken) * host_s
            after = other if other > after else after
            if after < best:
                best, target = after, there
        if target < 0:
            break
        domain[pick] = target
        moves += 1
        taken = gpu_reads[pick] if target == 0 else (cpu_reads[pick] if target == 1 else 0.0)
        on_gpu = gpu_left + gpu[pick] if target == 0 else gpu_left
        on_cpu = cpu_left + cpu[pick] if target == 1 else cpu_left
        read = read_left + taken
        if place >= 0:
            near[place] = home_left + (ndp[pick] if target == 2 else taken * rank_s)
        else:
            striped = striped_left + taken * stripe_s
    return moves


@njit(nogil=True, cache=True)
def _schedule(  # type: ignore[no-untyped-def]
    gpu_s,
    cpu_s,
    ndp_s,
    tokens,
    home,
    gpu_reads,
    cpu_reads,
    rank_s,
    stripe_s,
    host_s,
    base_share,
    base_gpu_s,
    base_cpu_s,
    base_host_s,
    layout,
    refine,
    max_moves,
    domain,
    makespan,
    gpu_sum,
    cpu_sum,
    near,
    host_sum,
    moves,
):  # type: ignore[no-untyped-def]
    dimms = near.shape[1]
    for m in range(tokens.shape[0]):
        _start(gpu_s[m], cpu_s[m], ndp_s[m], tokens[m], home[m], gpu_reads[m], layout, domain[m])
        if refine:
            moves[m] = _refine(
                gpu_s[m], cpu_s[m], ndp_s[m], home[m], gpu_reads[m], cpu_reads[m], rank_s, stripe_s, host_s, base_share,
                base_gpu_s[m], base_cpu_s[m], base_host_s[m], domain[m], near[m], max_moves,
            )  # fmt: skip
        on_gpu, on_cpu, read, striped = _sums(
            gpu_s[m], cpu_s[m], ndp_s[m], home[m], gpu_reads[m], cpu_reads[m], rank_s, stripe_s, domain[m], near[m]
        )
        gpu_sum[m] = base_gpu_s[m] + on_gpu
        cpu_sum[m] = base_cpu_s[m] + on_cpu
        host_sum[m] = base_host_s[m] + read * host_s
        base_striped = base_host_s[m] * base_share
        longest = max(gpu_sum[m], cpu_sum[m], host_sum[m])
        for d in range(dimms):
            near[m, d] = near[m, d] + striped + base_striped
            longest = max(longest, near[m, d])
        makespan[m] = longest


def schedule_layers(
    gpu_s: np.ndarray,
    cpu_s: np.ndarray,
    ndp_s: np.ndarray,
    tokens: np.ndarray,
    home: np.ndarray,
    gpu_reads: np.ndarray,
    cpu_reads: np.ndarray,
    dimm_read_bytes_per_s: float,
    host_bytes_per_s: float,
    base_gpu_s: np.ndarray,
    base_cpu_s: np.ndarray,
    base_host_s: np.ndarray,
    dimms: int,
    start: int = START_GREEDY,
    refine: bool = True,
    max_moves: int = DEFAULT_MOVES,
) -> ScheduleResult:
    """The published schedule of every row (a sampled step of a layer); rows are independent.

    gpu_s, cpu_s, ndp_s: float64 [rows, experts], seconds of each expert on each domain, inf where impossible (NDP of a
    striped expert always is). tokens: int [rows, experts]; experts with none cost nothing. home: int [rows, experts],
    DIMM of the expert, -1 = striped over all. gpu_reads, cpu_reads: float64 [rows, experts], bytes read from host
    DIMMs if the expert runs there (0 if resident in HBM). dimm_read_bytes_per_s: rank rate of one DIMM, at which a read
    takes it from its NDP unit. host_bytes_per_s: all channels together. base_*_s: float64 [rows], load before any
    expert; base_host_s counts as striped reads and so also occupies the DIMMs. start: 0 greedy, 1 by layout (resident
    in HBM to the GPU, striped to the CPU, localised to its DIMM). refine: bottleneck moves, at most max_moves per row.

    No optimum: against a mixed-integer optimum, greedy with refinement is typically 10 to 60 % longer, the layout
    start 1 to 45 %. Raises ValueError with a sentence.
    """
    rows, experts = np.shape(tokens)
    _check(rows, experts, (gpu_s, cpu_s, ndp_s, home, gpu_reads, cpu_reads), (base_gpu_s, base_cpu_s, base_host_s))
    if dimms < 1:
        raise ValueError(
            f"dimms is {dimms}; a schedule needs at least 1 (with NDP times of infinity if there is no NDP)"
        )
    for name, rate in (("dimm_read_bytes_per_s", dimm_read_bytes_per_s), ("host_bytes_per_s", host_bytes_per_s)):
        if not (rate > 0 and np.isfinite(rate)):
            raise ValueError(f"{name} is {rate}; accepted is a positive, finite rate")
    if start not in (START_GREEDY, START_LAYOUT):
        raise ValueError(f"start is {start}; accepted are 0 (greedy) and 1 (layout)")
    home = kernel_input(home, np.int16)
    if home.size and not -1 <= int(home.min()) <= int(home.max()) < dimms:
        raise ValueError(f"home runs from {home.min()} to {home.max()}; accepted are -1 to {dimms - 1}")
    times = [kernel_input(a, np.float64) for a in (gpu_s, cpu_s, ndp_s)]
    tokens = kernel_input(tokens, np.int32)
    fastest = np.minimum(np.minimum(times[0], times[1]), np.where(home >= 0, times[2], np.inf))
    stuck = (tokens > 0) & ~np.isfinite(fastest)
    if stuck.any():
        row, expert = (int(i) for i in np.argwhere(stuck)[0])
        raise ValueError(f"expert {expert} in row {row} has tokens, but no domain that can run it in finite time")
    reads = [kernel_input(a, np.float64) for a in (gpu_reads, cpu_reads)]
    base = [kernel_input(a, np.float64) for a in (base_gpu_s, base_cpu_s, base_host_s)]
    result = ScheduleResult(
        domain=np.empty((rows, experts), np.int8),
        makespan_s=np.empty(rows),
        gpu_s=np.empty(rows),
        cpu_s=np.empty(rows),
        ndp_s=np.empty((rows, dimms)),
        host_s=np.empty(rows),
        moves=np.zeros(rows, np.int32),
    )
    _schedule(  # type: ignore[call-arg]
        *times, tokens, home, *reads, 1.0 / dimm_read_bytes_per_s, 1.0 / dimms / dimm_read_bytes_per_s,
        1.0 / host_bytes_per_s, host_bytes_per_s / dimms / dimm_read_bytes_per_s, *base,
        start == START_LAYOUT, bool(refine), int(max_moves), result.domain, result.makespan_s, result.gpu_s,
        result.cpu_s, result.ndp_s, result.host_s, result.moves,
    )  # fmt: skip
    return result


def _check(rows: int, experts: int, tables: tuple[np.ndarray, ...], columns: tuple[np.ndarray, ...]) -> None:
    for table in tables:
        if np.shape(table) != (rows, experts):
            raise ValueError(f"a table of the schedule has shape {np.shape(table)}; accepted is {(rows, experts)}")
    for column in columns:
        if np.shape(column) != (rows,):
            raise ValueError(f"a base load of the schedule has shape {np.shape(column)}; accepted is {(rows,)}")


def warm() -> None:
    """Compile (or load from the cache) the kernel on a tiny input."""
    one, none = np.ones((1, 2)), np.zeros(1)
    schedule_layers(one, one, one, one, np.zeros((1, 2)), one, one, 1.0, 1.0, none, none, none, 1)
