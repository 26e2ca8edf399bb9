"""Draws the tokens of ordered decode steps of one layer, whose popularity differs from step to step.

The law is that of :mod:`planner.routing.sampler` (Plackett-Luce, k distinct experts per token), with weights
w(step) f(request). Building the cumulated weights of every request anew in every step would cost more than the draws,
so an expert is proposed by w(step) alone and accepted with probability f / (largest f of the request).

Locality: with probability s each of the k choices of a token is copied from an earlier token of the same request, at a
lag d with probability proportional to d^-1.25, 1 <= d <= 32, if that token was drawn and the expert is not chosen yet;
else it is drawn fresh. Copies of copies flatten this: at s = 0.55 the overlap of tokens beyond independence is 0.92 of
6 experts at lag 1, 0.56 at 2, 0.32 at 4, 0.17 at 8, 0.10 at 16, as measured on DeepSeek-V2-Lite (law task of the ESFT
data: 0.92, 0.47, 0.30, 0.20, 0.12).

``sample_steps`` is the compiled kernel, ``sample_steps_reference`` its plain twin (the same draws, bit for bit).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planner.arrays import kernel_input
from planner.routing.counter_rng import child, child_key
from planner.routing.sampler import ATTEMPTS, FACTOR_STREAM, GUIDES, LANE_BITS, LANE_MASK, LANES, factors_of

LAGS = 32
LAG_POWER = 1.25
TRIES = ATTEMPTS * 16
"""Proposals for one choice before the kernel draws among the experts that are left."""
S24, S32, S55 = np.uint64(24), np.uint64(32), np.uint64(55)
LOW_24, LOW_8 = np.uint64(0xFFFFFF), np.uint64(0xFF)
UNIT_40, UNIT_24 = 2.0**-40, 2.0**-24
COPY = np.uint64(1 << 32)
"""Words of a token from here on decide on copies."""


def lag_table() -> np.ndarray:
    """256 equally likely lags, int64, of the power law."""
    share = np.cumsum(np.arange(1, LAGS + 1) ** -LAG_POWER)
    return 1 + np.searchsorted(share / share[-1], (np.arange(256) + 0.5) / 256)


LAG_TABLE = lag_table()


@njit(nogil=True, cache=True)
def _sample_steps(weights, factors, key, stream, owner, position, tokens, top_k, locality, lags, counts):  # type: ignore[no-untyped-def]
    steps, experts = weights.shape
    slots = owner.shape[1]
    flat = factors.shape[0] == 0
    ratio = np.ones((slots, experts), np.float32)
    history = np.empty((slots, LAGS, top_k), np.int16)
    drawn = np.zeros(slots, np.int64)  # tokens that the history of a slot holds
    cdf = np.empty(experts)
    guide = np.empty(GUIDES, np.int64)
    mark = np.zeros(experts, np.int64)
    stamp = 0
    for step in range(steps):
        running = 0.0
        for e in range(experts):
            running += weights[step, e]
            cdf[e] = running
        total = running
        e = 0
        for g in range(GUIDES):
            while e < experts - 1 and cdf[e] <= (g / GUIDES) * total:
                e += 1
            guide[g] = e
        for s in range(slots):
            key_request = child_key(key, owner[step, s])
            if step == 0 or owner[step, s] != owner[step - 1, s]:
                drawn[s] = 0
                if not flat:
                    key_factor = child_key(key_request, FACTOR_STREAM)
                    e = 0
                    block = np.uint64(0)
                    largest = 0.0
                    while e < experts:
                        word = child_key(key_factor, block)
                        block += np.uint64(1)
                        for _ in range(min(LANES, experts - e)):
                            largest = max(largest, factors[word & LANE_MASK])
                            word >>= LANE_BITS
                            e += 1
                    e = 0
                    block = np.uint64(0)
                    while e < experts:
                        word = child_key(key_factor, block)
                        block += np.uint64(1)
                        for _ in range(min(LANES, experts - e)):
                            ratio[s, e] = factors[word & LANE_MASK] / largest
                            word >>= LANE_BITS
                            e += 1
            key_stream = child_key(key_request, stream)
            for t in range(tokens):
                key_token = child_key(key_stream, np.uint64(position[step, s] + t))
                stamp += 1
                attempt = np.uint64(0)
                place = drawn[s] % LAGS
                for i in range(top_k):
                    found = -1
                    if locality > 0.0:
                        word = child_key(key_token, COPY + np.uint64(i))
                        if (np.float64(word & LOW_24) + 0.5) * UNIT_24 < locality:
                            lag = lags[(word >> S24) & LOW_8]
                            if lag <= drawn[s]:
                                copied = history[s, (drawn[s] - lag) % LAGS, (word >> S32) % np.uint64(top_k)]
                                if mark[copied] != stamp:
                                    found = int(copied)
                    if found < 0:
                        for _ in range(TRIES):
                            word = child_key(key_token, attempt)
                            attempt += np.uint64(1)
                            u = (np.float64(word >> S24) + 0.5) * UNIT_40 * total
                            low = guide[np.int64(word >> S55)]
                            while low < experts - 1 and cdf[low] <= u:
                                low += 1
                            if mark[low] != stamp and (
                                flat or (np.float64(word & LOW_24) + 0.5) * UNIT_24 < ratio[s, low]
                            ):
                                found = low
                                break
                    if found < 0:
                        left = 0.0
                        for e in range(experts):
                            if mark[e] != stamp:
                                left += weights[step, e] * ratio[s, e]
                        word = child_key(key_token, attempt)
                        attempt += np.uint64(1)
                        u = (np.float64(word >> S24) + 0.5) * UNIT_40 * left
                        running = 0.0
                        for e in range(experts):
                            if mark[e] != stamp:
                                running += weights[step, e] * ratio[s, e]
                                found = e
                                if running > u:
                                    break
                    mark[found] = stamp
                    counts[step, found] += 1
                    history[s, place, i] = found
                drawn[s] += 1


def sample_steps(
    weights: np.ndarray,
    factors: np.ndarray,
    key: np.uint64,
    stream: int,
    owner: np.ndarray,
    position: np.ndarray,
    tokens: int,
    top_k: int,
    locality: float,
) -> np.ndarray:
    """Tokens per expert of one layer in ordered steps, int32 [steps, experts].

    weights: float64 [steps, experts], positive. factors: as in :func:`planner.routing.sampler.sample_counts`. key: of
    the layer. owner: uint64 [steps, slots], number of the request that decodes in each slot. position: int64 [steps,
    slots], index of its first token of the step. tokens: of each slot in a step. locality: probability s of a copy.
    """
    counts = np.zeros(weights.shape, np.int32)
    _sample_steps(
        kernel_input(weights, np.float64), kernel_input(factors, np.float64), np.uint64(key), np.uint64(stream),
        kernel_input(owner, np.uint64), kernel_input(position, np.int64), tokens, top_k, float(locality),
        kernel_input(LAG_TABLE, np.int64), counts,
    )  # fmt: skip
    return counts


def sample_steps_reference(
    weights: np.ndarray,
    factors: np.ndarray,
    key: np.uint64,
    stream: int,
    owner: np.ndarray,
    position: np.ndarray,
    tokens: int,
    top_k: int,
    locality: float,
) -> np.ndarray:
    """Plain twin of :func:`sample_steps`: same arguments, same bits."""
    steps, experts = weights.shape
    counts = np.zeros((steps, experts), np.int32)
    past: list[list[list[int]]] = [[] for _ in range(owner.shape[1])]
    for step in range(steps):
        cdf = np.cumsum(weights[step])
        for slot, request in enumerate(owner[step]):
            if step == 0 or request != owner[step - 1, slot]:
                past[slot] = []
            own = factors_of(child(key, request), experts, factors)
            ratio = (own / own.max()).astype(np.float32).astype(np.float64)
            for t in range(tokens):
                key_token = child(child(child(key, request), stream), position[step, slot] + t)
                chosen = _token(key_token, weights[step], cdf, ratio, factors.size == 0, past[slot], top_k, locality)
                past[slot].append(chosen)
                counts[step, chosen] += 1
    return counts


def _token(
    key: np.ndarray,
    weights: np.ndarray,
    cdf: np.ndarray,
    ratio: np.ndarray,
    flat: bool,
    past: list[list[int]],
    top_k: int,
    locality: float,
) -> list[int]:
    """Experts of one token in the order in which they are chosen."""
    words = child(key, np.arange(top_k * (TRIES + 1)))
    copies = child(key, COPY + np.arange(top_k, dtype=np.uint64))
    proposed = np.searchsorted(cdf, ((words >> S24) + 0.5) * UNIT_40 * cdf[-1], side="right")
    proposed = np.minimum(proposed, cdf.size - 1)
    accepted = ((words & LOW_24) + 0.5) * UNIT_24 < ratio[proposed]
    chosen: list[int] = []
    attempt = 0
    for word in copies:
        found = -1
        if (int(word & LOW_24) + 0.5) * UNIT_24 < locality:
            lag = int(LAG_TABLE[int((word >> S24) & LOW_8)])
            if lag <= len(past) and (copied := past[-lag][int(word >> S32) % top_k]) not in chosen:
                found = copied
        tries = 0
        while found < 0 and tries < TRIES:
            if (flat or accepted[attempt]) and int(proposed[attempt]) not in chosen:
                found = int(proposed[attempt])
            attempt += 1
            tries += 1
        if found < 0:
            free = ~np.isin(np.arange(weights.size), chosen)
            left = np.where(free, weights * ratio, 0.0)
            running = np.cumsum(left)
            over = np.flatnonzero(free & (running > ((words[attempt] >> S24) + 0.5) * UNIT_40 * running[-1]))
            found = int(over[0]) if over.size else int(np.flatnonzero(free)[-1])
            attempt += 1
        chosen.append(found)
    return chosen


def warm() -> None:
    """Compile (or load from the cache) the kernel on a tiny input."""
    one = np.zeros((1, 1))
    sample_steps(np.ones((1, 2)), np.ones(4096), np.uint64(1), 1, one, one, 1, 1, 0.5)
