"""Popularity of every expert: base (the model), domain (the workload) and phase (prefill or decode).

Each (layer, expert) has a standard normal z that is a mix of three independent ones,

    z = sqrt(base) z_base + sqrt(domain) z_domain + sqrt(phase) z_phase,   base + domain + phase = 1,

and the weight is the quantile of the wanted distribution at z: for a log-normal simply ln w = sigma z. So each phase
has exactly the wanted spread, and two log-normal phases have cosine exp(-sigma_phase^2). One request multiplies its
own log-normal factor onto this (see :mod:`planner.routing.sampler`).

Sources: spread per layer N(sigma, 0.15) and sigma about 0.7 from DeepSeek-V3/R1 expert loads
(github.com/johanna-rock/moe-balance), cosine 0.89 between prefill and decode from arXiv 2512.04476 (Mixtral-8x7B);
gamma with alpha = 1/CV^2 = 1/(exp(sigma^2) - 1) fits left-tailed loads (gpt-oss, DeepSeek-V2-Lite) better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit

from planner.routing.counter_rng import child, normal_quantile, uniform

LAYER_SPREAD = 0.15
FLOOR = -60.0
"""ln(weight / largest weight of the layer) is cut off here: such an expert is drawn once in 1e26 tokens."""

SIGMA, BASE, DOMAIN, PREFILL, DECODE = range(5)


@dataclass(frozen=True)
class Popularity:
    """Weights of one workload on one model, and the spread of each layer."""

    prefill: np.ndarray
    """float64 [layers, experts], largest of a layer = 1"""
    decode: np.ndarray
    """float64 [layers, experts], largest of a layer = 1"""
    sigma: np.ndarray
    """float64 [layers], standard deviation of ln(load) of the layer"""


@dataclass(frozen=True)
class Latent:
    """The standard normals behind the weights of one workload."""

    prefill: np.ndarray
    """float64 [layers, experts]"""
    decode: np.ndarray
    """float64 [layers, experts]"""
    sigma: np.ndarray
    """float64 [layers], standard deviation of ln(load) of the layer"""


def latent(key: np.uint64, layers: int, experts: int, sigma: float, domain_share: float, sigma_phase: float) -> Latent:
    """Normals of a workload; arguments as in :func:`popularity`."""
    spread = np.zeros(layers)
    if sigma > 0:
        drawn = normal_quantile(uniform(child(child(key, SIGMA), np.arange(layers))))
        spread = np.maximum(0.0, sigma + LAYER_SPREAD * drawn)
    total = np.maximum(spread, sigma_phase)
    phase_share = np.divide(sigma_phase**2, total**2, out=np.zeros(layers), where=total > 0)
    base = np.sqrt((1 - phase_share) * (1 - domain_share))[:, None] * _normals(key, BASE, layers, experts)
    domain = np.sqrt((1 - phase_share) * domain_share)[:, None] * _normals(key, DOMAIN, layers, experts)
    prefill, decode = (
        base + domain + np.sqrt(phase_share)[:, None] * _normals(key, which, layers, experts)
        for which in (PREFILL, DECODE)
    )
    return Latent(prefill, decode, total)


def popularity(
    key: np.uint64,
    layers: int,
    experts: int,
    sigma: float,
    domain_share: float,
    sigma_phase: float,
    distribution: Literal["lognormal", "gamma"] = "lognormal",
) -> Popularity:
    """Weights of a workload. ``key`` addresses the random source; the same key gives the same weights.

    sigma: spread of ln(load) of one phase, base, domain and phase together; a layer's own spread is drawn from
    N(sigma, 0.15), never below zero, and is zero everywhere when sigma is zero. domain_share: share of the variance
    outside the phase that belongs to the domain. sigma_phase: spread of the part that prefill and decode do not
    share; where it exceeds the layer's own spread, it is the layer's spread.
    """
    z = latent(key, layers, experts, sigma, domain_share, sigma_phase)
    prefill, decode = (
        weights_of(z.sigma[:, None] * each if distribution == "lognormal" else log_gamma_quantile(each, z.sigma))
        for each in (z.prefill, z.decode)
    )
    return Popularity(prefill, decode, z.sigma)


def weights_of(log_weights: np.ndarray) -> np.ndarray:
    """Weights whose largest along the last axis is 1, none below e^-60."""
    return np.exp(np.maximum(log_weights - log_weights.max(axis=-1, keepdims=True), FLOOR))


def _normals(key: np.uint64, which: int, layers: int, experts: int) -> np.ndarray:
    by_layer = child(child(key, which), np.arange(layers))
    return normal_quantile(uniform(child(by_layer[:, None], np.arange(experts))))


def log_gamma_quantile(z: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """ln of the quantile, at probability Phi(z), of a gamma variable with alpha = 1/(exp(sigma^2) - 1), scale 1.

    z: float64 [layers, experts]; sigma: float64 [layers]. A layer of sigma 0 gives zeros.
    """
    out = np.zeros_like(z)
    for layer in range(z.shape[0]):
        if sigma[layer] > 0:
            out[layer] = _log_gamma_quantiles(z[layer], 1.0 / math.expm1(sigma[layer] ** 2))
    return out


@njit(nogil=True, cache=True)
def _log_tails(alpha, y):  # type: ignore[no-untyped-def]
    """ln P and ln Q of the regularised incomplete gamma at x = e^y: series below alpha + 1, else Lentz's fraction."""
    x = math.exp(y)
    front = alpha * y - x - math.lgamma(alpha)
    if x < alpha + 1.0:
        term = 1.0 / alpha
        total = term
        n = alpha
        for _ in range(2000):
            n += 1.0
            term *= x / n
            total += term
            if term < total * 1e-16:
                break
        log_p = min(front + math.log(total), 0.0)
        return log_p, math.log(max(-math.expm1(log_p), 1e-300))
    b = x + 1.0 - alpha
    c = 1e300
    d = 1.0 / b
    h = d
    for i in range(1, 2000):
        a = -i * (i - alpha)
        b += 2.0
        d = 1.0 / (a * d + b)
        c = b + a / c
        h *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    log_q = min(front + math.log(h), 0.0)
    return math.log(max(-math.expm1(log_q), 1e-300)), log_q


