"""A counter-based random source: the same bits from NumPy and from Numba, whatever the order of the calls.

A *key* is a 64-bit word. ``child(key, index)`` is the output of splitmix64 (Steele, Lea and Flood, OOPSLA 2014,
"Fast splittable pseudorandom number generators") at position ``index`` of the sequence that starts at ``key``;
keys are nested to address a draw by (seed, layer, request, stream, token, attempt). No state is carried, so
results depend on the seed alone.

Normals and exponentials inside the sampling kernel come from tables of equally likely values, so that both
twins read identical numbers and no result depends on how a processor rounds a logarithm.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
ONE = np.uint64(1)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
UNIT = 2.0**-53

Word = int | np.unsignedinteger | np.ndarray

NORMAL_VALUES = 4096
EXPONENTIAL_VALUES = 2048


@njit(inline="always", nogil=True, cache=True)
def child_key(key, index):  # type: ignore[no-untyped-def]
    """Word number ``index`` of the sequence of ``key``, both uint64; the Numba twin of :func:`child`."""
    z = key + (index + ONE) * GOLDEN
    z = (z ^ (z >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    return z ^ (z >> S31)


def child(key: Word, index: Word) -> np.ndarray:
    """Word number ``index`` of the sequence of ``key`` (uint64 arrays, broadcast)."""
    with np.errstate(over="ignore"):
        z = np.asarray(key, np.uint64) + (np.asarray(index, np.uint64) + ONE) * GOLDEN
        z = (z ^ (z >> S30)) * MIX_1
        z = (z ^ (z >> S27)) * MIX_2
        return z ^ (z >> S31)


def uniform(words: np.ndarray) -> np.ndarray:
    """Uniform numbers in (0, 1) from 64-bit words: the upper 53 bits, at the middle of their interval."""
    return ((words >> S11).astype(np.float64) + 0.5) * UNIT


def normal_quantile(p: np.ndarray) -> np.ndarray:
    """Standard normal quantile of p in (0, 1), relative error about 1e-16 (Wichura 1988, algorithm AS 241)."""
    p = np.asarray(p, np.float64)
    q = p - 0.5
    out = np.empty_like(q)
    middle = np.abs(q) <= 0.425
    r = 0.180625 - q[middle] ** 2
    out[middle] = q[middle] * np.polyval(_A, r) / np.polyval(_B, r)
    tail = np.sqrt(-np.log(np.where(q < 0, p, 1.0 - p)[~middle]))
    near = tail <= 5.0
    value = np.empty_like(tail)
    value[near] = np.polyval(_C, tail[near] - 1.6) / np.polyval(_D, tail[near] - 1.6)
    value[~near] = np.polyval(_E, tail[~near] - 5.0) / np.polyval(_F, tail[~near] - 5.0)
    out[~middle] = np.where(q[~middle] < 0, -value, value)
    return out


def lognormal_table(sigma: float) -> np.ndarray:
    """exp(sigma z) over 4,096 equally likely z of mean 0 and variance 1 (quantiles at the middle of each bin)."""
    z = normal_quantile((np.arange(NORMAL_VALUES) + 0.5) / NORMAL_VALUES)
    z /= math.sqrt(float(np.mean(z * z)))
    return np.exp(sigma * z)


def exponential_table() -> np.ndarray:
    """2,048 equally likely values of a unit exponential: the mean of each bin, so that the mean is exactly 1."""
    tail = 1.0 - np.arange(EXPONENTIAL_VALUES + 1) / EXPONENTIAL_VALUES
    # mean over a bin of -ln(t), t uniform between two edges: the integral of -ln t is t - t ln t
    integral = tail - tail * np.log(np.where(tail > 0, tail, 1.0))
    return (integral[:-1] - integral[1:]) * EXPONENTIAL_VALUES


# coefficients of AS 241 (PPND16), highest power first
# fmt: off
_A = np.array(
    [2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0]
)
_B = np.array(
    [5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0]
)
_C = np.array(
    [7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0]
)
_D = np.array(
    [1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0]
)
_E = np.array(
    [2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0]
)
_F = np.array(
    [2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0]
)
# fmt: on
