"""Draws k distinct experts per token and counts them.

The model is Gumbel top-k: a token takes the k experts with the largest ln w + G, G standard Gumbel noise. That is
the Plackett-Luce law (Yellott 1977), so the same law comes from arrivals of a Poisson process: arrivals are
labelled e with probability w_e / sum(w), and the k experts that arrive first are the choice. Repeats are simply
arrivals of an expert that is already chosen. With arrival time T of an expert, ln w + G = -ln T, so its router
score before the softmax is -ln T and the k normalised scores are (1/T_i) / sum_j (1/T_j). At two equal choices the
larger score is ln 2 = 0.69 on average, as measured for Mixtral; with more choices the model is steeper than measured
(largest of six 0.48, DeepSeek-V2-Lite 0.29 to 0.38).

``sample_counts`` is the compiled kernel, ``sample_counts_reference`` its NumPy twin (the same draws, bit for bit);
``gumbel_top_k`` is the literal definition, for a test that the laws are equal.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planner.arrays import kernel_input
from planner.routing.counter_rng import S11, UNIT, child, child_key, exponential_table, uniform

ATTEMPTS = 48
"""Arrivals drawn for one expert before the kernel draws among the experts that are left."""

GUIDES = 512
"""Entries of the table that shortens the search in the cumulated weights where a request draws many tokens."""

GUIDED_DRAWS = 256
S55 = np.uint64(55)

LANES, LANE_BITS, LANE_MASK = 4, np.uint64(16), np.uint64(4095)
EXPONENTIAL_MASK = np.uint64(2047)
FACTOR_STREAM = np.uint64(0)
EXPONENTIALS = exponential_table()


@njit(nogil=True, cache=True)
def _sample(weights, factors, exponentials, key, stream, requests, tokens, steps, top_k, want_scores, counts, scores):  # type: ignore[no-untyped-def]
    layers, experts = weights.shape
    flat = factors.shape[0] == 0
    cdf = np.empty(experts)
    own = np.empty(experts)
    guide = np.empty(GUIDES, np.int64)
    mark = np.zeros(experts, np.int64)
    chosen = np.empty(top_k, np.int64)
    rate = np.empty(top_k)
    stamp = 0
    for layer in range(layers):
        guide_ready = False
        key_layer = child_key(key, np.uint64(layer))
        for r in range(requests.shape[0]):
            key_request = child_key(key_layer, requests[r])
            if not flat or r == 0:
                if flat:
                    for e in range(experts):
                        own[e] = weights[layer, e]
                else:
                    key_factor = child_key(key_request, FACTOR_STREAM)
                    e = 0
                    block = np.uint64(0)
                    while e < experts:
                        word = child_key(key_factor, block)
                        block += np.uint64(1)
                        for _ in range(min(LANES, experts - e)):
                            own[e] = weights[layer, e] * factors[word & LANE_MASK]
                            word >>= LANE_BITS
                            e += 1
                running = 0.0
                for e in range(experts):
                    running += own[e]
                    cdf[e] = running
            total = cdf[experts - 1]
            guided = tokens[r] * steps * top_k >= GUIDED_DRAWS
            if guided and (not flat or not guide_ready):
                e = 0
                for g in range(GUIDES):
                    while e < experts - 1 and cdf[e] <= (g / GUIDES) * total:
                        e += 1
                    guide[g] = e
                guide_ready = True
            key_stream = child_key(key_request, stream)
            for step in range(steps):
                for t in range(tokens[r]):
                    key_token = child_key(key_stream, np.uint64(step * tokens[r] + t))
                    stamp += 1
                    attempt = np.uint64(0)
                    time = 0.0
                    for i in range(top_k):
                        found = -1
                        for _ in range(ATTEMPTS):
                            word = child_key(key_token, attempt)
                            attempt += np.uint64(1)
                            u = (np.float64(word >> S11) + 0.5) * UNIT * total
                            if guided:
                                low = guide[np.int64(word >> S55)]
                                while low < experts - 1 and cdf[low] <= u:
                                    low += 1
                            else:
                                low = 0
                                n = experts
                                while n > 1:
                                    half = n >> 1
                                    low += half if cdf[low + half - 1] <= u else 0
                                    n -= half
                            time += exponentials[word & EXPONENTIAL_MASK]
                            if mark[low] != stamp:
                                found = low
                                break
                        if found < 0:
                            # nearly all weight is taken: draw among what is left, at its own rate of arrival
                            left = 0.0
                            for e in range(experts):
                                if mark[e] != stamp:
                                    left += own[e]
                            word = child_key(key_token, attempt)
                            attempt += np.uint64(1)
                            u = (np.float64(word >> S11) + 0.5) * UNIT * left
                            running = 0.0
                            for e in range(experts):
                                if mark[e] != stamp:
                                    running += own[e]
                                    found = e
                                    if running > u:
                                        break
                            time += exponentials[word & EXPONENTIAL_MASK] * (total / left)
                        mark[found] = stamp
                        chosen[i] = found
                        rate[i] = 1.0 / time
                        counts[step, layer, found] += 1
                    if want_scores:
                        whole = 0.0
                        for i in range(top_k):
                            whole += rate[i]
                        for i in range(top_k):
                            scores[layer, chosen[i]] += rate[i] / whole


def _checked(weights: np.ndarray, requests: np.ndarray, tokens: np.ndarray, top_k: int) -> None:
    if weights.ndim != 2 or not 1 <= top_k <= weights.shape[1]:
        raise ValueError(f"top_k is {top_k}; a layer of {weights.shape[-1]} experts takes 1 to {weights.shape[-1]}")
    if requests.shape != tokens.shape:
        raise ValueError(f"{requests.size} requests and {tokens.size} token counts; give one count for each request")


def sample_counts(
    weights: np.ndarray,
    factors: np.ndarray,
    key: np.uint64,
    stream: int,
    requests: np.ndarray,
    tokens: np.ndarray,
    steps: int,
    top_k: int,
    with_scores: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens per expert over ``steps`` passes in which request r contributes ``tokens[r]`` tokens.

    weights: float64 [layers, experts], positive popularity of the phase. factors: the equally likely values of the
    factor that one request puts on each expert (4,096 of them), or empty for none. requests: uint64 [R], the number
    of each request (its factors follow from key, layer and number, whatever the stream). stream: 1 or more, which
    set of tokens of these requests is drawn. Returns counts int32 [steps, layers, experts] and router scores
    float64 [layers, experts] (zeros unless asked for).
    """
    _checked(weights, requests, tokens, top_k)
    layers, experts = weights.shape
    counts = np.zeros((steps, layers, experts), np.int32)
    scores = np.zeros((layers, experts))
    _sample(
        kernel_input(weights, np.float64), kernel_input(factors, np.float64), EXPONENTIALS, np.uint64(key),
        np.uint64(stream), kernel_input(requests, np.uint64), kernel_input(tokens, np.int64), steps, top_k,
        with_scores, counts, scores,
    )  # fmt: skip
    return counts, scores


