"""Kernels that split the experts of a layer between GPU cache, link and CPU, step by step with the cache's history.

:func:`hybrimoe` is HybriMoE's three-timeline schedule with its prefetch and score cache (arXiv 2504.05897, and the
released code), :func:`dali` DALI's greedy assignment with its prefetch and workload cache (arXiv 2602.03495). Both go
through the steps in order; their plain twins are in :mod:`planner.split_reference`. Seconds come from tables by stored
width and tokens, so that every time has been computed by the physics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planner.arrays import kernel_input

NONE, HIT, STREAM, CPU = 0, 1, 2, 3
"""Codes of a place: no tokens, computed from the GPU's cache, sent to the GPU for this pass, computed by the CPU."""


@dataclass(frozen=True)
class Tables:
    """Seconds of one expert by stored width and tokens, and of one transfer to the GPU."""

    cpu_s: NDArray[np.float64]  # [widths, tokens + 1]
    gpu_s: NDArray[np.float64]  # [widths, tokens + 1], from HBM
    move_s: NDArray[np.float64]  # [widths]


@dataclass(frozen=True)
class Trail:
    """What a simulation over ordered steps found."""

    place: NDArray[np.int8]  # [steps, layers, experts]
    link_s: NDArray[np.float64]  # [steps, layers], transfers that the layer itself asks for
    background_s: NDArray[np.float64]  # [steps, layers], transfers for later layers or steps, started in this layer
    span_s: NDArray[np.float64]  # [steps, layers], makespan that the policy itself computes
    cached: NDArray[np.bool_]  # [layers, experts], after the last step


@njit(cache=True, nogil=True)
def _sorted_hits(tokens, order):  # type: ignore[no-untyped-def]
    """Write the experts with tokens to ``order``, most tokens first, ties to the lower index; their number."""
    n = 0
    for e in range(tokens.shape[0]):
        if tokens[e] > 0:
            at = n
            while at > 0 and tokens[order[at - 1]] < tokens[e]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = e
            n += 1
    return n


@njit(cache=True, nogil=True)
def _three_timelines(tokens, form, order, n, cached, done, cpu_s, gpu_s, move_s, queue, place):  # type: ignore[no-untyped-def]
    """HybriMoE's schedule of one layer: finish of GPU, CPU and link. ``done``: seconds of each transfer already over.

    ``queue`` is scratch; ``place`` is written.
    """
    first = 0
    for i in range(n):
        if cached[order[i]]:
            queue[first] = order[i]
            first += 1
    last = first
    for i in range(n):
        if not cached[order[i]]:
            queue[last] = order[i]
            last += 1
    gpu = cpu = move = 0.0
    i, j = 0, n - 1
    while i <= j:
        e, f = queue[i], queue[j]
        arrives = move
        if cached[e]:
            gpu_end = gpu + gpu_s[form[e], tokens[e]]
        else:
            arrives = move + max(move_s[form[e]] - done[e], 0.0)
            gpu_end = max(gpu, arrives) + gpu_s[form[e], tokens[e]]
        cpu_end = cpu + cpu_s[form[f], tokens[f]]
        if gpu_end <= cpu_end:
            place[e] = HIT if cached[e] else STREAM
            gpu, move = gpu_end, arrives
            i += 1
        else:
            place[f] = CPU
            cpu = cpu_end
            j -= 1
    return gpu, cpu, move


@njit(cache=True, nogil=True)
def _lowest(score, cached, busy):  # type: ignore[no-untyped-def]
    """Cached expert with the least score among those that are not busy, ties to the lower index; -1 if none."""
    found = -1
    for e in range(score.shape[0]):
        if cached[e] and busy[e] == 0 and (found < 0 or score[e] < score[found]):
            found = e
    return found


@njit(cache=True, nogil=True)
def _best_prefetch(seen, form, order, n, cached, done, score, cpu_s, gpu_s, move_s, queue, scratch):  # type: ignore[no-untyped-def]
    """The expert of a later layer whose prefetch would shorten that layer most, and by how much; (0, -1) if none."""
    if _lowest(score, cached, seen) < 0:
        return 0.0, -1
    gpu, cpu, _ = _three_timelines(seen, form, order, n, cached, done, cpu_s, gpu_s, move_s, queue, scratch)
    base, gain, pick, tried = max(gpu, cpu), 1e-15, -1, -1
    for i in range(n):
        e = order[i]
        # Experts with the same tokens save the same: only the first of them is simulated.
        if cached[e] or (seen[e] == tried and done[e] == 0.0):
            continue
        tried = seen[e]
        cached[e] = True
        gpu, cpu, _ = _three_timelines(seen, form, order, n, cached, done, cpu_s, gpu_s, move_s, queue, scratch)
        cached[e] = False
        saved = base - max(gpu, cpu)
        if saved > gain:
            gain, pick = saved, e
    return gain if pick >= 0 else 0.0, pick


