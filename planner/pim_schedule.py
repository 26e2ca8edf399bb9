"""Which experts leave near-data memory for the GPU in a pass: PIMoE's and SIEVE's rules.

All experts start where they lie. PIMoE (DAC'25) takes the longest-running expert of the bottleneck unit and moves it to
the accelerator while that shortens ``max(t_gpu, t_pim)``; SIEVE (arXiv 2605.11277) goes through the experts by tokens,
most first, and moves them while ``max(t_comm, t_gpu, t_pim)`` falls. The kernel and its plain twin decide alike.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planner.arrays import kernel_input


@njit(cache=True, nogil=True)
def _moves(tokens, near_s, read_s, home, units, link_s, gpu_s, base_s, by_tokens, moved):  # type: ignore[no-untyped-def]
    passes, layers, experts = tokens.shape
    load, order = np.zeros(units), np.empty(experts, np.int64)
    for s in range(passes):
        for layer in range(layers):
            load[:] = 0.0
            n = 0
            for e in range(experts):
                if tokens[s, layer, e] == 0:
                    continue
                if home[layer, e] < 0:
                    for u in range(units):
                        load[u] += near_s[s, layer, e] / units
                else:
                    load[home[layer, e]] += near_s[s, layer, e]
                at = n
                while at > 0 and tokens[s, layer, order[at - 1]] < tokens[s, layer, e]:
                    order[at] = order[at - 1]
                    at -= 1
                order[at] = e
                n += 1
            gpu, link, last = base_s[s, layer], 0.0, 0.0
            for turn in range(n):
                worst = 0
                for u in range(1, units):
                    if load[u] > load[worst]:
                        worst = u
                now = max(load[worst], gpu, link + last)
                pick = -1
                if by_tokens:
                    pick = order[turn]
                elif load[worst] >= now:
                    for e in range(experts):
                        there = home[layer, e] == worst or home[layer, e] < 0
                        free = there and tokens[s, layer, e] > 0 and not moved[s, layer, e]
                        if free and (pick < 0 or near_s[s, layer, e] > near_s[s, layer, pick]):
                            pick = e
                if pick < 0:
                    break
                change = read_s[layer, pick] - near_s[s, layer, pick]
                new_gpu, new_link = gpu + gpu_s[s, layer, pick], link + link_s[layer, pick]
                new_last = max(last, gpu_s[s, layer, pick])
                highest = 0.0
                for u in range(units):
                    value = load[u]
                    if home[layer, pick] < 0:
                        value += change / units
                    elif home[layer, pick] == u:
                        value += change
                    highest = max(highest, value)
                if max(highest, new_gpu, new_link + new_last) >= now:
                    break
                moved[s, layer, pick] = True
                gpu, link, last = new_gpu, new_link, new_last
                if home[layer, pick] < 0:
                    for u in range(units):
                        load[u] += change / units
                else:
                    load[home[layer, pick]] += change


def moves_reference(
    tokens: np.ndarray,
    near_s: np.ndarray,
    read_s: np.ndarray,
    home: np.ndarray,
    units: int,
    link_s: np.ndarray,
    gpu_s: np.ndarray,
    base_s: np.ndarray,
    by_tokens: bool,
) -> NDArray[np.bool_]:
    """Plain twin of :func:`moves`."""
    moved = np.zeros(tokens.shape, bool)
    for s in range(tokens.shape[0]):
        for layer in range(tokens.shape[1]):
            hit = [int(e) for e in np.flatnonzero(tokens[s, layer])]
            load = np.zeros(units)
            for e in hit:
                load = load + _on_units(near_s[s, layer, e], home[layer, e], units)
            gpu, link, last = float(base_s[s, layer]), 0.0, 0.0
            queue = sorted(hit, key=lambda e: (-tokens[s, layer, e], e))
            for turn in range(len(hit)):
                now = max(load.max(), gpu, link + last)
                if by_tokens:
                    pick = queue[turn]
                else:
                    there = [e for e in hit if home[layer, e] in (-1, load.argmax()) and not moved[s, layer, e]]
                    if load.max() < now or not there:
                        break
                    pick = max(there, key=lambda e: (near_s[s, layer, e], -e))
                change = read_s[layer, pick] - near_s[s, layer, pick]
                new_load = load + _on_units(change, home[layer, pick], units)
                new = (gpu + gpu_s[s, layer, pick], link + link_s[layer, pick], max(last, gpu_s[s, layer, pick]))
                if max(new_load.max(), new[0], new[1] + new[2]) >= now:
                    break
                moved[s, layer, pick] = True
                load, (gpu, link, last) = new_load, new
    return moved


def _on_units(value: float, home: int, units: int) -> NDArray[np.float64]:
    """``value`` on its unit, or divided over all of them."""
    return np.full(units, value / units) if home < 0 else np.where(np.arange(units) == home, value, 0.0)


def moves(
    tokens: np.ndarray,
    near_s: np.ndarray,
    read_s: np.ndarray,
    home: np.ndarray,
    units: int,
    link_s: np.ndarray,
    gpu_s: np.ndarray,
    base_s: np.ndarray,
    by_tokens: bool,
) -> NDArray[np.bool_]:
    """Experts that move to the GPU in each pass, bool [passes, layers, experts].

    tokens, near_s (seconds where the expert lies), gpu_s (seconds on the GPU, from its memory): [passes, layers,
    experts]; read_s (seconds of its unit that reading it out takes), link_s (seconds of the link), home (its unit, -1 =
    divided over all): [layers, experts]; base_s (the GPU's other work): [passes, layers]. by_tokens: SIEVE's rule,
    else PIMoE's. The GPU's side is done after all transfers and the compute of the largest expert moved, as timed.
    """
    moved = np.zeros(tokens.shape, np.bool_)
    _moves(
        kernel_input(tokens, np.int64), kernel_input(near_s, float), kernel_input(read_s, float),
        kernel_input(home, np.int64), int(units), kernel_input(link_s, float), kernel_input(gpu_s, float),
        kernel_input(base_s, float), bool(by_tokens), moved,
    )  # fmt: skip
    return moved


def warm() -> None:
    """Compile the kernel, or load it from the cache."""
    one, flat = np.ones((1, 1, 1)), np.ones((1, 1))
    moves(one.astype(np.int64), one, flat, np.zeros((1, 1), np.int64), 1, flat, one, flat, False)