def request_factors(key: np.uint64, layer: int, request: int, experts: int, factors: np.ndarray) -> np.ndarray:
    """The factors of one request in one layer: float64 [experts], four 12-bit indices from each word."""
    return factors_of(child(child(key, layer), request), experts, factors)


def factors_of(key_request: np.ndarray, experts: int, factors: np.ndarray) -> np.ndarray:
    """The factors that belong to the key of a request in a layer: float64 [experts]."""
    if factors.size == 0:
        return np.ones(experts)
    words = child(child(key_request, FACTOR_STREAM), np.arange(-(-experts // LANES), dtype=np.uint64))
    lanes = (words[:, None] >> (LANE_BITS * np.arange(LANES, dtype=np.uint64))) & LANE_MASK
    return factors[lanes.astype(np.int64).ravel()[:experts]]


def sample_gate_weights(
    weights: np.ndarray, factors: np.ndarray, key: np.uint64, stream: int, requests: np.ndarray, tokens: int, top_k: int
) -> np.ndarray:
    """Normalised router scores of ``tokens`` tokens, float32 [tokens, top_k], largest first.

    Token t belongs to layer t mod layers and to request t // layers, and so on from the first request again. By the
    definition: the k largest of ln(w f) + Gumbel noise, softmax of these.
    """
    layers, experts = weights.shape
    number = np.arange(tokens)
    layer, request = number % layers, np.asarray(requests, np.uint64)[number // layers % requests.size]
    by_request = child(child(key, layer), request)
    logits = np.log(weights[layer])
    if factors.size:
        words = child(child(by_request, FACTOR_STREAM)[:, None], np.arange(-(-experts // LANES), dtype=np.uint64))
        lanes = (words[..., None] >> (LANE_BITS * np.arange(LANES, dtype=np.uint64))) & LANE_MASK
        logits = logits + np.log(factors)[lanes.astype(np.int64).reshape(tokens, -1)[:, :experts]]
    by_token = child(child(by_request, stream), number)
    logits = logits - np.log(-np.log(uniform(child(by_token[:, None], np.arange(experts)))))
    top = -np.partition(-logits, top_k - 1, axis=1)[:, :top_k]
    top = -np.sort(-top, axis=1)
    share = np.exp(top - top[:, :1])
    return np.asarray(share / share.sum(axis=1, keepdims=True), np.float32)


def sample_counts_reference(
    weights: np.ndarray,
    factors: np.ndarray,
    key: np.uint64,
    stream: int,
    requests: np.ndarray,
    tokens: np.ndarray,
    steps: int,
    top_k: int,
    with_scores: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """NumPy twin of :func:`sample_counts`: same arguments, same bits (scores add up in the same order)."""
    _checked(weights, requests, tokens, top_k)
    layers, experts = weights.shape
    counts = np.zeros((steps, layers, experts), np.int32)
    scores = np.zeros((layers, experts))
    for layer in range(layers):
        for request, length in zip(requests, tokens, strict=True):
            own = weights[layer] * request_factors(key, layer, int(request), experts, factors)
            cdf = np.cumsum(own)
            key_stream = child(child(child(key, layer), request), stream)
            for step in range(steps):
                for token in range(int(length)):
                    words = child(child(key_stream, step * int(length) + token), np.arange(top_k * (ATTEMPTS + 1)))
                    chosen, times = _token_reference(own, cdf, words, top_k)
                    counts[step, layer, chosen] += 1
                    if with_scores:
                        rate = 1.0 / times
                        scores[layer, chosen] += rate / np.cumsum(rate)[-1]
    return counts, scores


def _token_reference(own: np.ndarray, cdf: np.ndarray, words: np.ndarray, top_k: int) -> tuple[np.ndarray, np.ndarray]:
    """One token: the experts in order of arrival, and their times of arrival (unit: 1 / total weight)."""
    total = cdf[-1]
    u = ((words >> S11).astype(np.float64) + 0.5) * UNIT
    gap = EXPONENTIALS[(words & EXPONENTIAL_MASK).astype(np.int64)]
    drawn = np.minimum(np.searchsorted(cdf, u * total, side="right"), own.size - 1)
    free = np.ones(own.size, bool)
    chosen: list[int] = []
    times: list[float] = []
    attempt, time = 0, 0.0
    while len(chosen) < top_k:
        found = -1
        for _ in range(ATTEMPTS):
            expert = int(drawn[attempt])
            time += gap[attempt]
            attempt += 1
            if free[expert]:
                found = expert
                break
        if found < 0:
            left = np.where(free, own, 0.0)
            running = np.cumsum(left)
            over = np.flatnonzero(free & (running > u[attempt] * running[-1]))
            found = int(over[0]) if over.size else int(np.flatnonzero(free)[-1])
            time += gap[attempt] * (total / running[-1])
            attempt += 1
        free[found] = False
        chosen.append(found)
        times.append(time)
    return np.array(chosen), np.array(times)


def gumbel_top_k(rng: np.random.Generator, log_weights: np.ndarray, tokens: int, top_k: int) -> np.ndarray:
    """The definition: int64 [tokens, top_k], the experts with the largest ln w + Gumbel noise, largest first."""
    noisy = log_weights + rng.gumbel(size=(tokens, log_weights.size))
    return np.argsort(-noisy, axis=1)[:, :top_k]


def warm() -> None:
    """Compile (or load from the cache) the kernel on a tiny input."""
    one = np.ones(1, np.uint64)
    sample_counts(np.ones((1, 2)), np.ones(4096), np.uint64(1), 1, one, one.astype(np.int64), 1, 1, True)