@njit(cache=True, nogil=True)
def _hybrimoe(  # type: ignore[no-untyped-def]
    tokens, predicted, form, cpu_s, gpu_s, move_s, window_s, cached, score, alpha, top_p,
    place, link_s, background_s, span_s,
):  # fmt: skip
    steps, layers, experts = tokens.shape
    depth = predicted.shape[0]
    done = np.zeros((layers, experts))
    order, queue = np.empty(experts, np.int64), np.empty(experts, np.int64)
    orders, number = np.empty((depth, experts), np.int64), np.zeros(depth, np.int64)
    gains, picks, stale = np.zeros(depth), np.zeros(depth, np.int64), np.zeros(depth, np.bool_)
    scratch = np.empty(experts, np.int8)
    for s in range(steps):
        done[:] = 0.0
        for layer in range(layers):
            row = tokens[s, layer]
            n = _sorted_hits(row, order)
            gpu, cpu, move = _three_timelines(
                row, form[layer], order, n, cached[layer], done[layer], cpu_s, gpu_s, move_s, queue, place[s, layer]
            )
            span = max(gpu, cpu)
            link_s[s, layer], span_s[s, layer] = move, span
            # Minus-recent-score cache: the scores of the top p are averaged in, then streamed experts may enter.
            whole = 0.0
            for e in range(experts):
                whole += row[e]
                score[layer, e] *= 1.0 - alpha
            for i in range(min(n, top_p)):
                score[layer, order[i]] += alpha * row[order[i]] / whole
            for i in range(n):
                e = order[i]
                if place[s, layer, e] == STREAM:
                    out = _lowest(score[layer], cached[layer], row)
                    if out >= 0 and score[layer, e] > score[layer, out]:
                        cached[layer, out] = False
                        cached[layer, e] = True
            # Prefetch for the next layers while the link is idle, in the order of what each would save.
            idle = span - move + window_s[layer]
            reach = min(depth, layers - 1 - layer)
            for d in range(reach):
                number[d] = _sorted_hits(predicted[d, s, layer + 1 + d], orders[d])
                stale[d] = True
            spent = 0.0
            while idle > 1e-12 and reach > 0:
                at = 0
                for d in range(reach):
                    if stale[d]:
                        to = layer + 1 + d
                        gains[d], picks[d] = _best_prefetch(
                            predicted[d, s, to], form[to], orders[d], number[d], cached[to], done[to], score[to],
                            cpu_s, gpu_s, move_s, queue, scratch,
                        )  # fmt: skip
                        stale[d] = False
                    if gains[d] > gains[at]:
                        at = d
                if picks[at] < 0:
                    break
                to, pick = layer + 1 + at, picks[at]
                left = move_s[form[to, pick]] - done[to, pick]
                used = min(idle, left)
                done[to, pick] += used
                idle -= used
                spent += used
                stale[at] = True
                if used >= left:
                    out = _lowest(score[to], cached[to], predicted[at, s, to])
                    cached[to, out] = False
                    cached[to, pick] = True
                    done[to, pick] = 0.0
            background_s[s, layer] = spent


@njit(cache=True, nogil=True)
def _dali(  # type: ignore[no-untyped-def]
    tokens, predicted, form, cpu_s, gpu_s, move_s, window_s, cached, every, swaps, prefetch,
    place, link_s, background_s, span_s,
):  # fmt: skip
    steps, layers, experts = tokens.shape
    done = np.zeros((layers, experts))
    load = np.zeros((layers, experts))
    carried = np.zeros(layers)
    order, key, gain = np.empty(experts, np.int64), np.empty(experts), np.empty(experts)
    for s in range(steps):
        done[:] = 0.0
        for layer in range(layers):
            row = tokens[s, layer]
            n = 0
            for e in range(experts):
                load[layer, e] += row[e]
                if row[e] == 0:
                    continue
                moved = 0.0 if cached[layer, e] else max(move_s[form[layer, e]] - done[layer, e], 0.0)
                gain[e] = gpu_s[form[layer, e], row[e]] + moved
                key[e] = abs(cpu_s[form[layer, e], row[e]] - gain[e])
                at = n
                while at > 0 and key[order[at - 1]] < key[e]:
                    order[at] = order[at - 1]
                    at -= 1
                order[at] = e
                n += 1
            gpu = cpu = move = 0.0
            for i in range(n):
                e = order[i]
                on_cpu = cpu_s[form[layer, e], row[e]]
                if gpu + gain[e] <= cpu + on_cpu:
                    gpu += gain[e]
                    if cached[layer, e]:
                        place[s, layer, e] = HIT
                    else:
                        place[s, layer, e] = STREAM
                        move += max(move_s[form[layer, e]] - done[layer, e], 0.0)
                else:
                    cpu += on_cpu
                    place[s, layer, e] = CPU
            link_s[s, layer], span_s[s, layer] = move, max(gpu, cpu)
            spent = carried[layer]
            if layer + 1 < layers:
                idle = max(gpu, cpu) - move + window_s[layer] - spent
                seen = predicted[s, layer + 1]
                chosen = _sorted_hits(seen, order)
                left = prefetch
                for i in range(chosen):
                    e = order[i]
                    if left == 0 or idle <= 0.0:
                        break
                    if cached[layer + 1, e]:
                        continue
                    used = min(idle, move_s[form[layer + 1, e]])
                    done[layer + 1, e] = used
                    idle -= used
                    spent += used
                    left -= 1
            background_s[s, layer] = spent
        if (s + 1) % every == 0:
            for layer in range(layers):
                carried[layer] = 0.0
                for _ in range(swaps):
                    into = out = -1
                    for e in range(experts):
                        if cached[layer, e]:
                            if out < 0 or load[layer, e] < load[layer, out]:
                                out = e
                        elif into < 0 or load[layer, e] > load[layer, into]:
                            into = e
                    if into < 0 or out < 0 or load[layer, into] <= load[layer, out]:
                        break
                    cached[layer, out], cached[layer, into] = False, True
                    carried[layer] += move_s[form[layer, into]] / every
            load[:] = 0.0


