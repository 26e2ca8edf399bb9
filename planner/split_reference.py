"""The plain twins of :mod:`planner.split`: one layer of one step at a time, the same decisions and rounding."""

from __future__ import annotations

import numpy as np

from planner.split import CPU, HIT, NONE, STREAM, Tables, Trail


def sorted_hits(tokens: np.ndarray) -> list[int]:
    """Experts with tokens, most tokens first, ties to the lower index."""
    return sorted((int(e) for e in np.flatnonzero(tokens)), key=lambda e: (-tokens[e], e))


def three_timelines(
    tokens: np.ndarray, form: np.ndarray, cached: np.ndarray, done: np.ndarray, tables: Tables
) -> tuple[float, float, float, np.ndarray]:
    """Finish of GPU, CPU and link, and the place of each expert of one layer, by HybriMoE's simulation."""
    hits = sorted_hits(tokens)
    queue = [e for e in hits if cached[e]] + [e for e in hits if not cached[e]]
    place = np.full(tokens.shape, NONE, np.int8)
    gpu = cpu = move = 0.0
    while queue:
        front, back = queue[0], queue[-1]
        arrives = move if cached[front] else move + max(tables.move_s[form[front]] - done[front], 0.0)
        gpu_end = (gpu if cached[front] else max(gpu, arrives)) + tables.gpu_s[form[front], tokens[front]]
        cpu_end = cpu + tables.cpu_s[form[back], tokens[back]]
        if gpu_end <= cpu_end:
            place[front] = HIT if cached[front] else STREAM
            gpu, move = gpu_end, arrives
            queue.pop(0)
        else:
            place[back] = CPU
            cpu = cpu_end
            queue.pop()
    return gpu, cpu, move, place


def lowest(score: np.ndarray, cached: np.ndarray, busy: np.ndarray) -> int:
    free = np.flatnonzero(cached & (busy == 0))
    return int(free[np.argmin(score[free])]) if free.size else -1


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
    """Twin of :func:`planner.split.hybrimoe`."""
    steps, layers, _ = tokens.shape
    held, scores = np.array(cached, bool), np.array(score, float)
    place = np.zeros(tokens.shape, np.int8)
    link, background, span = np.zeros((steps, layers)), np.zeros((steps, layers)), np.zeros((steps, layers))
    for s in range(steps):
        done = np.zeros(cached.shape)
        for layer in range(layers):
            row = tokens[s, layer]
            gpu, cpu, move, place[s, layer] = three_timelines(row, form[layer], held[layer], done[layer], tables)
            span[s, layer], link[s, layer] = max(gpu, cpu), move
            scores[layer] *= 1.0 - alpha
            hits = sorted_hits(row)
            for e in hits[:top_p]:
                scores[layer, e] += alpha * row[e] / float(row.sum())
            for e in hits:
                if place[s, layer, e] == STREAM:
                    out = lowest(scores[layer], held[layer], row)
                    if out >= 0 and scores[layer, e] > scores[layer, out]:
                        held[layer, out], held[layer, e] = False, True
            background[s, layer] = _prefetch(
                predicted[:, s], form, tables, span[s, layer] - move + window_s[layer], held, scores, done, layer
            )
    return Trail(place, link, background, span, held)


def _prefetch(
    predicted: np.ndarray,
    form: np.ndarray,
    tables: Tables,
    idle: float,
    held: np.ndarray,
    scores: np.ndarray,
    done: np.ndarray,
    layer: int,
) -> float:
    """Seconds of transfers for the next layers in ``idle``; ``held`` and ``done`` change."""
    reach = min(predicted.shape[0], held.shape[0] - 1 - layer)
    spent = 0.0
    while idle > 1e-12 and reach > 0:
        found = [
            best_prefetch(predicted[d, layer + 1 + d], form, tables, held, scores, done, layer + 1 + d)
            for d in range(reach)
        ]
        at = int(np.argmax([gain for gain, _ in found]))
        pick = found[at][1]
        if pick < 0:
            break
        to = layer + 1 + at
        left = tables.move_s[form[to, pick]] - done[to, pick]
        used = min(idle, left)
        done[to, pick] += used
        idle -= used
        spent += used
        if used >= left:
            held[to, lowest(scores[to], held[to], predicted[at, to])] = False
            held[to, pick] = True
            done[to, pick] = 0.0
    return spent