@njit(nogil=True, cache=True)
def _log_gamma_quantiles(z, alpha):  # type: ignore[no-untyped-def]
    """Bisection with Newton steps on ln P (lower half) or ln Q (upper half) as a function of y = ln x."""
    out = np.empty(z.shape[0])
    for i in range(z.shape[0]):
        lower = z[i] < 0.0
        target = math.log(0.5 * math.erfc(abs(z[i]) / math.sqrt(2.0)))
        # P(alpha, x) <= x^alpha / Gamma(alpha + 1), and the 1 - 1e-300 quantile is below alpha + 40 sqrt(alpha) + 700
        low = (target if lower else math.log(0.5)) / alpha + math.lgamma(alpha + 1.0) / alpha
        high = math.log(alpha + 40.0 * math.sqrt(alpha) + 700.0)
        y = low if lower else math.log(alpha + 1.0)
        if y < low:
            y = 0.5 * (low + high)
        for _ in range(200):
            log_p, log_q = _log_tails(alpha, y)
            error = log_p - target if lower else target - log_q
            if error < 0.0:
                low = y
            else:
                high = y
            log_density = alpha * y - math.exp(y) - math.lgamma(alpha)
            slope = math.exp(log_density - (log_p if lower else log_q))
            step = y - error / slope if slope > 0.0 else low - 1.0
            if not (low <= step <= high):
                step = 0.5 * (low + high)
            if abs(step - y) <= 1e-13 * max(1.0, abs(y)):
                y = step
                break
            y = step
        out[i] = y
    return out


def warm() -> None:
    """Compile (or load from the cache) the quantile kernel on a tiny input."""
    log_gamma_quantile(np.zeros((1, 1)), np.ones(1))