def _checked(tables: Tables, *tokens: np.ndarray) -> None:
    """Compiled code does not check indexes: a table that is too short is refused here."""
    most = max(int(t.max(initial=0)) for t in tokens)
    if most >= min(tables.cpu_s.shape[1], tables.gpu_s.shape[1]):
        raise ValueError(f"an expert has {most} tokens; the tables reach to {tables.cpu_s.shape[1] - 1}")


def _outputs(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(shape, np.int8), np.zeros(shape[:2]), np.zeros(shape[:2]), np.zeros(shape[:2])


def hybrimoe(
    tokens: np.ndarray,
    predicted: np.ndarray,
    form: np.ndarray,
    tables: Tables,
    window_s: np.ndarray,
    cached: np.ndarray,
    score: np.ndarray,
    alpha: float,
    top_p: int,
) -> Trail:
    """HybriMoE over ordered steps.

    tokens int [steps, layers, experts]; predicted int [depth, steps, layers, experts]: tokens of a layer as the gates
    predict them 1, 2, ... layers earlier; form int [layers, experts]: index into the tables; window_s [layers]:
    seconds from the end of a layer's experts to the next layer's; cached bool and score float [layers, experts]:
    the cache at the start. Inputs are not changed.
    """
    _checked(tables, tokens, predicted)
    place, link, background, span = _outputs(tokens.shape)
    held, scores = np.array(cached, bool), np.array(score, float)
    _hybrimoe(
        kernel_input(tokens, np.int64), kernel_input(predicted, np.int64), kernel_input(form, np.int64),
        kernel_input(tables.cpu_s, float), kernel_input(tables.gpu_s, float), kernel_input(tables.move_s, float),
        kernel_input(window_s, float), held, scores, float(alpha), int(top_p), place, link, background, span,
    )  # fmt: skip
    return Trail(place, link, background, span, held)


def dali(
    tokens: np.ndarray,
    predicted: np.ndarray,
    form: np.ndarray,
    tables: Tables,
    window_s: np.ndarray,
    cached: np.ndarray,
    every: int,
    swaps: int,
    prefetch: int,
) -> Trail:
    """DALI over ordered steps; arguments as :func:`hybrimoe`, predicted int [steps, layers, experts].

    ``every`` steps the ``swaps`` most loaded experts outside the cache change places with the least loaded ones inside
    it, where that helps; ``prefetch`` predicted experts of the next layer start to move while the link is idle.
    """
    _checked(tables, tokens, predicted)
    place, link, background, span = _outputs(tokens.shape)
    held = np.array(cached, bool)
    _dali(
        kernel_input(tokens, np.int64), kernel_input(predicted, np.int64), kernel_input(form, np.int64),
        kernel_input(tables.cpu_s, float), kernel_input(tables.gpu_s, float), kernel_input(tables.move_s, float),
        kernel_input(window_s, float), held, int(every), int(swaps), int(prefetch), place, link, background, span,
    )  # fmt: skip
    return Trail(place, link, background, span, held)


def warm() -> None:
    """Compile the kernels, or load them from the cache."""
    one = np.ones((1, 1, 1), np.int64)
    tables = Tables(np.ones((1, 2)), np.ones((1, 2)), np.ones(1))
    zero, none = np.zeros((1, 1), np.int64), np.zeros((1, 1), bool)
    hybrimoe(one, one[None], zero, tables, np.zeros(1), none, np.zeros((1, 1)), 0.5, 1)
    dali(one, one, zero, tables, np.zeros(1), none, 1, 1, 1)