def best_prefetch(
    seen: np.ndarray,
    form: np.ndarray,
    tables: Tables,
    held: np.ndarray,
    scores: np.ndarray,
    done: np.ndarray,
    to: int,
) -> tuple[float, int]:
    """The expert of layer ``to`` whose prefetch would shorten it most, and by how much; (0, -1) if none."""
    if lowest(scores[to], held[to], seen) < 0:
        return 0.0, -1
    base = max(three_timelines(seen, form[to], held[to], done[to], tables)[:2])
    gain, pick, tried = 1e-15, -1, -1
    for e in sorted_hits(seen):
        if held[to, e] or (seen[e] == tried and done[to, e] == 0.0):
            continue
        tried = int(seen[e])
        with_it = held[to].copy()
        with_it[e] = True
        saved = base - max(three_timelines(seen, form[to], with_it, done[to], tables)[:2])
        if saved > gain:
            gain, pick = saved, e
    return (gain, pick) if pick >= 0 else (0.0, -1)


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
    """Twin of :func:`planner.split.dali`."""
    steps, layers, experts = tokens.shape
    held, load, carried = np.array(cached, bool), np.zeros((layers, experts)), np.zeros(layers)
    place = np.zeros(tokens.shape, np.int8)
    link, background, span = np.zeros((steps, layers)), np.zeros((steps, layers)), np.zeros((steps, layers))
    for s in range(steps):
        done = np.zeros(cached.shape)
        for layer in range(layers):
            row = tokens[s, layer]
            load[layer] += row
            place[s, layer], gpu, cpu, move = greedy(row, form[layer], held[layer], done[layer], tables)
            link[s, layer], span[s, layer] = move, max(gpu, cpu)
            spent = carried[layer]
            if layer + 1 < layers:
                idle = max(gpu, cpu) - move + window_s[layer] - spent
                seen = predicted[s, layer + 1]
                wanted = [e for e in sorted_hits(seen) if not held[layer + 1, e]][:prefetch]
                for e in wanted:
                    if idle <= 0.0:
                        break
                    used = min(idle, tables.move_s[form[layer + 1, e]])
                    done[layer + 1, e] = used
                    idle -= used
                    spent += used
            background[s, layer] = spent
        if (s + 1) % every == 0:
            for layer in range(layers):
                carried[layer] = 0.0
                for _ in range(swaps):
                    inside, outside = np.flatnonzero(held[layer]), np.flatnonzero(~held[layer])
                    if not inside.size or not outside.size:
                        break
                    out, into = inside[np.argmin(load[layer, inside])], outside[np.argmax(load[layer, outside])]
                    if load[layer, into] <= load[layer, out]:
                        break
                    held[layer, out], held[layer, into] = False, True
                    carried[layer] += tables.move_s[form[layer, into]] / every
            load[:] = 0.0
    return Trail(place, link, background, span, held)


def greedy(
    tokens: np.ndarray, form: np.ndarray, cached: np.ndarray, done: np.ndarray, tables: Tables
) -> tuple[np.ndarray, float, float, float]:
    """DALI's assignment of one layer: place, and the finish of GPU (transfers in it), CPU and link."""
    place = np.full(tokens.shape, NONE, np.int8)
    moved = np.where(cached, 0.0, np.maximum(tables.move_s[form] - done, 0.0))
    on_gpu, on_cpu = tables.gpu_s[form, tokens] + moved, tables.cpu_s[form, tokens]
    hits = sorted((int(e) for e in np.flatnonzero(tokens)), key=lambda e: (-abs(on_cpu[e] - on_gpu[e]), e))
    gpu = cpu = move = 0.0
    for e in hits:
        if gpu + on_gpu[e] <= cpu + on_cpu[e]:
            gpu += on_gpu[e]
            move += moved[e]
            place[e] = HIT if cached[e] else STREAM
        else:
            cpu += on_cpu[e]
            place[e] = CPU
    return place, gpu, cpu, move
