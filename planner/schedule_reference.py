"""The plain NumPy twin of :mod:`planner.schedule`: one row at a time, the same decisions and the same rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.schedule import CPU, DEFAULT_MOVES, GPU, IMPROVEMENT, NDP, NONE, START_LAYOUT


@dataclass
class Row:
    """One layer of one step: seconds [3, experts] by domain, bytes read [3, experts] by domain, and fixed loads."""

    seconds: np.ndarray
    reads: np.ndarray
    tokens: np.ndarray
    home: np.ndarray
    dimms: int
    rank_s: float
    stripe_s: float
    host_s: float
    base: tuple[float, float, float]
    base_share: float


def first_domains(row: Row, start: int) -> np.ndarray:
    """Greedy: the fastest domain of each expert alone. Layout: where its weights are, if it can run there."""
    domain = np.argmin(row.seconds, axis=0)
    if start == START_LAYOUT:
        can = np.isfinite(row.seconds)
        domain = np.where(can[NDP], NDP, domain)
        domain = np.where((row.home < 0) & can[CPU], CPU, domain)
        domain = np.where((row.reads[GPU] <= 0) & can[GPU], GPU, domain)
    return np.where(row.tokens > 0, domain, NONE).astype(np.int8)


def loads(row: Row, domain: np.ndarray) -> tuple[float, float, float, float, np.ndarray]:
    """GPU s, CPU s, bytes read, seconds of striped reads on each DIMM, and seconds [dimms] of all else on each."""
    near = np.zeros(row.dimms)
    on = [0.0, 0.0]
    read = striped = 0.0
    for e in np.flatnonzero(domain != NONE):
        where, place = domain[e], row.home[e]
        taken = row.reads[where, e]
        if where == NDP:
            near[place] += row.seconds[NDP, e]
        else:
            on[where] += row.seconds[where, e]
        read += taken
        if place >= 0:
            near[place] += taken * row.rank_s
        else:
            striped += taken * row.stripe_s
    return on[0], on[1], read, striped, near


def resources(row: Row, state: tuple[float, float, float, float, np.ndarray]) -> np.ndarray:
    """Seconds of GPU, CPU, every DIMM and the host channels: float64 [3 + dimms]."""
    gpu, cpu, read, striped, near = state
    base_gpu, base_cpu, base_host = row.base
    dimm = near + striped + base_host * row.base_share
    return np.concatenate(([base_gpu + gpu, base_cpu + cpu], dimm, [base_host + read * row.host_s]))


def costliest(row: Row, domain: np.ndarray, bottleneck: int) -> int:
    """The expert to move off resource ``bottleneck`` (an index into :func:`resources`), or -1."""
    host = 2 + row.dimms
    reading = np.where(domain == GPU, row.reads[GPU], np.where(domain == CPU, row.reads[CPU], 0.0))
    if bottleneck == host:
        cost = reading
    elif bottleneck < 2:
        cost = np.where(domain == bottleneck, row.seconds[bottleneck], 0.0)
    else:
        here = row.home == bottleneck - 2
        cost = np.where(here & (domain == NDP), row.seconds[NDP], 0.0)
        if not (cost > 0).any():
            cost = np.where(here, reading, np.where(row.home < 0, reading / row.dimms, 0.0))
    pick = int(np.argmax(cost)) if cost.size else 0
    return pick if cost.size and cost[pick] > 0 else -1


def moved(
    row: Row, state: tuple[float, float, float, float, np.ndarray], e: int, here: int, there: int
) -> tuple[float, float, float, float, np.ndarray]:
    """Loads after expert e goes from domain ``here`` to ``there``."""
    gpu, cpu, read, striped, near = state
    near = near.copy()
    place, off, on = row.home[e], row.reads[here, e], row.reads[there, e]
    on_domain = [gpu, cpu]
    if here != NDP:
        on_domain[here] -= row.seconds[here, e]
    if there != NDP:
        on_domain[there] += row.seconds[there, e]
    if place >= 0:
        near[place] -= row.seconds[NDP, e] if here == NDP else off * row.rank_s
        near[place] += row.seconds[NDP, e] if there == NDP else on * row.rank_s
    else:
        striped = striped - off * row.stripe_s + on * row.stripe_s
    return on_domain[0], on_domain[1], read - off + on, striped, near


def refine_row(row: Row, domain: np.ndarray, max_moves: int) -> int:
    """Bottleneck moves in place; returns their number."""
    state = loads(row, domain)
    for moves in range(max_moves):
        times = resources(row, state)
        fullest = 2 + int(np.argmax(state[4]))
        order = np.array([GPU, CPU, fullest, 2 + row.dimms])
        bottleneck = int(order[np.argmax(times[order])])
        pick = costliest(row, domain, bottleneck)
        if pick < 0:
            return moves
        best, target = times[bottleneck] * IMPROVEMENT, -1
        for there in (GPU, CPU, NDP):
            if there == domain[pick] or not np.isfinite(row.seconds[there, pick]):
                continue
            after = resources(row, moved(row, state, pick, domain[pick], there)).max()
            if after < best:
                best, target = after, there
        if target < 0:
            return moves
        state = moved(row, state, pick, domain[pick], target)
        domain[pick] = target
    return max_moves


def schedule_reference(
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
    start: int = 0,
    refine: bool = True,
    max_moves: int = DEFAULT_MOVES,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Arguments of :func:`planner.schedule.schedule_layers`; returns domain [rows, experts], makespan [rows],
    seconds of every resource [rows, 3 + dimms] and moves [rows]."""
    rows = np.shape(tokens)[0]
    domains, times, moves = [], [], []
    for m in range(rows):
        row = Row(
            seconds=np.stack([gpu_s[m], cpu_s[m], np.where(home[m] >= 0, ndp_s[m], np.inf)]),
            reads=np.stack([gpu_reads[m], cpu_reads[m], np.zeros_like(cpu_reads[m])]),
            tokens=tokens[m],
            home=home[m],
            dimms=dimms,
            rank_s=1.0 / dimm_read_bytes_per_s,
            stripe_s=1.0 / dimms / dimm_read_bytes_per_s,
            host_s=1.0 / host_bytes_per_s,
            base=(float(base_gpu_s[m]), float(base_cpu_s[m]), float(base_host_s[m])),
            base_share=host_bytes_per_s / dimms / dimm_read_bytes_per_s,
        )
        domain = first_domains(row, start)
        moves.append(refine_row(row, domain, max_moves) if refine else 0)
        domains.append(domain)
        times.append(resources(row, loads(row, domain)))
    table = np.array(times)
    return np.array(domains), table.max(axis=1), table, np.array(moves, np.int32)
